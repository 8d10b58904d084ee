"""What a model made for a batch of one holds for all of an axis that the batch has been merged into.

Windows of an image, or heads, are merged with the batch: [B, 64, ...] becomes [64 * B, ...], and a constant for the 64
is added. For a larger batch the constant is repeated for each of its elements, wherever in the axis the batch lies.
"""

from collections.abc import Collection

from onnxc.compiler.frontend.overriding.held_sizes import HeldSize
from onnxc.compiler.frontend.overriding.renewal import Operands, Renewal
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.module import Value

__all__ = ["repeated_for_batch"]


def repeated_for_batch(at: Renewal, *, apart: Collection[int] = ()) -> Operands:
    """The operands of a node of which axes are the same, counted from the end, those without the batch repeated for it.

    apart: axes, below 0, along which each operand has its own.
    """
    batches = {axis: batch for index in range(len(at.operands)) for axis, batch in _batched(at, index).items()}
    operands = list(at.operands)
    for index, value in enumerate(at.operands):
        shapes = at.shapes(index)
        for axis, (old, batch) in batches.items():
            is_whole = (
                shapes is not None
                and len(shapes[0]) >= -axis
                and axis not in apart
                and shapes[0][axis] == shapes[1][axis] == old
            )
            if value is not None and is_whole:
                operands[index] = value = _repeated(value, value.rank + axis, batch, at.ir)
    return tuple(operands)


def _batched(at: Renewal, index: int) -> dict[int, tuple[Dim, HeldSize]]:
    """For the axes of an operand, from the end, that hold a batch beside others: the old size, and the batch."""
    shapes = at.shapes(index)
    if shapes is None:
        return {}
    rank = len(shapes[0])
    beside = [axis for axis in at.changed(index) if shapes[0][axis] != 1]
    batches = {axis: at.batch(index, axis) for axis in beside}
    return {axis - rank: (shapes[0][axis], batch) for axis, batch in batches.items() if batch is not None}


def _repeated(value: Value, axis: int, batch: HeldSize, ir: Builder) -> Value:
    """The tensor with each of the parts of `axis` that are faster than the batch as often as that is large."""
    shape, slower = value.shape, batch.slower
    if slower is None:
        return value
    outer, inner = shape[:axis], shape[axis + 1 :]
    split = ir.reshape(value, (*outer, slower, floordiv(shape[axis], slower), *inner))
    kept = [other if other <= axis else other + 1 for other in range(split.rank)]
    spread = ir.broadcast(split, kept, (*split.shape[: axis + 1], batch.new, *split.shape[axis + 1 :]))
    return ir.reshape(spread, (*outer, shape[axis] * batch.new, *inner))
