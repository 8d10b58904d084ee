"""Windows: each lane folds the elements of its own window, tap by tap; what follows is done in registers.

Neighbouring lanes are neighbouring results, with the channels last as many channels of one window: the elements that
windows share come from the cache.
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.codegen_gpu.source.element_types import is_widened
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.scalars import emit_cast, literal, table_of
from onnxc.compiler.codegen_gpu.source.sliding_windows import for_each_tap, window_axes
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, dims_of, unravel
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import F32, I32, I64, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.rows import identity
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import WindowSchedule
from onnxc.compiler.target import Target

_COMBINES = {"sum": "add", "max": "max", "min": "min"}


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a window kernel."""
    frame = open_kernel(kernel, target)
    op = next(op for op in kernel.block.ops if op.name in ("reduce_window", "arg_reduce_window"))
    result, fold = op.results[0], _index_of_maximum if op.name == "arg_reduce_window" else _fold

    def write(e: Evaluator, offset: Int) -> None:
        index = unravel(frame.b, offset, [frame.size(size) for size in result.shape])
        e.bound[result] = fold(frame, e, op, index)
        where = e.strided(index, row_major(frame.root.shape))
        e.store(e.value(frame.root, index), frame.root.dtype, frame.output(), where)

    return frame.flat(product(result.shape), write, kernel.scheduled(WindowSchedule).block)


def _fold(frame: KernelFrame, e: Evaluator, op: Op, index: Sequence[Int]) -> Expr:
    """The fold of one window, rounded to its type."""
    b, dtype, kind = frame.b, op.operands[0].dtype, op.text("kind")
    total = _variable(e, identity(kind, dtype), dtype)
    neutral = literal(b, identity(kind, dtype), dtype)

    def visit(x: Expr, elements: Sequence[Int], inside: Expr | None) -> None:
        kept = x if inside is None else b.let(f"tl.where({inside}, {x}, {neutral})", dims_of(inside, x))
        b.assign(total, table_of(dtype)[_COMBINES[kind]](b, dtype, total, kept).text)

    _for_each_element(frame, e, op, index, visit)
    return emit_cast(total, F32, dtype, b) if is_widened(dtype) and dtype.is_float else total


def _index_of_maximum(frame: KernelFrame, e: Evaluator, op: Op, index: Sequence[Int]) -> Expr:
    """Where the first of the greatest stands among the elements of its batch and channel; NaN is the greatest."""
    b, (operand,) = frame.b, op.operands
    dtype, strides = operand.dtype, [frame.size(stride) for stride in row_major(operand.shape[2:])]
    best, best_index = _variable(e, identity("max", dtype), dtype), _variable(e, -1, I64 if b.wide else I32)

    def visit(x: Expr, elements: Sequence[Int], inside: Expr | None) -> None:
        flat_index = e.spread(e.linear(elements[2:], strides), frozenset(e.lanes))
        greater = table_of(dtype)["less"](b, dtype, best, x).text
        if dtype.is_float:
            greater = f"({greater}) | (({x} != {x}) & ({best} == {best}))"
        wins = f"({greater}) | ({best_index} < 0)"
        wins = b.let(wins if inside is None else f"({wins}) & {inside}", best_index.dims).text
        b.assign(best, f"tl.where({wins}, {x}, {best})")
        b.assign(best_index, f"tl.where({wins}, {flat_index}, {best_index})")

    _for_each_element(frame, e, op, index, visit)
    return b.let(f"tl.maximum({best_index}, 0).to(tl.int64)", best_index.dims)


def _variable(e: Evaluator, value: float, dtype: DType) -> Expr:
    """A variable in each lane."""
    initial, dims = literal(e.b, value, dtype), frozenset(e.lanes)
    if not dims:
        return e.b.variable(initial.text)
    lanes = next(iter(e.lanes.values()))
    return e.b.variable(f"tl.where({lanes} >= 0, {initial}, {initial})", dims)


def _for_each_element(
    frame: KernelFrame,
    e: Evaluator,
    op: Op,
    index: Sequence[Int],
    visit: Callable[[Expr, Sequence[Int], Expr | None], None],
) -> None:
    """Calls `visit` with the elements of the window of a result, where they are, and which of them there are."""
    b, (operand,), axes = frame.b, op.operands, window_axes(op)
    firsts = [axis.first(b, position) for axis, position in zip(axes, index, strict=True)]

    def tap(taps: Sequence[Int]) -> None:
        elements: list[Int] = []
        inside: Expr | None = None
        for axis, first, tap_position in zip(axes, firsts, taps, strict=True):
            element, exists = axis.element(b, b.add(first, axis.ahead(b, tap_position)))
            elements.append(element)
            inside = b.both(inside, exists)
        own = Evaluator(b, e.pointers, e.reports, e.lanes, e.masks).wanted(inside)
        visit(own.value(operand, elements), elements, inside)

    for_each_tap(b, [axis.taps for axis in axes], tap)
