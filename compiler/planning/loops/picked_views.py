"""Matrices that indices pick: a strided view of a buffer, behind a place in one of its axes that is data."""

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.loops.views import View, move, operand_view, row_major
from onnxc.runtime.records import record

__all__ = ["PickedView", "operand_pick", "pick_from"]


@record
class PickedView:
    """A gather, and movements of its result.

    An element lies where `data` says, and the index that picks it times `step` elements further on. ordinals: which of
    the indices that is, as a view of them. pick: the gather.
    """

    pick: Op
    data: View
    step: Dim
    ordinals: View

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of what is picked and moved."""
        return self.data.shape

    @property
    def size(self) -> Dim:
        """The size of the axis in which indices are positions."""
        return self.pick.operands[0].shape[self.pick.int("axis")]

    def moved(self, op: Op) -> "PickedView | None":
        """The view after one movement, or None where it is not a matter of strides."""
        data, ordinals = move(self.data, op), move(self.ordinals, op)
        if data is None or ordinals is None:
            return None
        return PickedView(self.pick, data, self.step, ordinals)


def pick_from(pick: Op, data: View) -> PickedView:
    """What a gather picks from a view of its data."""
    axis, indices, shape = pick.int("axis"), pick.operands[1], pick.result.shape
    behind = axis + indices.rank
    strides = (*data.strides[:axis], *(0,) * indices.rank, *data.strides[axis + 1 :])
    counts = (*(0,) * axis, *row_major(indices.shape), *(0,) * (len(shape) - behind))
    return PickedView(
        pick, View(data.base, shape, data.offset, strides), data.strides[axis], View(indices, shape, 0, counts)
    )


def operand_pick(value: Value) -> PickedView | None:
    """What a value of a kernel's block picks of a parameter, through movements alone; None where it is no such pick."""
    if value.op is None:
        return None
    if value.op.name == "gather":
        data = operand_view(value.op.operands[0])
        return None if data is None else pick_from(value.op, data)
    inner = operand_pick(value.op.operands[0]) if len(value.op.operands) == 1 else None
    return None if inner is None else inner.moved(value.op)
