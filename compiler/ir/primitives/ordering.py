"""Ordering: sorting along an axis, the largest or smallest k, and where elements are not zero or true."""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Attributes, Block
from onnxc.compiler.ir.primitive import Anchor, Primitive, TypeRuleError, define, no_axes, tensors
from onnxc.compiler.ir.primitives.movement import axis_of
from onnxc.compiler.ir.primitives.reductions import other_axes
from onnxc.compiler.ir.types import TensorType, Type


def _sort(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """T[d...] -> T[d...] in order along the axis, i64[d...] where each was; stable, NaN after every number."""
    (value,) = tensors(operands, 1)
    axis_of(attributes, value.rank)
    return value, TensorType(I64, value.shape)


def _top_k(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """T[d...] -> T[..., k, ...] in order along the axis, i64[..., k, ...] where each was; of equals the first first."""
    (value,) = tensors(operands, 1)
    axis, k = axis_of(attributes, value.rank), attributes.get("k")
    if not isinstance(k, int | Size):
        raise TypeRuleError(f"k is {k}, not a size")
    shape = (*value.known_shape[:axis], k, *value.known_shape[axis + 1 :])
    return TensorType(value.dtype, shape), TensorType(I64, shape)


def _non_zero(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """T[d0 ... dr-1] -> i64[r, symbol]: the coordinates of what is not zero, in row-major order; binds `symbol`."""
    (value,) = tensors(operands, 1)
    symbol = attributes.get("symbol")
    if not isinstance(symbol, str):
        raise TypeRuleError(f"symbol is {symbol}, not a name")
    return (TensorType(I64, (value.rank, Size.symbol(symbol))),)


def _true_positions(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: bool[n]  ->  i64[count]: where `x` is true, in order; behind the last one, and up to `count`, 0."""
    (x,) = tensors(operands, 1)
    count = attributes.get("count")
    if not isinstance(count, int | Size):
        raise TypeRuleError(f"count is {count}, not a size")
    if x.dtype != BOOL or x.rank != 1:
        raise TypeRuleError(f"{x} is not a vector of truth values")
    return (TensorType(I64, (count,)),)


define(Primitive("sort", "ordering", _sort, other_axes, kernel=Anchor("ordering")))
define(Primitive("top_k", "ordering", _top_k, other_axes, kernel=Anchor("ordering")))
define(Primitive("non_zero", "ordering", _non_zero, no_axes, kernel=None, binds="symbol"))
define(Primitive("true_positions", "composite", _true_positions, no_axes, kernel=Anchor("compaction")))
