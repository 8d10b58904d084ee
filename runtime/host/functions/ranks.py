"""Tensors whose rank only data tells."""

from collections.abc import Callable
from math import prod

import numpy as np

from onnxc.runtime.errors import InputError
from onnxc.runtime.host.attributes import flag, integer, integers
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_array


@function("rank_of")
def rank_of(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...]  ->  i64[], the number of its axes, which is one of `ranks` where these are given"""
    x, ranks = as_array(operands[0]), attributes.get("ranks")
    if ranks is not None and x.ndim not in integers(attributes, "ranks"):
        *others, last = integers(attributes, "ranks")
        raise _of_other_rank(x, f"the ranks {', '.join(map(str, others))} and {last}")
    return (np.array(x.ndim, np.int64),)


def _of_other_rank(x: np.ndarray, ranks: str) -> InputError:
    return InputError(f"a value has the shape {list(x.shape)}, and there is code for {ranks}", code="declared-shape")


@function("squeeze_ones")
def squeeze_ones(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...]  ->  T[...] without the axes of size 1"""
    return (np.squeeze(as_array(operands[0])),)


@function("only_element")
def only_element(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[1, ..., 1]  ->  T[]"""
    x = as_array(operands[0])
    if x.size != 1:
        raise InputError(f"a value has the shape {list(x.shape)}, where one element is expected", code="declared-shape")
    return (x.reshape(()),)


@function("with_leading_ones")
def with_leading_ones(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...] of at most `rank` axes  ->  T[1, ..., 1, ...] of `rank` axes"""
    return (_leading_ones(as_array(operands[0]), integer(attributes, "rank")),)


@function("as_columns")
def as_columns(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...] of at most `rank` axes  ->  T[1, ..., 1, ...] of `rank` axes; a vector is one column"""
    x = as_array(operands[0])
    return (_leading_ones(x[:, np.newaxis] if x.ndim == 1 else x, integer(attributes, "rank")),)


def _leading_ones(x: np.ndarray, rank: int) -> np.ndarray:
    if x.ndim > rank:
        message = f"a value has the shape {list(x.shape)}, where at most {rank} axes are told apart"
        raise InputError(message, code="declared-shape")
    return x.reshape((1,) * (rank - x.ndim) + x.shape)


@function("without_leading_ones")
def without_leading_ones(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[1, ..., 1, ...], rank: i64[]  ->  T[...] of `rank` axes, the last ones"""
    x, rank = as_array(operands[0]), as_array(operands[1]).item()
    return (x.reshape(x.shape[x.ndim - rank :]),)


@function("without_promoted_axes")
def without_promoted_axes(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """product: T[1, ..., 1, ..., M, N], ranks of both matrices: i64[]  ->  T[...], without M or N of a vector"""
    product, *given = map(as_array, operands)
    left, right = (rank.item() for rank in given)
    if 0 in (left, right):
        raise InputError("an operand of a product of matrices has rank 0", code="illegal-data")
    batch = product.shape[product.ndim - max(left, right, 2) : -2]
    rows, columns = product.shape[-2:]
    return (product.reshape(batch + (rows,) * (left > 1) + (columns,) * (right > 1)),)


@function("reshape_any_rank")
def reshape_any_rank(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...], shape: i64[r]  ->  T[*shape]; 0 copies a size unless `allow_zero`, -1 stands for the rest"""
    x, shape = as_array(operands[0]), _elements(operands[1], "shape", (1,))
    allow_zero = flag(attributes, "allow_zero", default=False)
    copied = [axis for axis, size in enumerate(shape) if size == 0 and not allow_zero]
    if any(axis >= x.ndim for axis in copied) or min(shape, default=0) < -1 or shape.count(-1) > 1:
        raise _not_reshaped(x, shape)
    sizes = [x.shape[axis] if axis in copied else size for axis, size in enumerate(shape)]
    if -1 in sizes:
        # Copied sizes count on both sides; leaving them out keeps the answer where one of them is 0.
        before = prod(size for axis, size in enumerate(x.shape) if axis not in copied)
        after = prod(size for axis, size in enumerate(sizes) if axis not in copied and size != -1)
        sizes[sizes.index(-1)] = before // after if after else -1
    if -1 in sizes or prod(sizes) != x.size:
        raise _not_reshaped(x, shape)
    return (x.reshape(sizes),)


def _elements(vector: HostValue, name: str, ranks: tuple[int, ...]) -> list[int]:
    """The integers of an operand that must have one of `ranks`."""
    array = as_array(vector)
    if array.ndim not in ranks:
        raise InputError(f"{name} has the shape {list(array.shape)} and is not a vector", code="illegal-data")
    return array.reshape(-1).tolist()


def _not_reshaped(x: np.ndarray, shape: list[int]) -> InputError:
    return InputError(f"a value of shape {list(x.shape)} cannot be reshaped to {shape}", code="illegal-data")


@function("expand_any_rank")
def expand_any_rank(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...], shape: i64[n]  ->  T[...] at the shape that x and `shape` are broadcast to"""
    x, shape = as_array(operands[0]), _elements(operands[1], "shape", (1,))
    try:
        return (np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))),)
    except ValueError as problem:
        message = f"a value of shape {list(x.shape)} cannot be expanded to {shape}"
        raise InputError(message, code="illegal-data") from problem


@function("squeeze_any_rank")
def squeeze_any_rank(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...], axes: i64[n]  ->  T[...] without `axes`, whose sizes must be 1"""
    return (_moved(np.squeeze, operands),)


@function("without_folded_axes")
def without_folded_axes(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...], axes: i64[n]  ->  T[...] without `axes`, which are folded; of no axes, without all if `none_is_all`"""
    x, axes = map(as_array, operands)
    if not axes.size and flag(attributes, "none_is_all", default=True):
        return (x.reshape(()),)
    return (_moved(np.squeeze, operands),)


@function("unsqueeze_any_rank")
def unsqueeze_any_rank(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...], axes: i64[n]  ->  T[...] with axes of size 1 inserted, which are `axes` of the result"""
    return (_moved(np.expand_dims, operands),)


def _moved(move: Callable[[np.ndarray, tuple[int, ...]], np.ndarray], operands: Values) -> np.ndarray:
    x, axes = as_array(operands[0]), _elements(operands[1], "axes", (0, 1))
    try:
        return move(x, tuple(axes))
    except ValueError as problem:
        message = f"axes {axes} of a value of shape {list(x.shape)}: {problem}"
        raise InputError(message, code="illegal-data") from problem


@function("expect_shape")
def expect_shape(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...] of a rank that only data tells  ->  itself, if it has `shape`, in which -1 stands for any size"""
    x, shape = as_array(operands[0]), integers(attributes, "shape")
    fits = x.ndim == len(shape) and all(size in (-1, own) for size, own in zip(shape, x.shape, strict=True))
    if not fits:
        if max(shape, default=-1) < 0:
            raise _of_other_rank(x, f"rank {len(shape)}")
        expected = ", ".join("?" if size < 0 else str(size) for size in shape)
        message = f"a value has the shape {list(x.shape)}, the model declares [{expected}]"
        raise InputError(message, code="declared-shape")
    return (x,)
