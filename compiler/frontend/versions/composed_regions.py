"""What crops, pads and adds up regions of tensors, by older operators."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.sizes import Size, positions, size_of, sizes_of, sum_of, value_of, vector
from onnxc.compiler.frontend.versions.steps import MOST_CHOICES, Steps

__all__ = ["center_crop_pad", "col2im", "pad_18", "pad_19", "resize_18"]


def _axes(change: Change, axes: Sequence[int] | None) -> list[int]:
    return [change.axis(axis) for axis in (range(change.rank(0)) if axes is None else axes)]


def center_crop_pad(change: Change) -> None:
    """A Slice of the middle, and a Pad around it; an odd element is at the end."""
    at, x, rank = Steps(change), change.input(0), change.rank(0)
    axes, zero, two = _axes(change, change.integers("axes")), at.constant(0, np.int64), at.constant(2, np.int64)
    if not axes:
        at.become("Identity", x)
        return
    sizes = sizes_of(at, x)
    own, wanted = vector(at, [sizes[axis] for axis in axes]), at.cast(change.input(1), TensorProto.INT64)
    is_longer = at("Less", wanted, own)
    cut = at("Div", at("Where", is_longer, at("Sub", own, wanted), zero), two)
    length = at("Where", is_longer, wanted, own)
    middle = at("Slice", x, cut, at("Add", cut, length), at.integers(*axes))
    lacking = at("Sub", wanted, length)
    low = at("Div", lacking, two)
    at.become("Pad", middle, at("Concat", *_spread(at, (low, at("Sub", lacking, low)), axes, rank), axis=0))


def _spread(at: Steps, sides: Sequence[str], axes: Sequence[int], rank: int) -> list[str]:
    """What is padded before and after the axes, i64[n] each, of all axes of a tensor."""
    if [*axes] == [*range(rank)]:
        return [*sides]
    return [
        at("Gather", side, at.integers(axes.index(axis)), axis=0) if axis in axes else at.integers(0)
        for side in sides
        for axis in range(rank)
    ]


def pad_18(change: Change) -> None:
    """What is padded of some axes, as what is padded of all."""
    given = change.constant(3)
    if given is None:
        return
    at, rank = Steps(change), change.rank(0)
    axes, pads = _axes(change, [int(axis) for axis in given]), change.values.constants.get(change.input(1))
    count = len(axes)
    if pads is not None:
        known, spread = change.constant(1), np.zeros((2, rank), np.int64)
        assert known is not None, change.node
        spread[:, axes] = known.reshape(2, count)
        change.set_input(1, at.integers(*(int(each) for each in spread.reshape(-1))))
    else:
        bounds = (at.integers(0), at.integers(count), at.integers(2 * count))
        sides = [at("Slice", change.input(1), *pair, at.integers(0)) for pair in (bounds[:2], bounds[1:])]
        change.set_input(1, at("Concat", *_spread(at, sides, axes, rank), axis=0))
    change.keep_inputs(3)


def resize_18(change: Change) -> None:
    """Regions, scales or sizes of some axes, as those of all: the others are taken whole, and stay as they are."""
    given = change.integers("axes")
    if given is None:
        return
    at, axes = Steps(change), _axes(change, given)
    change.drop("axes")
    for position, others in ((1, (0, 1)), (2, (1,)), (3, ())):
        name = change.input(position)
        if name and change.shape(name) != (0,):
            change.set_input(position, at("Concat", *_of_all_axes(at, position, axes, others), axis=0))


def _of_all_axes(at: Steps, position: int, axes: Sequence[int], others: Sequence[int]) -> Iterator[str]:
    """What an input tells of each axis, once for each of `others`, which stand for other axes; else their sizes."""
    change = at.change
    for side in range(len(others) or 1):
        for axis in range(change.rank(0)):
            if axis in axes:
                ordinal = at.integers(side * len(axes) + axes.index(axis))
                yield at("Gather", change.input(position), ordinal, axis=0)
            elif others:
                kept = change.tensor(np.array([others[side]], np.float32), "kept")
                yield at.cast(kept, change.known_element(position))
            else:
                yield value_of(at, size_of(at, change.input(0), axis))


def pad_19(change: Change) -> None:
    """Elements of the tensor again, each axis by a Gather of positions that go on at the other end."""
    if change.text("mode") != "wrap":
        return
    at, x = Steps(change), change.input(0)
    pads, given = change.constant(1), change.constant(3)
    assert pads is not None, change.node
    axes = _axes(change, None if given is None else [int(axis) for axis in given])
    if (pads < 0).any():
        change.fail("mode is wrap, and it cuts off elements")
    for axis, low, high in zip(axes, *pads.reshape(2, -1).tolist(), strict=True):
        if low or high:
            x = at("Gather", x, _wrapped(at, size_of(at, change.input(0), axis), low, high), axis=axis)
    at.become("Identity", x)


def _wrapped(at: Steps, size: Size, low: int, high: int) -> str:
    """i64[low + size + high]: positions along an axis, around its ends."""
    behind = at("Sub", positions(at, sum_of(at, size, low + high)), at.integers(low))
    return at("Mod", behind, value_of(at, size))


def col2im(change: Change) -> None:
    """The sum over the elements of a block: what is there of a pixel, or a zero behind all columns."""
    image, block = (change.constant(position) for position in (1, 2))
    assert image is not None, change.node
    assert block is not None, change.node
    at, size, elements = Steps(change), tuple(map(int, image)), prod(map(int, block))
    if prod(size) * elements > MOST_CHOICES:
        change.fail(f"a constant of {prod(size)} by {elements} positions would be in the model")
    sources, count = _sources(change, size, tuple(map(int, block)))
    batch, rows, _ = sizes_of(at, change.input(0))
    channels = rows // elements if isinstance(rows, int) else at("Div", rows, at.integers(elements))
    padded = at("Pad", change.input(0), at.integers(0, 0, 0, 0, 0, 1))
    split = at("Reshape", padded, vector(at, (batch, channels, elements * (count + 1))))
    total = at.over("ReduceSum", at("Gather", split, change.tensor(sources, "sources"), axis=2), [2], keepdims=0)
    at.become("Reshape", total, vector(at, (batch, channels, *size)))


def _sources(change: Change, image: tuple[int, ...], block: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """i64[elements of a block, pixels]: the element of which column is added to a pixel; and the number of columns."""
    rank = len(image)
    strides, dilations = (change.integers(name) or (1,) * rank for name in ("strides", "dilations"))
    pads = change.integers("pads") or (0,) * (2 * rank)
    flat, is_there, total = np.zeros((1,) * (2 * rank), np.int64), np.ones((1,) * (2 * rank), np.bool_), 1
    for axis in range(rank):
        padded = image[axis] + pads[axis] + pads[rank + axis]
        count = (padded - dilations[axis] * (block[axis] - 1) - 1) // strides[axis] + 1
        inside = np.arange(block[axis])[:, None] * dilations[axis]
        start = np.arange(image[axis]) + pads[axis] - inside
        position, rest = np.divmod(start, strides[axis])
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = start.shape
        flat = flat * count + position.reshape(shape)
        is_there = is_there & ((rest == 0) & (position >= 0) & (position < count)).reshape(shape)
        total *= count
    columns = np.where(is_there, flat, total).reshape(prod(block), prod(image))
    return columns + np.arange(prod(block))[:, None] * (total + 1), total
