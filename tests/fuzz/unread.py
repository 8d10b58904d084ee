"""Whether what is picked outside of an axis decides anything, or native code may do without it."""

from collections.abc import Mapping, MutableMapping, Sequence
from unittest.mock import patch

import numpy as np

from onnxc.compiler.ir import interpreter
from onnxc.compiler.ir.index_range import expect_indices_in_range, sizes_of_axes
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.host.values import HostValue, as_array


def values_without_unread(module: Module, feed: Mapping[str, HostValue]) -> Sequence[HostValue]:
    """The outputs where no element that an index outside of its axis picks or sets is read.

    Raises the InputError of such an index where one is, as two runs show: one takes the first element of the axis for
    it, the other the last.
    """
    first, last = (_run(module, feed, is_last=is_last) for is_last in (False, True))
    if repr(first) != repr(last) or not all(map(_same, first, last)):
        return interpreter.interpret(module, feed, clamp_indices=False)
    return first


def _same(one: HostValue, other: HostValue) -> bool:
    if not isinstance(one, np.ndarray) or one.dtype.kind == "O":
        return True
    return one.tobytes() == as_array(other).tobytes()


def _run(module: Module, feed: Mapping[str, HostValue], *, is_last: bool) -> tuple[HostValue, ...]:
    def take_another(op: Op, values: MutableMapping[Value, HostValue]) -> None:
        try:
            expect_indices_in_range(op, values)
        except InputError:
            data, indices = (as_array(values[operand]) for operand in op.operands[:2])
            sizes = np.array(sizes_of_axes(op, data.shape, indices.shape), np.int64)
            if (sizes < 2).any():
                raise
            is_outside = (indices < 0) | (indices >= sizes)
            values[op.operands[1]] = np.where(is_outside, sizes - 1 if is_last else 0, indices).astype(indices.dtype)

    try:
        with patch.object(interpreter, "expect_indices_in_range", take_another):
            return interpreter.interpret(module, feed, clamp_indices=False)
    except MemoryError as problem:
        raise DeviceError(f"another element makes a size: {problem}", code="out-of-memory") from problem
