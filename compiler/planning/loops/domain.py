"""Iteration domains: what a kernel loops over, with axes merged where every access allows it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from onnxc.compiler.ir.dim_symbols import substitute
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.loops.views import View, move, row_major, whole
from onnxc.runtime.records import record


@record
class Domain:
    """A box of `shape`, the strided accesses `leaves` of a block in it, and the strides of its `output`.

    first: where in the output the element at index 0 is.
    """

    shape: tuple[Dim, ...]
    leaves: Mapping[Value, View]
    output: tuple[Dim, ...]
    first: Dim = 0


def affine_domain(block: Block, barriers: Iterable[int] = ()) -> Domain | None:
    """The merged domain of a block of pointwise ops over strided views of its parameters, or None where it is not one.

    Axes on different sides of a barrier (the first axis after it) are never merged.
    """
    root = block.results[0]
    leaves = _leaves(block, root.shape)
    if leaves is None:
        return None
    return merge_axes(root.shape, leaves, row_major(root.shape), frozenset(barriers))


def epilogue_leaves(block: Block, anchor: Op, first: int, stop: int) -> Mapping[Value, View] | None:
    """The strided accesses of the pointwise ops after `anchor`, the axes from `first` up to `stop` merged.

    None where an access is not strided, or does not step through those axes as one.
    """
    leaves = _leaves(block, block.results[0].shape, anchor)
    if leaves is None:
        return None
    merged = {value: _merged_axes(view, first, stop) for value, view in leaves.items()}
    strided = {value: view for value, view in merged.items() if view is not None}
    return strided if len(strided) == len(merged) else None


def _merged_axes(view: View, first: int, stop: int) -> View | None:
    kept = [axis for axis in range(first, stop) if view.shape[axis] != 1]
    for outer, inner in pairwise(kept):
        if view.strides[outer] != view.strides[inner] * view.shape[inner]:
            return None
    stride = view.strides[kept[-1]] if kept else 0
    shape = (*view.shape[:first], product(view.shape[first:stop]), *view.shape[stop:])
    return View(view.base, shape, view.offset, (*view.strides[:first], stride, *view.strides[stop:]))


def _leaves(block: Block, shape: Sequence[Dim], anchor: Op | None = None) -> dict[Value, View] | None:
    views: dict[Value, View] = {parameter: whole(parameter) for parameter in block.parameters}
    for op in block.ops:
        if PRIMITIVES[op.name].kind == "movement" and len(op.operands) == 1 and op.operands[0] in views:
            moved = move(views[op.operands[0]], op)
            if moved is not None:
                views[op.results[0]] = moved
    leaves: dict[Value, View] = {}
    for op in block.ops:
        if op is anchor:
            continue
        if PRIMITIVES[op.name].kind == "pointwise":
            if op.results[0].shape != tuple(shape) and not is_uniform(op.results[0]):
                return None
            for operand in op.operands:
                if operand in views:
                    leaves[operand] = views[operand]
                elif not _is_computed(operand, anchor) and not is_uniform(operand):
                    return None
        elif op.results[0] not in views and not is_uniform(op.results[0]):
            return None
    for result in block.results:
        if result in views:
            leaves[result] = views[result]
    return leaves


def _is_computed(value: Value, anchor: Op | None) -> bool:
    return value.op is not None and (value.op is anchor or PRIMITIVES[value.op.name].kind == "pointwise")


def is_uniform(value: Value) -> bool:
    """A scalar, or a scalar repeated: the same at every index."""
    op = value.op
    if op is None:
        return False
    if PRIMITIVES[op.name].is_view:
        return is_uniform(op.operands[0])
    if op.name in ("constant", "sizes"):
        return value.rank == 0 or (op.name == "constant" and op.array().size == 1)
    return PRIMITIVES[op.name].kind == "pointwise" and value.rank == 0 and all(map(is_uniform, op.operands))


def merge_axes(
    shape: Sequence[Dim], leaves: Mapping[Value, View], output: Sequence[Dim], barriers: frozenset[int] = frozenset()
) -> Domain:
    """Drops axes of size 1, and merges neighbours that every access steps through as one."""
    axes: list[int] = []
    sizes: list[Dim] = []
    strides: dict[Value, list[Dim]] = {value: [] for value in leaves}
    result: list[Dim] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        rows = [(strides[value], view.strides[axis]) for value, view in leaves.items()] + [(result, output[axis])]
        crossed = bool(axes) and any(axes[-1] < barrier <= axis for barrier in barriers)
        if axes and not crossed and all(row[-1] == stride * size for row, stride in rows):
            sizes[-1] = sizes[-1] * size
            for row, stride in rows:
                row[-1] = stride
        else:
            sizes.append(size)
            for row, stride in rows:
                row.append(stride)
        axes.append(axis)
    merged = {v: View(view.base, tuple(sizes), view.offset, tuple(strides[v])) for v, view in leaves.items()}
    return Domain(tuple(sizes), merged, tuple(result))


def substituted_domain(domain: Domain, replacements: Mapping[str, Dim]) -> Domain:
    """The domain with sizes in place of symbols."""

    def all_of(sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        return tuple(substitute(size, replacements) for size in sizes)

    leaves = {
        value: View(view.base, all_of(view.shape), substitute(view.offset, replacements), all_of(view.strides))
        for value, view in domain.leaves.items()
    }
    return Domain(all_of(domain.shape), leaves, all_of(domain.output), substitute(domain.first, replacements))


def forward_domain(domain: Domain) -> Domain:
    """The same elements in an order that goes forward in memory where a leaf would cross it backwards.

    What is reversed and turned is so dense along an axis, along which the output then goes backwards.
    """
    for axis in range(len(domain.shape) - 1):
        steps = [view.strides[axis] for view in domain.leaves.values() if view.strides[-1] not in (0, 1)]
        if -1 in steps and 1 not in steps:
            domain = _turned_back(domain, axis)
    return domain


def _turned_back(domain: Domain, axis: int) -> Domain:
    """The domain that goes along an axis from its end."""
    last = domain.shape[axis] - 1

    def backwards(strides: Sequence[Dim]) -> tuple[Dim, ...]:
        return (*strides[:axis], -strides[axis], *strides[axis + 1 :])

    leaves = {
        value: View(view.base, view.shape, view.offset + last * view.strides[axis], backwards(view.strides))
        for value, view in domain.leaves.items()
    }
    first = domain.first + last * domain.output[axis]
    return Domain(domain.shape, leaves, backwards(domain.output), first)


def crossed_axis(domain: Domain, least: int, farthest: int = 1) -> int | None:
    """The axis along which a leaf lies close in memory while the output does not, or None where there is none.

    Neither this axis nor the last may be known to have fewer than `least` places. Elements are close that are at most
    `farthest` apart; the closest come first.
    """
    if len(domain.shape) < 2 or domain.output[-1] != 1 or _is_below(domain.shape[-1], least):
        return None
    axes = [axis for axis, size in enumerate(domain.shape[:-1]) if not _is_below(size, least)]
    for apart in range(1, farthest + 1):
        for view in domain.leaves.values():
            for axis in axes:
                if view.strides[axis] == apart and is_crossed(view, axis, apart):
                    return axis
    return None


def is_crossed(view: View, axis: int, farthest: int = 1) -> bool:
    """Whether the elements of a view are close along an axis, and neither closer nor repeated along the last one."""
    apart = view.strides[axis]
    return isinstance(apart, int) and 1 <= apart <= farthest and view.strides[-1] not in range(apart + 1)


def _is_below(size: Dim, least: int) -> bool:
    return isinstance(size, int) and size < least
