"""Which indices of an indexed op are outside of their axes: what the targets that people call refuse.

The meanings clamp them (runtime/host/indexed.py), so that folding and passes may compute anything.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.runtime.errors import InputError
from onnxc.runtime.host.values import HostValue, as_array

__all__ = ["expect_indices_in_range", "given_indices", "is_indexed", "sizes_of_axes"]


def is_indexed(op: Op) -> bool:
    """Whether the op picks or places elements at indices that are data."""
    return op.name in PRIMITIVES and PRIMITIVES[op.name].kind == "indexed"


def expect_indices_in_range(op: Op, values: Mapping[Value, HostValue]) -> None:
    """InputError where an indexed op would pick or set an element outside of an axis, as native code has it.

    Where there is nothing to pick or to set, no index is looked at.
    """
    data, indices = (as_array(values[operand]) for operand in op.operands[:2])
    if not _is_read(op, data, indices, values):
        return
    sizes = np.array(sizes_of_axes(op, data.shape, indices.shape), np.int64)
    outside = np.argwhere((indices < 0) | (indices >= sizes))
    if len(outside):
        first = tuple(outside[0])
        given = np.broadcast_to(as_array(values[given_indices(op.operands[1])]), indices.shape)[first]
        message = f"index {given} is outside of an axis of size {np.broadcast_to(sizes, indices.shape)[first]}"
        raise InputError(message, code="index-out-of-range")


def given_indices(indices: Value) -> Value:
    """The indices before negative ones were counted from the end, as a message should show them."""
    op = indices.op
    if op is None or op.name != "select":
        return indices
    _, wrapped, given = op.operands
    return given if wrapped.op is not None and wrapped.op.name == "add" and given in wrapped.op.operands else indices


def _is_read(op: Op, data: np.ndarray, indices: np.ndarray, values: Mapping[Value, HostValue]) -> bool:
    """Whether there are indices, and elements at them."""
    if op.name.startswith("scatter"):
        return indices.size > 0 and as_array(values[op.operands[2]]).size > 0
    if op.name == "gather":
        return indices.size > 0 and 0 not in (*data.shape[: op.int("axis")], *data.shape[op.int("axis") + 1 :])
    if op.name == "gather_nd":
        last = op.int("batch_dims") + indices.shape[-1]
        return indices.size > 0 and 0 not in data.shape[last:]
    return indices.size > 0


def sizes_of_axes(op: Op, data: Sequence[int], indices: Sequence[int]) -> int | Sequence[int]:
    """The size of the axis that each index counts along; for rows of indices one for each of their columns."""
    if op.name in ("gather_nd", "scatter_nd"):
        first = op.int("batch_dims") if op.name == "gather_nd" else 0
        return data[first : first + indices[-1]]
    return data[op.int("axis")]
