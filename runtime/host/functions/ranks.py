"""Tensors whose rank only data tells."""

import numpy as np

from onnxc.runtime.errors import InputError
from onnxc.runtime.host.attributes import integer, integers
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_array


@function("rank_of")
def rank_of(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...]  ->  i64[], the number of its axes"""
    return (np.array(as_array(operands[0]).ndim, np.int64),)


@function("squeeze_ones")
def squeeze_ones(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...]  ->  T[...] without the axes of size 1"""
    return (np.squeeze(as_array(operands[0])),)


@function("with_leading_ones")
def with_leading_ones(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...] of at most `rank` axes  ->  T[1, ..., 1, ...] of `rank` axes"""
    x, rank = as_array(operands[0]), integer(attributes, "rank")
    if x.ndim > rank:
        message = f"a value has the shape {list(x.shape)}, where at most {rank} axes are told apart"
        raise InputError(message, code="declared-shape")
    return (x.reshape((1,) * (rank - x.ndim) + x.shape),)


@function("without_leading_ones")
def without_leading_ones(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[1, ..., 1, ...], rank: i64[]  ->  T[...] of `rank` axes, the last ones"""
    x, rank = as_array(operands[0]), as_array(operands[1]).item()
    return (x.reshape(x.shape[x.ndim - rank :]),)


@function("expect_shape")
def expect_shape(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[...] of a rank that only data tells  ->  itself, if it has `shape`, in which -1 stands for any size"""
    x, shape = as_array(operands[0]), integers(attributes, "shape")
    fits = x.ndim == len(shape) and all(size in (-1, own) for size, own in zip(shape, x.shape, strict=True))
    if not fits:
        expected = ", ".join("?" if size < 0 else str(size) for size in shape)
        message = f"a value has the shape {list(x.shape)}, the model declares [{expected}]"
        raise InputError(message, code="declared-shape")
    return (x,)
