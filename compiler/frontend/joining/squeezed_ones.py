"""Tensors squeezed of all their axes of size 1, where only data tells which those are."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.records import record


def may_be_one(size: Dim) -> bool:
    """Whether a size is 1, or only data tells."""
    return size != 0 and not at_least(size, 2)


@record
class Squeezed:
    """A tensor that is squeezed of its ones: the axes that are, and those of which only data tells."""

    tensor: Value
    ones: tuple[int, ...]
    open_axes: tuple[int, ...]

    @property
    def ranks(self) -> range:
        """Those that the result may have."""
        most = self.tensor.rank - len(self.ones)
        return range(most - len(self.open_axes), most + 1)

    def rank(self, ir: Builder) -> Value:
        """i64[]: that of the result."""
        rank = ir.size(self.ranks[-1])
        for axis in self.open_axes:
            rank = ir.sub(rank, ir.cast(ir.equal(ir.size(self.tensor.shape[axis]), 1), I64))
        return rank

    def of_rank(self, rank: int, ir: Builder) -> Value | None:
        """The result, where its rank says that all axes of symbolic size are ones, or that none is."""
        if rank == self.ranks[0]:
            return ir.squeeze(self.tensor, [*self.ones, *self.open_axes])
        if rank != self.ranks[-1]:
            return None
        for axis in self.open_axes:
            size, message = self.tensor.shape[axis], f"Squeeze without axes keeps axis {axis}, and its size is 1"
            ir.guard(maximum(size - 1, 1 - size), 1, "at_least", message)
        return ir.squeeze(self.tensor, self.ones)


def squeezed(value: Value) -> Squeezed | None:
    """What a value of unknown rank is squeezed from, or None where it is another."""
    if value.op is None or value.op.name != "host" or value.op.text("function") != "squeeze_ones":
        return None
    (x,) = value.op.operands
    ones = tuple(axis for axis, size in enumerate(x.shape) if size == 1)
    open_axes = tuple(axis for axis, size in enumerate(x.shape) if may_be_one(size) and axis not in ones)
    return Squeezed(x, ones, open_axes)


def may_have_any_rank(value: Value) -> bool:
    """Whether only data tells the rank of a tensor, and nothing that it was squeezed from bounds it."""
    return isinstance(value.type, TensorType) and value.type.shape is None and squeezed(value) is None
