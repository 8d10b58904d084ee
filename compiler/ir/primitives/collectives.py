"""Collectives: exchanges within groups of devices. `groups` lists the devices of each group, in the order of blocks.

`reshard` says how its operand, which stays what it is, is divided from here on: it is one value for all devices, and
partitioning makes collectives of it. `enter_stage` says of which pipeline stage its operand is from here on, and
cutting makes transfers of it.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import AxisLink, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.primitives.movement import axis_of
from onnxc.compiler.ir.primitives.pointwise import pointwise_axes
from onnxc.compiler.ir.sharding import parse_mesh, parse_sharding
from onnxc.compiler.ir.types import TensorType, Type


def _resized(value: TensorType, axis: int, group: int, *, grows: bool) -> TensorType:
    size = value.known_shape[axis]
    size = size * group if grows else floordiv(size, group)
    return TensorType(value.dtype, (*value.known_shape[:axis], size, *value.known_shape[axis + 1 :]))


def _group(attributes: Attributes) -> int:
    """How many devices each group has."""
    groups = attributes.get("groups")
    sizes = {len(group) for group in groups if isinstance(group, tuple)} if isinstance(groups, tuple) else set()
    if len(sizes) != 1 or 0 in sizes:
        raise TypeRuleError(f"groups is {groups}, not groups of one size")
    return sizes.pop()


def _same(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    return tensors(operands, 1)


def _all_gather(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    return (_resized(value, axis_of(attributes, value.rank), _group(attributes), grows=True),)


def _reduce_scatter(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    return (_resized(value, axis_of(attributes, value.rank), _group(attributes), grows=False),)


def _all_to_all(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    group = _group(attributes)
    split = _resized(value, axis_of(attributes, value.rank, "split_axis"), group, grows=False)
    return (_resized(split, axis_of(attributes, value.rank, "concat_axis"), group, grows=True),)


def _reshard(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    mesh, sharding = parse_mesh(str(attributes.get("mesh"))), parse_sharding(str(attributes.get("sharding")))
    if mesh is None or sharding is None:
        raise TypeRuleError(f"{attributes.get('sharding')} on {attributes.get('mesh')} is no sharding")
    if problem := sharding.problem(mesh, value.rank):
        raise TypeRuleError(problem)
    return (value,)


def _enter_stage(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    if len(operands) != 1:
        raise TypeRuleError(f"takes 1 operand, got {len(operands)}")
    return tuple(operands)


def _same_axes(op: Op) -> tuple[AxisLink, ...]:
    type = op.results[0].type
    return pointwise_axes(op) if isinstance(type, TensorType) and type.shape is not None else ()


def _untouched_axes(op: Op) -> tuple[AxisLink, ...]:
    touched = {op.attributes.get(name) for name in ("axis", "split_axis", "concat_axis")}
    return tuple(AxisLink("map", (axis,), (axis,)) for axis in range(op.results[0].rank) if axis not in touched)


define(Primitive("reshard", "collective", _reshard, pointwise_axes, kernel=None))
define(Primitive("enter_stage", "collective", _enter_stage, _same_axes, kernel=None))
define(Primitive("all_reduce", "collective", _same, pointwise_axes, effects=True, kernel=None))
define(Primitive("all_gather", "collective", _all_gather, _untouched_axes, effects=True, kernel=None))
define(Primitive("reduce_scatter", "collective", _reduce_scatter, _untouched_axes, effects=True, kernel=None))
define(Primitive("all_to_all", "collective", _all_to_all, _untouched_axes, effects=True, kernel=None))
define(Primitive("permute", "collective", _same, pointwise_axes, effects=True, kernel=None))
