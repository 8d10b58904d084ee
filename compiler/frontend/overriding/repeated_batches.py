"""What a model made for a batch of one holds for all of an axis that the batch has been merged into.

Windows of an image, or heads, are merged with the batch: [B, 64, ...] becomes [64 * B, ...], and a constant for the 64
is added. For a larger batch the constant is repeated for each of its elements, which are the slower index.
"""

from onnxc.compiler.frontend.overriding.batched_indices import batch_along
from onnxc.compiler.frontend.overriding.renewal import Operands, Renewal
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value

__all__ = ["repeated_for_batch"]


def repeated_for_batch(at: Renewal, *, inner_axes: int) -> Operands:
    """The operands of a node that broadcasts all but the last `inner_axes`, those without the batch repeated for it."""
    times = {axis: count for index in range(len(at.operands)) for axis, count in _batched(at, index).items()}
    operands = list(at.operands)
    for index, value in enumerate(at.operands):
        shapes = at.shapes(index)
        for axis, (old, count) in times.items():
            is_whole = (
                shapes is not None
                and len(shapes[0]) >= -axis > inner_axes
                and shapes[0][axis] == shapes[1][axis] == old
            )
            if value is not None and is_whole:
                operands[index] = value = _repeated(value, value.rank + axis, count, at.ir)
    return tuple(operands)


def _batched(at: Renewal, index: int) -> dict[int, tuple[Dim, Dim]]:
    """For the axes of an operand, from the end, that hold a batch beside others: the old size, and the batch."""
    shapes = at.shapes(index)
    if shapes is None:
        return {}
    batches = {axis: batch_along(at, index, axis) for axis in at.changed(index) if shapes[0][axis] != 1}
    rank = len(shapes[0])
    return {axis - rank: (shapes[0][axis], batch) for axis, batch in batches.items() if batch is not None}


def _repeated(value: Value, axis: int, times: Dim, ir: Builder) -> Value:
    """The tensor `times` times, one behind the other along `axis`."""
    shape = value.shape
    kept = [other if other < axis else other + 1 for other in range(value.rank)]
    spread = ir.broadcast(value, kept, (*shape[:axis], times, *shape[axis:]))
    return ir.reshape(spread, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))
