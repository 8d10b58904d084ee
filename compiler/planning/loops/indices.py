"""Indices that are data, and where they lead."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op, Value

Position = TypeVar("Position")


def gathered_index(
    op: Op,
    index: Sequence[Position],
    position: Callable[[Value, Sequence[Position], Dim], Position],
    fixed: Callable[[int], Position],
) -> tuple[tuple[Position, ...], tuple[Dim, ...]]:
    """The index in the data of a gather that `index` of its result names, and the sizes of the axes that are data.

    position(indices, index, size) is the element of `indices`, a position in an axis of `size`; fixed(n) is n.

    gather: (before..., indices[q...], after...); gather_along: the same, the other positions being the result's own,
    and 0 where the indices are repeated;
    gather_nd: (batch..., indices[batch..., q..., :]..., after...).
    """
    data, indices = op.operands
    if op.name == "gather_nd":
        batch, depth = op.int("batch_dims"), indices.shape[-1]
        assert isinstance(depth, int), indices
        outer, sizes = indices.rank - 1, data.shape[batch : batch + depth]
        picked = (position(indices, (*index[:outer], fixed(k)), size) for k, size in enumerate(sizes))
        return (*index[:batch], *picked, *index[outer:]), sizes
    axis, size = op.int("axis"), data.shape[op.int("axis")]
    if op.name == "gather_along":
        varying = [fixed(0) if repeated else here for here, repeated in zip(index, _repeats(indices), strict=True)]
        return (*index[:axis], position(indices, varying, size), *index[axis + 1 :]), (size,)
    rank = indices.rank
    picked_position = position(indices, index[axis : axis + rank], size)
    return (*index[:axis], picked_position, *index[axis + rank :]), (size,)


def picks_rows(op: Op) -> bool:
    """Whether a row of the result of a gather is one of the data: its last axis is no index."""
    match op.name:
        case "gather":
            return op.int("axis") + op.operands[1].rank < op.results[0].rank
        case "gather_nd":
            return op.operands[1].rank - 1 < op.results[0].rank
        case "gather_along":
            return op.int("axis") < op.results[0].rank - 1 and _repeats(op.operands[1])[-1]
    return False


def is_picked_once(op: Op) -> bool:
    """Whether each index of a gather picks one element."""
    indices = op.operands[1]
    depth = indices.shape[-1:] if op.name == "gather_nd" else ()
    return product(indices.shape) == product((*op.results[0].shape, *depth))


def _repeats(value: Value) -> Sequence[bool]:
    """Whether a value is one element repeated, for each of its axes."""
    op = value.op
    if op is None or op.name != "broadcast":
        return [False] * value.rank
    sizes = dict(zip(op.ints("axes"), op.operands[0].shape, strict=True))
    return [sizes.get(axis, 1) == 1 for axis in range(value.rank)]
