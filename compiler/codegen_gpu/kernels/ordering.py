"""Sorts and the greatest k: every element counts those that come before it, and goes to that place.

The work grows with the square of a line, all of it independent; equal elements keep their order.
"""

from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, unravel
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import OrderingSchedule
from onnxc.compiler.planning.views import row_major
from onnxc.compiler.target import Target

ELEMENT, OTHER = 0, 1
"""The dimensions of a tile: elements to be placed, elements that they are compared with."""


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a sort or of top_k."""
    frame, size = open_kernel(kernel, target, rank=2), kernel.scheduled(OrderingSchedule).tile
    b, elements, others = frame.b, size.rows, size.columns
    op = next(op for op in kernel.block.ops if op.name in ("sort", "top_k"))
    (operand,), axis = op.operands, op.int("axis")
    descending = op.flag("descending") if op.name == "sort" else op.flag("largest")
    length = operand.shape[axis]
    outer = [place for place in range(operand.rank) if place != axis]
    tiles = floordiv(length + elements - 1, elements)
    counts: list[Dim] = [*(operand.shape[place] for place in outer), tiles]
    *line, tile = unravel(b, b.program(), [frame.size(size) for size in counts])
    stop = frame.size(length)

    def at(place: Int) -> list[Int]:
        known = dict(zip(outer, line, strict=True)) | {axis: place}
        return [known[number] for number in range(operand.rank)]

    element = b.add(b.mul(tile, elements), b.lanes(ELEMENT, elements))
    exists = b.compare(element, "<", stop)
    e = frame.evaluator({ELEMENT: b.lanes(ELEMENT, elements)}, {ELEMENT: exists})
    x = e.value(operand, at(element))
    rank = b.variable(f"tl.zeros([{elements}, 1], tl.int32)", frozenset((ELEMENT,)))
    with b.loop(0, stop, others, prefix="first") as first:
        other = b.add(first, b.lanes(OTHER, others))
        inside = b.compare(other, "<", stop)
        y = frame.evaluator({OTHER: b.lanes(OTHER, others)}, {OTHER: inside}).value(operand, at(other))
        earlier = _comes_before(frame, operand.dtype, y, x, descending)
        same = _is_same(frame, operand.dtype, y, x)
        ahead = b.let(f"{inside} & ({earlier} | ({same} & ({other} < {element})))", frozenset((ELEMENT, OTHER)))
        b.assign(rank, f"{rank} + tl.sum({ahead}.to(tl.int32), 1, keep_dims=True)")
    kept = op.results[0].shape[axis]
    wanted = None if kept == length else b.compare(rank, "<", frame.size(kept))
    strides = [frame.size(stride) for stride in row_major(op.results[0].shape)]
    place = e.linear(at(rank), strides)
    for number, result in enumerate(kernel.block.results):
        written = x if result == op.results[0] else b.let(f"{element}.to(tl.int64)", frozenset((ELEMENT,)))
        e.store(written, result.dtype, frame.output(number), place, wanted)
    return frame.code((product(counts),))


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
