"""Rows of a result that pick what the row before them picked: copied from it, as where images grow."""

from collections.abc import Callable, Sequence

from onnxc.compiler.codegen_cpu.copies import Span, copy_row
from onnxc.compiler.codegen_cpu.element_types import memory_type
from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelFrame
from onnxc.compiler.codegen_host.llvm_masks import masked_load, masked_store
from onnxc.compiler.codegen_host.llvm_values import FALSE, Int, Reg, as_reg, vector_type
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.loops.views import row_major


def picked_again(root: Value) -> Value | None:
    """The indices of which each says what a row holds, where its columns are picked too; None for other results.

    A row whose columns lie as they are read is copied as fast from there.
    """
    return None if root.rank < 2 or _picks_along(root, root.rank - 1) is None else _picks_along(root, root.rank - 2)


def _picks_along(value: Value, axis: int) -> Value | None:
    """The indices in a list that a result of gathers alone is picked by along an axis."""
    op = value.op
    if op is None or op.name != "gather" or op.operands[1].rank != 1:
        return None
    return op.operands[1] if op.int("axis") == axis else _picks_along(op.operands[0], axis)


def write_or_repeat(
    frame: KernelFrame,
    picks: Value,
    write: Callable[[Sequence[Index], Int, Int], None],
    outer: Sequence[Index],
    start: Int,
    stop: Int,
) -> None:
    """Writes a row from `start` to `stop`: where `picks` says what it said of the row before, and that was written by
    this call, as a copy of it. Of rows in parts only the first parts are copied, whose units are counted by rows."""
    f, row = frame.f, as_reg(outer[-1].base)
    ordinal: Int = 0
    for coordinate, size in zip(outer, frame.root.shape[:-1], strict=True):
        ordinal = f.add(f.mul(ordinal, frame.size(size)), coordinate.base)
    is_behind = [f.icmp("sgt", ordinal, frame.begin), f.icmp("sgt", row, 0), f.icmp("eq", start, 0)]

    def is_same() -> Sequence[Reg]:
        here, before = (frame.evaluator().value(picks, (Index(f.sub(row, back)),)) for back in (0, 1))
        return (f.icmp("eq", here, before),)

    (is_again,) = f.if_(f.conjunction(is_behind), is_same, lambda: (FALSE,))
    f.if_(is_again, lambda: _repeat(frame, outer, start, stop), lambda: write(outer, start, stop))


def _repeat(frame: KernelFrame, outer: Sequence[Index], start: Int, stop: Int) -> None:
    """Copies the row before."""
    f, dtype, lanes, e = frame.f, frame.root.dtype, frame.lanes, frame.evaluator()
    length, memory = f.sub(stop, start), memory_type(dtype)
    target = e.strided((*outer, Index(start)), row_major(frame.root.shape)).base
    source, vector = f.sub(target, frame.size(frame.root.shape[-1])), vector_type(memory, lanes)

    def copy(column: Int, mask: Reg | None) -> None:
        origin, to = (f.gep(frame.output, f.add(offset, column), memory) for offset in (source, target))
        if mask is None:
            f.store(f.load(vector, origin), to)
        else:
            masked_store(f, masked_load(f, vector, origin, mask), to, mask)

    def vectors() -> None:
        whole = f.mul(f.sdiv(length, lanes), lanes)
        f.loop(0, whole, lanes, lambda column: copy(column, None))
        rest = f.sub(length, whole)
        f.if_(f.icmp("sgt", rest, 0), lambda: copy(whole, f.tail_mask(lanes, rest)))

    copy_row(f, dtype, Span(frame.output, source), Span(frame.output, target), length, vectors)
