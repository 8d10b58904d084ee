"""Movement primitives: every result element is one operand element (or the padding value), at another index."""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim, Size, product, sum_of
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Inline, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.types import TensorType, Type


def dims_of(attributes: Attributes, name: str) -> tuple[Dim, ...]:
    """The attribute `name` as sizes; TypeRuleError where it is something else."""
    value = attributes.get(name)
    if not isinstance(value, tuple) or not all(isinstance(dim, int | Size) for dim in value):
        raise TypeRuleError(f"{name} is {value}, not a tuple of sizes")
    return tuple(dim for dim in value if isinstance(dim, int | Size))


def ints_of(attributes: Attributes, name: str) -> tuple[int, ...]:
    """The attribute `name` as plain integers; TypeRuleError where it is something else."""
    value = attributes.get(name)
    if not isinstance(value, tuple) or not all(isinstance(item, int) for item in value):
        raise TypeRuleError(f"{name} is {value}, not a tuple of integers")
    return tuple(item for item in value if isinstance(item, int))


def int_of(attributes: Attributes, name: str) -> int:
    """The attribute `name` as a plain integer; TypeRuleError where it is something else."""
    value = attributes.get(name)
    if not isinstance(value, int):
        raise TypeRuleError(f"{name} is {value}, not an integer")
    return value


def axis_of(attributes: Attributes, rank: int, name: str = "axis") -> int:
    """The attribute `name` as an axis of a tensor of `rank`."""
    axis = int_of(attributes, name)
    if not 0 <= axis < rank:
        raise TypeRuleError(f"{name} is {axis}, outside [0, {rank - 1}]")
    return axis


def _expect_length(values: Sequence[object], rank: int, name: str) -> None:
    if len(values) != rank:
        raise TypeRuleError(f"{name} has {len(values)} entries for {rank} axes")


def _reshape(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    shape = dims_of(attributes, "shape")
    old, new = value.elements, product(shape)
    if isinstance(old, int) and isinstance(new, int) and old != new:
        raise TypeRuleError(f"{value} has {old} elements, the shape {list(shape)} has {new}")
    return (TensorType(value.dtype, shape),)


def _reshape_axes(op: Op) -> tuple[AxisLink, ...]:
    """Axes that stay whole: the same size, and the same number of elements before them."""
    old, new = op.operands[0].shape, op.results[0].shape
    axis_after = {product(new[:axis]): axis for axis in reversed(range(len(new)))}
    links = []
    for axis, size in enumerate(old):
        target = axis_after.get(product(old[:axis]))
        while target is not None and target < len(new) and new[target] == 1 and size != 1:
            target += 1
        if target is not None and target < len(new) and new[target] == size:
            links.append(AxisLink("map", (axis,), (target,)))
    return tuple(links)


def _transpose(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    permutation = ints_of(attributes, "permutation")
    if sorted(permutation) != list(range(value.rank)):
        raise TypeRuleError(f"{list(permutation)} is no permutation of the {value.rank} axes")
    return (TensorType(value.dtype, tuple(value.known_shape[axis] for axis in permutation)),)


def _transpose_axes(op: Op) -> tuple[AxisLink, ...]:
    return tuple(AxisLink("map", (old,), (new,)) for new, old in enumerate(op.ints("permutation")))


def _broadcast(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    shape, axes = dims_of(attributes, "shape"), ints_of(attributes, "axes")
    _expect_length(axes, value.rank, "axes")
    if len(set(axes)) != len(axes) or any(not 0 <= axis < len(shape) for axis in axes):
        raise TypeRuleError(f"{list(axes)} are not distinct axes of {list(shape)}")
    for old, axis in zip(value.known_shape, axes, strict=True):
        if isinstance(old, int) and isinstance(shape[axis], int) and old not in (1, shape[axis]):
            raise TypeRuleError(f"size {old} cannot be broadcast to {shape[axis]}")
    return (TensorType(value.dtype, shape),)


def _broadcast_axes(op: Op) -> tuple[AxisLink, ...]:
    (value,), shape, axes = op.operands, op.results[0].shape, op.ints("axes")
    links = []
    for axis, size in enumerate(shape):
        old = axes.index(axis) if axis in axes else None
        if old is None or value.shape[old] == 1:
            links.append(AxisLink("map", (None,), (axis,)))
        elif value.shape[old] == size:
            links.append(AxisLink("map", (old,), (axis,)))
    return tuple(links)


def _slice(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    (value,) = tensors(operands, 1)
    shape = dims_of(attributes, "shape")
    for name in ("starts", "shape", "steps"):
        _expect_length(dims_of(attributes, name), value.rank, name)
    if 0 in ints_of(attributes, "steps"):
        raise TypeRuleError("a step is 0")
    return (TensorType(value.dtype, shape),)


def _slice_axes(op: Op) -> tuple[AxisLink, ...]:
    old, new = op.operands[0].shape, op.results[0].shape
    whole = zip(op.dims("starts"), op.ints("steps"), old, new, strict=True)
    return tuple(
        AxisLink("map", (axis,), (axis,))
        for axis, (start, step, before, after) in enumerate(whole)
        if start == 0 and step == 1 and before == after
    )


def _pad(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    value, fill = tensors(operands, 2)
    if fill != TensorType(value.dtype, ()):
        raise TypeRuleError(f"the padding value is {fill}, not {value.dtype}[]")
    low, high = dims_of(attributes, "low"), dims_of(attributes, "high")
    _expect_length(low, value.rank, "low")
    _expect_length(high, value.rank, "high")
    return (TensorType(value.dtype, tuple(a + b + c for a, b, c in zip(low, value.known_shape, high, strict=True))),)


def _pad_axes(op: Op) -> tuple[AxisLink, ...]:
    low, high = op.dims("low"), op.dims("high")
    unpadded = (axis for axis in range(len(low)) if low[axis] == 0 and high[axis] == 0)
    return tuple(AxisLink("map", (axis, None), (axis,)) for axis in unpadded)


def _concatenate(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    values = tensors(operands)
    if not values:
        raise TypeRuleError("takes at least one operand")
    axis = axis_of(attributes, values[0].rank)
    for value in values:
        others = [size for other, size in enumerate(value.known_shape) if other != axis]
        if value.dtype != values[0].dtype or others != [
            size for other, size in enumerate(values[0].known_shape) if other != axis
        ]:
            raise TypeRuleError(f"operands do not fit together: {', '.join(map(str, values))}")
    total = sum_of(value.known_shape[axis] for value in values)
    shape = values[0].known_shape
    return (TensorType(values[0].dtype, (*shape[:axis], total, *shape[axis + 1 :])),)


def _concatenate_axes(op: Op) -> tuple[AxisLink, ...]:
    count, rank = len(op.operands), op.results[0].rank
    return tuple(AxisLink("map", (axis,) * count, (axis,)) for axis in range(rank) if axis != op.int("axis"))


define(Primitive("reshape", "movement", _reshape, _reshape_axes, kernel=Inline(cost=0)))
define(Primitive("transpose", "movement", _transpose, _transpose_axes, kernel=Inline(cost=0)))
define(Primitive("broadcast", "movement", _broadcast, _broadcast_axes, kernel=Inline(cost=0)))
define(Primitive("slice", "movement", _slice, _slice_axes, kernel=Inline(cost=0)))
define(Primitive("pad", "movement", _pad, _pad_axes, kernel=Inline(cost=1)))
define(Primitive("concatenate", "movement", _concatenate, _concatenate_axes, kernel=Anchor("concatenate")))
