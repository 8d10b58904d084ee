"""Reductions: axes folded away, running folds along an axis, and the index of an extremum."""

from collections.abc import Sequence

from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.primitives.movement import axis_of, ints_of
from onnxc.compiler.ir.types import TensorType, Type

KINDS = ("sum", "prod", "min", "max", "and", "or")
SCAN_KINDS = ("sum", "prod", "min", "max")


def _kind(attributes: Attributes, kinds: Sequence[str]) -> None:
    if attributes.get("kind") not in kinds:
        raise TypeRuleError(f"kind is {attributes.get('kind')}, not one of {', '.join(kinds)}")


def _reduce(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    _kind(attributes, KINDS)
    axes = ints_of(attributes, "axes")
    if list(axes) != sorted(set(axes)) or any(not 0 <= axis < value.rank for axis in axes):
        raise TypeRuleError(f"{list(axes)} are not ascending axes of {value}")
    kept = tuple(size for axis, size in enumerate(value.known_shape) if axis not in axes)
    return (TensorType(value.dtype, kept),)


def _reduce_axes(op: Op) -> tuple[AxisLink, ...]:
    axes, links, kept = op.ints("axes"), [], 0
    for axis in range(op.operands[0].rank):
        if axis in axes:
            links.append(AxisLink("reduce", (axis,), (None,), op.text("kind")))
        else:
            links.append(AxisLink("map", (axis,), (kept,)))
            kept += 1
    return tuple(links)


def _scan(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    _kind(attributes, SCAN_KINDS)
    axis_of(attributes, value.rank)
    return (value,)


def other_axes(op: Op) -> tuple[AxisLink, ...]:
    """Every axis but `axis` runs through the first operand and all results, which keep all axes."""
    axes = (axis for axis in range(op.operands[0].rank) if axis != op.int("axis"))
    return tuple(AxisLink("map", (axis,), (axis,) * len(op.results)) for axis in axes)


def _arg_reduce(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    _kind(attributes, ("min", "max"))
    axis = axis_of(attributes, value.rank)
    return (TensorType(I64, value.known_shape[:axis] + value.known_shape[axis + 1 :]),)


def _arg_reduce_axes(op: Op) -> tuple[AxisLink, ...]:
    dropped = op.int("axis")
    axes = (axis for axis in range(op.operands[0].rank) if axis != dropped)
    return tuple(AxisLink("map", (axis,), (axis - (axis > dropped),)) for axis in axes)


define(Primitive("reduce", "reduction", _reduce, _reduce_axes, kernel=Anchor("reduction")))
define(Primitive("scan_axis", "reduction", _scan, other_axes, kernel=Anchor("scan")))
define(Primitive("arg_reduce", "reduction", _arg_reduce, _arg_reduce_axes, kernel=Anchor("reduction")))
