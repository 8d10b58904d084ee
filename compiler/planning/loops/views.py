"""Strided views: which movements of a buffer are only another way to step through it."""

from collections.abc import Sequence
from itertools import pairwise

from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op, Value
from onnxc.runtime.records import record


@record
class View:
    """Element (i0, i1, ...) lies `offset` + the sum of i * stride elements behind the start of the buffer of `base`."""

    base: Value
    shape: tuple[Dim, ...]
    offset: Dim
    strides: tuple[Dim, ...]


def row_major(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """The strides of a dense buffer, in elements."""
    return tuple(product(shape[axis + 1 :]) for axis in range(len(shape)))


def whole(value: Value) -> View:
    """The view that is all of a dense buffer."""
    return View(value, value.shape, 0, row_major(value.shape))


def move(view: View, op: Op) -> View | None:
    """The view after one movement, or None where it is not a matter of strides."""
    match op.name:
        case "transpose":
            permutation = op.ints("permutation")
            shape, strides = (tuple(old[axis] for axis in permutation) for old in (view.shape, view.strides))
            return View(view.base, shape, view.offset, strides)
        case "broadcast":
            return _broadcast(view, op)
        case "slice":
            moved = zip(op.dims("starts"), view.strides, strict=True)
            offset = view.offset + sum((start * stride for start, stride in moved), start=0)
            strides = tuple(stride * step for stride, step in zip(view.strides, op.ints("steps"), strict=True))
            return View(view.base, op.dims("shape"), offset, strides)
        case "reshape":
            # Of a whole buffer any is, whether or not sizes are known to be equal that a guard holds so.
            shape = op.dims("shape")
            otherwise = View(view.base, shape, 0, row_major(shape)) if is_dense(view) else None
            return _reshape(view, shape) or otherwise
    return None


def view_through(base: Value, chain: Sequence[Op]) -> View | None:
    """All of a buffer after movements, the last of which is the first of `chain`; None where one is not of strides."""
    view: View | None = whole(base)
    for op in reversed(chain):
        view = None if view is None else move(view, op)
    return view


def turned(op: Op) -> View | None:
    """The operand of a movement as its result steps through it."""
    return move(whole(op.operands[0]), op)


def operand_view(value: Value) -> View | None:
    """The strided view of a parameter that a value is, through movements alone; None where it is not one."""
    if value.op is None:
        return whole(value)
    inner = operand_view(value.op.operands[0]) if len(value.op.operands) == 1 else None
    return None if inner is None else move(inner, value.op)


def operand_views(op: Op) -> tuple[View, ...]:
    """The strided views that all operands of an op are; asking it of others is a defect of the caller."""
    return tuple(map(known_view, op.operands))


def known_view(value: Value) -> View:
    """The strided view that a value is; asking it of another is a defect of the caller."""
    view = operand_view(value)
    assert view is not None, value
    return view


def split_axes(before: Sequence[Dim], after: Sequence[Dim]) -> tuple[tuple[int, ...], ...] | None:
    """For a reshape that only splits axes: the new axes that each old one becomes, one or more; None for any other."""
    runs: list[tuple[int, ...]] = []
    start = 0
    for size in before:
        stop = start + 1
        while stop < len(after) and product(after[start:stop]) != size:
            stop += 1
        if product(after[start:stop]) != size or start == len(after):
            return None
        runs.append(tuple(range(start, stop)))
        start = stop
    return tuple(runs) if start == len(after) else None


def _broadcast(view: View, op: Op) -> View | None:
    shape = op.dims("shape")
    strides: list[Dim] = [0] * len(shape)
    for axis, size, stride in zip(op.ints("axes"), view.shape, view.strides, strict=True):
        if size == shape[axis]:
            strides[axis] = stride
        elif axis == len(shape) - 1 and size != 1:
            # Lanes go along the last axis, and are loaded together or repeated: one of the two is to be known.
            return None
        elif size != 1:
            # As long as the result, or 1.
            strides[axis] = stride * minimum(size - 1, 1)
    return View(view.base, shape, view.offset, tuple(strides))


def _reshape(view: View, shape: Sequence[Dim]) -> View | None:
    """Axes are matched in groups of equally many elements; a group that is merged must be dense."""
    strides: list[Dim] = []
    old, new = 0, 0
    while new < len(shape):
        if shape[new] == 1:
            strides.append(0)
            new += 1
            continue
        while old < len(view.shape) and view.shape[old] == 1:
            old += 1
        group_start, new_start = old, new
        if old == len(view.shape):
            return None
        before, after = view.shape[old], shape[new]
        old, new = old + 1, new + 1
        while before != after:
            if old < len(view.shape) and (len(str(before)) <= len(str(after)) or new >= len(shape)):
                before = before * view.shape[old]
                old += 1
            elif new < len(shape):
                after = after * shape[new]
                new += 1
            else:
                return None
        stride = _merged_stride(view, group_start, old)
        if stride is None:
            return None
        group = shape[new_start:new]
        strides += [product(group[inner + 1 :]) * stride for inner in range(len(group))]
    if any(size != 1 for size in view.shape[old:]):
        return None
    return View(view.base, tuple(shape), view.offset, tuple(strides))


def _merged_stride(view: View, start: int, stop: int) -> Dim | None:
    """The stride of axes `start` to `stop` taken as one, or None where they cannot be."""
    kept = [axis for axis in range(start, stop) if view.shape[axis] != 1]
    if not kept:
        return 1
    for outer, inner in pairwise(kept):
        if view.strides[outer] != view.strides[inner] * view.shape[inner]:
            return None
    return view.strides[kept[-1]]


def is_dense(view: View) -> bool:
    """Whether the view is its whole buffer in row-major order, under a shape of its own."""
    dense = zip(view.shape, view.strides, row_major(view.shape), strict=True)
    return (
        view.offset == 0
        and all(size == 1 or a == b for size, a, b in dense)
        and (product(view.shape) == product(view.base.shape))
    )


def crosses(view: View, least: int) -> bool:
    """Whether a view is dense along an axis that is not the last, of at least so many places as far as is known."""
    inner = [axis for axis, size in enumerate(view.shape) if size != 1][-1:]
    return any(view.strides[last] not in (0, 1) for last in inner) and any(
        stride == 1 and not (isinstance(size, int) and size < least)
        for size, stride in zip(view.shape, view.strides, strict=True)
    )


def changes_part(op: Op) -> bool:
    """Whether the result of an op may be one of its operands but for a part: a concatenation, or a scatter."""
    return op.name in ("concatenate", "scatter_along", "scatter_nd")


def stays(op: Op, ordinal: int) -> bool:
    """Whether a part of a concatenation, or the data of a scatter, is a view of elements that are in their buffer where
    the result has them.

    Where the result is written into that buffer, they need no work.
    """
    view, shape = operand_view(op.operands[ordinal]), op.result.shape
    if view is None or view.base.shape != shape or view.strides != row_major(shape):
        return False
    if op.name != "concatenate":
        return ordinal == 0 and view.offset == 0
    axis = op.int("axis")
    before = sum((operand.shape[axis] for operand in op.operands[:ordinal]), start=0)
    return view.offset == before * row_major(shape)[axis]


def keeps_axes(op: Op) -> bool:
    """Whether a reshape only adds or removes axes of size 1."""
    before, after = op.operands[0].shape, op.results[0].shape
    return [size for size in before if size != 1] == [size for size in after if size != 1]
