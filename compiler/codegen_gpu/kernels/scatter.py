"""Scatters: every element of the result looks for the updates that name it, in their order.

So nothing is written twice and the order of equal indices is that of the meaning, at the price of going through the
indices along the axis once for each element.
"""

from collections.abc import Sequence

from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.scalars import table_of
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, dims_of, unravel
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import ScatterSchedule
from onnxc.compiler.target import Target

_COMBINES = {"add": "add", "mul": "mul", "min": "min", "max": "max"}


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a scatter."""
    frame = open_kernel(kernel, target)
    op = next(op for op in kernel.block.ops if op.name in ("scatter_along", "scatter_nd"))
    apply = _apply_along if op.name == "scatter_along" else _apply_slices
    shape = op.results[0].shape

    def write(e: Evaluator, place: Int) -> None:
        index = unravel(frame.b, place, [frame.size(size) for size in shape])
        start = e.value(op.operands[0], index)
        total = frame.b.variable(e.everywhere(start).text, frozenset(e.lanes))
        apply(frame, e, op, index, total)
        e.store(total, frame.root.dtype, frame.output(), place)

    return frame.flat(product(shape), write, kernel.scheduled(ScatterSchedule).block)


def _apply_along(frame: KernelFrame, e: Evaluator, op: Op, index: Sequence[Int], total: Expr) -> None:
    """scatter_along: the updates of the element's own line along the axis."""
    b, (data, indices, updates), axis = frame.b, op.operands, op.int("axis")
    # The indices may cover less than the data along the other axes.
    covered: Expr | None = None
    for place, size, whole, other in zip(index, indices.shape, data.shape, range(data.rank), strict=True):
        if other != axis and size != whole:
            covered = b.both(covered, e.compare(place, "<", e.size(size)))
    with b.loop(0, frame.size(indices.shape[axis]), prefix="update") as number:
        inner = _within(e, covered)
        source = (*index[:axis], number, *index[axis + 1 :])
        position = inner.position(indices, source, data.shape[axis])
        hit = b.both(covered, inner.compare(position, "==", index[axis]))
        assert hit is not None, op
        _meet(op, inner, updates, source, hit, total)


def _apply_slices(frame: KernelFrame, e: Evaluator, op: Op, index: Sequence[Int], total: Expr) -> None:
    """scatter_nd: every update whose coordinates are those of the element's slice."""
    b, (data, indices, updates) = frame.b, op.operands
    depth, outer = indices.shape[-1], indices.shape[:-1]
    assert isinstance(depth, int), indices
    with b.loop(0, frame.size(product(outer)), prefix="update") as number:
        inner = _within(e, None)
        place = unravel(b, number, [frame.size(size) for size in outer])
        hit: Expr | None = None
        for axis in range(depth):
            position = inner.position(indices, (*place, axis), data.shape[axis])
            hit = b.both(hit, inner.compare(position, "==", index[axis]))
        _meet(op, inner, updates, (*place, *index[depth:]), hit, total)


def _within(e: Evaluator, condition: Expr | None) -> Evaluator:
    """An evaluator for statements of a loop."""
    inner = Evaluator(e.b, e.pointers, e.reports, e.lanes, e.masks)
    return inner if condition is None else inner.wanted(condition)


def _meet(op: Op, e: Evaluator, updates: Value, source: Sequence[Int], hit: Expr | None, total: Expr) -> None:
    """The update at `source` meets the element where `hit`."""
    kind, dtype, b = op.text("kind"), updates.dtype, e.b
    x = e.wanted(hit).value(updates, source)
    met = x if kind == "set" else table_of(dtype)[_COMBINES[kind]](b, dtype, total, x)
    b.assign(total, met.text if hit is None else f"tl.where({hit}, {met}, {total})")
    assert dims_of(met) <= total.dims, op
