"""Values made from nothing: constants, counters, and integer tensors whose elements are known as sizes."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.dtypes import DType, dtype_of
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import AxisLink, Inline, Primitive, TypeRuleError, define, no_axes, tensors
from onnxc.compiler.ir.primitives.movement import axis_of, dims_of
from onnxc.compiler.ir.types import TensorType, Type


def _dtype(attributes: Attributes) -> DType:
    dtype = attributes.get("dtype")
    if not isinstance(dtype, DType):
        raise TypeRuleError(f"dtype is {dtype}")
    return dtype


def _constant(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    tensors(operands, 0)
    value = attributes.get("value")
    if not isinstance(value, np.ndarray):
        raise TypeRuleError("value is not an array")
    return (TensorType(dtype_of(value.dtype), value.shape),)


def _iota(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    tensors(operands, 0)
    shape = dims_of(attributes, "shape")
    axis_of(attributes, len(shape))
    return (TensorType(_dtype(attributes), shape),)


def _iota_axes(op: Op) -> tuple[AxisLink, ...]:
    return tuple(AxisLink("map", (), (axis,)) for axis in range(op.results[0].rank) if axis != op.int("axis"))


def _sizes(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    tensors(operands, 0)
    values = dims_of(attributes, "values")
    if attributes.get("scalar") is True:
        if len(values) != 1:
            raise TypeRuleError(f"a scalar takes one value, got {len(values)}")
        return (TensorType(_dtype(attributes), ()),)
    return (TensorType(_dtype(attributes), (len(values),)),)


define(Primitive("constant", "generator", _constant, no_axes, kernel=Inline(cost=0)))
define(Primitive("iota", "generator", _iota, _iota_axes, kernel=Inline(cost=0)))
define(Primitive("sizes", "generator", _sizes, no_axes, kernel=Inline(cost=1)))
