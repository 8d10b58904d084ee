"""The builder of a custom operator's body: what lowerings make sure of by themselves, it checks."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from onnxc.compiler.frontend.custom.element_types import element_type
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.building.sizes import Number, Operand
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Attributes, Block, Value
from onnxc.compiler.ir.primitive import PRIMITIVES, ElementClass
from onnxc.compiler.ir.types import Type

__all__ = ["CheckedBuilder"]

_IS_TAKEN: Mapping[ElementClass, Callable[[DType], bool]] = {
    "any elements": lambda dtype: True,
    "numbers": lambda dtype: not dtype.is_bool and not dtype.is_string,
    "floats": lambda dtype: dtype.is_float,
    "integers or truth values": lambda dtype: dtype.is_integer or dtype.is_bool,
}


class CheckedBuilder(Builder):
    """Makes ops in the block of another builder; elements that a slice or a broadcast reads are sure to exist."""

    def __init__(self, enclosing: Builder) -> None:
        super().__init__(enclosing.symbols, enclosing.location)
        # One list of ops, and one set of the guards among them.
        self.ops, self._guarded = enclosing.ops, enclosing._guarded

    def scalar(self, value: Number, dtype: object) -> Value:
        """A constant of rank 0 or of an array, whose element type has whatever names one. Raises TypeError."""
        wanted, array = element_type(dtype), np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{value!r} is neither a value of the builder nor a number")
        if wanted.is_integer and not np.array_equal(array, np.trunc(array)):
            raise TypeError(f"{value!r} is no {wanted}: cast the other operand, or round the number")
        return super().scalar(value, wanted)

    def full(self, shape: Sequence[Dim], value: Number, dtype: object) -> Value:
        """As for any builder; the element type is whatever names one."""
        return super().full(shape, value, element_type(dtype))

    def iota(self, shape: Sequence[Dim], axis: int, dtype: object) -> Value:
        """As for any builder; the element type is whatever names one."""
        return super().iota(shape, axis, element_type(dtype))

    def cast(self, x: Value, dtype: object, saturate: bool = True, round_mode: str = "nearest") -> Value:
        """As for any builder; the element type is whatever names one."""
        return super().cast(x, element_type(dtype), saturate, round_mode)

    def slice_axis(self, x: Value, axis: int, start: Dim, size: Dim, step: int = 1) -> Value:
        """`size` elements along one axis; ModelError, or an InputError of the call, where not all exist."""
        last = start + (size - 1) * step
        low, high = (start, last) if step > 0 else (last, start)
        what = f"{x.type} has not all of the {size} elements from {start} by {step} of axis {axis}"
        for left, right in ((size, 0), (low, 0), (x.shape[axis], high + 1)):
            self._require_at_least(left, right, what)
        return super().slice_axis(x, axis, start, size, step)

    def broadcast_to(self, x: Value, shape: Sequence[Dim]) -> Value:
        """`x` repeated along new axes in front, and along those whose size is the number 1."""
        own = shape[len(shape) - x.rank :]
        for size, wanted in zip(x.shape, own, strict=False):
            if size != 1:
                self.require_equal(size, wanted, f"{x.type} cannot be broadcast to {list(shape)}")
        return super().broadcast_to(x, shape)

    def _require_at_least(self, left: Dim, right: Dim, message: str) -> None:
        """Guarded where it is not decided."""
        if at_least(left, right):
            return
        if at_least(right, left + 1):
            self.fail("slice-range", message)
        self.guard(left, right, "at_least", message)

    def _operands(self, *operands: Operand) -> tuple[Value, ...]:
        if not any(isinstance(operand, Value) for operand in operands):
            raise TypeError(f"of {', '.join(map(repr, operands))} none is a value of the builder: make one by scalar")
        return super()._operands(*operands)

    def _result_types(
        self,
        name: str,
        operands: Sequence[Value],
        attributes: Attributes,
        blocks: Sequence[Block],
        declared: Sequence[Type] | None,
    ) -> tuple[Type, ...]:
        taken = PRIMITIVES[name].takes
        types = [str(operand.type) for operand in operands]
        if not all(_IS_TAKEN[taken](operand.dtype) for operand in operands):
            self.fail("type-mismatch", f"{name} takes {taken}: cast what it is given", types)
        if name == "dot" and operands[0].dtype != operands[1].dtype:
            self.fail("type-mismatch", "a product takes operands of one element type: cast one of them", types)
        return super()._result_types(name, operands, attributes, blocks, declared)
