"""Sorts and the greatest k. In short lines every element counts those that come before it, and goes behind them.

That work grows with the square of a line, all of it independent; equal elements keep their order. Long lines are sorted
by digits, and of those of which little is kept, the best are left in rounds.
"""

from onnxc.compiler.codegen_gpu.schedules.orderings import ordering_of, radix_of, rounds_of
from onnxc.compiler.codegen_gpu.sorting.digits import sort_by_digits
from onnxc.compiler.codegen_gpu.sorting.lines import Lines
from onnxc.compiler.codegen_gpu.sorting.rounds import order_in_rounds
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, unravel
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import OrderingSchedule, Tile
from onnxc.compiler.target import Target

ELEMENT, OTHER = 0, 1
"""The dimensions of a tile: elements to be placed, elements that they are compared with."""


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a sort or of top_k."""
    schedule, op = kernel.scheduled(OrderingSchedule), ordering_of(kernel.block)
    match schedule.algorithm:
        case "digits":
            return sort_by_digits(kernel, Lines(op), radix_of(op), target)
        case "rounds":
            return order_in_rounds(kernel, Lines(op), rounds_of(op), target)
    return _count(open_kernel(kernel, target, rank=2), Lines(op), schedule.tile)


def _count(frame: KernelFrame, lines: Lines, tile: Tile) -> KernelCode:
    """Every element of a line is compared with all of them."""
    b, elements, others, operand = frame.b, tile.rows, tile.columns, lines.operand
    tiles = floordiv(lines.length + elements - 1, elements)
    line, own_tile = unravel(b, b.program(), [frame.size(lines.count), frame.size(tiles)])
    stop = frame.size(lines.length)
    element = b.add(b.mul(own_tile, elements), b.lanes(ELEMENT, elements))
    exists = b.compare(element, "<", stop)
    e = frame.evaluator({ELEMENT: b.lanes(ELEMENT, elements)}, {ELEMENT: exists})
    x = e.value(operand, lines.at(frame, line, element))
    rank = b.variable(f"tl.zeros([{elements}, 1], tl.int32)", frozenset((ELEMENT,)))
    with b.loop(0, stop, others, prefix="first") as first:
        other = b.add(first, b.lanes(OTHER, others))
        inside = b.compare(other, "<", stop)
        of_others = frame.evaluator({OTHER: b.lanes(OTHER, others)}, {OTHER: inside})
        y = of_others.value(operand, lines.at(frame, line, other))
        earlier = _comes_before(frame, operand.dtype, y, x, lines.descending)
        same = _is_same(frame, operand.dtype, y, x)
        ahead = b.let(f"{inside} & ({earlier} | ({same} & ({other} < {element})))", frozenset((ELEMENT, OTHER)))
        b.assign(rank, f"{rank} + tl.sum({ahead}.to(tl.int32), 1, keep_dims=True)")
    e.bound[operand] = x
    wanted = None if lines.kept == lines.length else b.compare(rank, "<", frame.size(lines.kept))
    lines.write(frame, e, (line, rank), element, wanted)
    return frame.code((lines.count * tiles,))


def _comes_before(frame: KernelFrame, dtype: DType, x: Expr, y: Expr, descending: bool) -> Expr:
    """Whether x comes before y, which is not the same; NaN is greater than every number."""
    b, dims = frame.b, x.dims | y.dims
    low, high = (y, x) if descending else (x, y)
    if dtype.is_bool:
        return b.let(f"({low} == 0) & {high}", dims)
    less = f"({low} < {high})"
    if dtype.is_float:
        less = f"({less} | (({high} != {high}) & ({low} == {low})))"
    return b.let(less, dims)


def _is_same(frame: KernelFrame, dtype: DType, x: Expr, y: Expr) -> Expr:
    b, dims = frame.b, x.dims | y.dims
    if dtype.is_bool:
        return b.let(f"({x} ^ {y}) == 0", dims)
    same = f"({x} == {y})"
    if dtype.is_float:
        same = f"({same} | (({x} != {x}) & ({y} != {y})))"
    return b.let(same, dims)
