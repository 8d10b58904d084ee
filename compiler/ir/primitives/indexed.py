"""Indexed access: elements picked, or replaced, at indices that data gives.

Indices are i64 and non-negative; one outside its axis is clamped here and reported as an InputError by the call. Of
those of a gather it may be `known` that they are inside, and then also that they are neighbors.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Inline, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.primitives.movement import axis_of, int_of
from onnxc.compiler.ir.types import TensorType, Type

INSIDE = "inside"
"""All indices are inside of the axis."""

HELD = "held"
"""They are, if it has elements, for they are computed and then held between its ends."""

NEIGHBORS = "neighbors"
"""They are, and each is the one before it, in row-major order, or one more: so many in a row span no more elements."""

SCATTER_KINDS = ("set", "add", "mul", "min", "max")

SCATTERED_FOLDS = {"sum": "add", "prod": "mul", "min": "min", "max": "max", "and": "min", "or": "max"}
"""The kind of scatter that folds as a reduction of each kind does; truth values are scattered as integers."""


def _expect_indices(indices: TensorType) -> None:
    if indices.dtype != I64:
        raise TypeRuleError(f"the indices are {indices}, not i64")


def _gather(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """data: T[d...], indices: i64[q...] -> T[d before axis, q..., d after axis]"""
    data, indices = tensors(operands, 2)
    _expect_indices(indices)
    axis = axis_of(attributes, data.rank)
    shape = data.known_shape[:axis] + indices.known_shape + data.known_shape[axis + 1 :]
    return (TensorType(data.dtype, shape),)


def _gather_axes(op: Op) -> tuple[AxisLink, ...]:
    data, indices, axis = *op.operands, op.int("axis")
    links = [AxisLink("map", (at, None), (at,)) for at in range(axis)]
    links += [AxisLink("map", (None, at), (axis + at,)) for at in range(indices.rank)]
    links += [AxisLink("map", (at, None), (at + indices.rank - 1,)) for at in range(axis + 1, data.rank)]
    return (*links, AxisLink("gather", (axis, None), (None,)))


def _gather_along(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """data: T[d...], indices: i64[q...] of the same rank, no q larger than d off the axis -> T[q...]"""
    data, indices = tensors(operands, 2)
    _expect_indices(indices)
    axis_of(attributes, data.rank)
    if data.rank != indices.rank:
        raise TypeRuleError(f"{data} and {indices} differ in rank")
    return (TensorType(data.dtype, indices.shape),)


def _gather_along_axes(op: Op) -> tuple[AxisLink, ...]:
    data, indices, axis = *op.operands, op.int("axis")
    links = [AxisLink("map", (None, axis), (axis,)), AxisLink("gather", (axis, None), (None,))]
    same = (at for at in range(data.rank) if at != axis and data.shape[at] == indices.shape[at])
    return (*links, *(AxisLink("map", (at, at), (at,)) for at in same))


def _gather_nd(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """data: T[b..., d...], indices: i64[b..., q..., k] -> T[b..., q..., d after the first k]"""
    data, indices = tensors(operands, 2)
    _expect_indices(indices)
    batch = int_of(attributes, "batch_dims")
    depth = indices.known_shape[-1] if indices.rank else None
    if not isinstance(depth, int) or not 0 <= batch < indices.rank or batch + depth > data.rank:
        raise TypeRuleError(f"{indices} with {batch} batch axes does not index {data}")
    return (TensorType(data.dtype, indices.known_shape[:-1] + data.known_shape[batch + depth :]),)


def _gather_nd_axes(op: Op) -> tuple[AxisLink, ...]:
    data, indices, batch = *op.operands, op.int("batch_dims")
    depth = indices.shape[-1]
    assert isinstance(depth, int)
    links = [AxisLink("map", (at, at), (at,)) for at in range(batch)]
    links += [AxisLink("map", (None, at), (at,)) for at in range(batch, indices.rank - 1)]
    shift = indices.rank - 1 - batch - depth
    links += [AxisLink("map", (at, None), (at + shift,)) for at in range(batch + depth, data.rank)]
    return (*links, *(AxisLink("gather", (at, None), (None,)) for at in range(batch, batch + depth)))


def _scatter_kind(attributes: Attributes) -> None:
    if attributes.get("kind") not in SCATTER_KINDS:
        raise TypeRuleError(f"kind is {attributes.get('kind')}, not one of {', '.join(SCATTER_KINDS)}")


def _scatter_along(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """data: T[d...], indices: i64[q...], updates: T[q...] -> T[d...]; updates are applied in row-major order."""
    data, indices, updates = tensors(operands, 3)
    _expect_indices(indices)
    _scatter_kind(attributes)
    axis_of(attributes, data.rank)
    if indices.rank != data.rank or updates != TensorType(data.dtype, indices.shape):
        raise TypeRuleError(f"{updates} at {indices} does not fit {data}")
    return (data,)


def _scatter_along_axes(op: Op) -> tuple[AxisLink, ...]:
    data, indices, _ = op.operands
    same = (axis for axis in range(data.rank) if axis != op.int("axis") and data.shape[axis] == indices.shape[axis])
    return tuple(AxisLink("map", (axis, axis, axis), (axis,)) for axis in same)


def _scatter_nd(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """data: T[d...], indices: i64[q..., k], updates: T[q..., d after the first k] -> T[d...], in row-major order"""
    data, indices, updates = tensors(operands, 3)
    _expect_indices(indices)
    _scatter_kind(attributes)
    depth = indices.known_shape[-1] if indices.rank else None
    if not isinstance(depth, int) or depth > data.rank:
        raise TypeRuleError(f"{indices} does not index {data}")
    if updates != TensorType(data.dtype, indices.known_shape[:-1] + data.known_shape[depth:]):
        raise TypeRuleError(f"{updates} at {indices} does not fit {data}")
    return (data,)


def _scatter_nd_axes(op: Op) -> tuple[AxisLink, ...]:
    data, indices, _ = op.operands
    depth = indices.shape[-1]
    assert isinstance(depth, int)
    shift = indices.rank - 1 - depth
    return tuple(AxisLink("map", (axis, None, axis + shift), (axis,)) for axis in range(depth, data.rank))


define(Primitive("gather", "indexed", _gather, _gather_axes, kernel=Inline(cost=3)))
define(Primitive("gather_along", "indexed", _gather_along, _gather_along_axes, kernel=Inline(cost=4)))
define(Primitive("gather_nd", "indexed", _gather_nd, _gather_nd_axes, kernel=Inline(cost=6)))
define(Primitive("scatter_along", "indexed", _scatter_along, _scatter_along_axes, kernel=Anchor("scatter")))
define(Primitive("scatter_nd", "indexed", _scatter_nd, _scatter_nd_axes, kernel=Anchor("scatter")))
