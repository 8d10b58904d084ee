"""Tensors squeezed of all their axes of size 1, where only data tells which those are."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.module import Value


def may_be_one(size: Dim) -> bool:
    """Whether a size is 1, or only data tells."""
    return size != 0 and not at_least(size, 2)


def squeezed_to(value: Value, rank: int, ir: Builder) -> Value | None:
    """What is squeezed of its ones, where its rank says that all axes of symbolic size are ones, or that none is."""
    if value.op is None or value.op.name != "host" or value.op.text("function") != "squeeze_ones":
        return None
    (x,) = value.op.operands
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    open_axes = [axis for axis, size in enumerate(x.shape) if may_be_one(size) and axis not in ones]
    if rank == x.rank - len(ones) - len(open_axes):
        return ir.squeeze(x, [*ones, *open_axes])
    if rank != x.rank - len(ones):
        return None
    for axis in open_axes:
        size, message = x.shape[axis], f"Squeeze without axes keeps axis {axis}, and its size is 1"
        ir.guard(maximum(size - 1, 1 - size), 1, "at_least", message)
    return ir.squeeze(x, ones)
