"""Generators: splats, and counters, in their smallest form."""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import rule

SHORT = 16
"""Constants of integers up to this many elements are left as they are: shapes and permutations, which read better so.
An estimate; a counter in place of 16 integers saves 128 bytes of weights."""


@rule("constant")
def shrink_uniform_constant(op: Op, build: Builder) -> Value | None:
    """a constant of floats that are all c = broadcast(c); integers stay, for they may be sizes"""
    array = op.array()
    if not array.ndim or not array.size or not op.result.dtype.is_float:
        return None
    bits = array.reshape(-1).view(f"u{array.dtype.itemsize}")
    if bits[0] != bits[-1] or (bits != bits[0]).any():
        return None
    return build.broadcast(build.constant(array.reshape(-1)[:1].reshape(()).copy()), (), array.shape)


@rule("constant")
def count_instead(op: Op, build: Builder) -> Value | None:
    """a long constant of integers 0, 1, 2, ... = iota; short ones may be sizes"""
    array = op.array()
    (size, *rest) = [size for size in array.shape if size != 1] or [0]
    if (
        rest
        or size <= SHORT
        or not op.result.dtype.is_integer
        or not np.array_equal(array.reshape(-1), np.arange(size))
    ):
        return None
    return build.with_shape(build.iota((size,), 0, op.result.dtype), array.shape)


@rule("iota")
def shrink_counter(op: Op, build: Builder) -> Value | None:
    """iota over several axes = broadcast(iota over one)"""
    shape, axis = op.result.shape, op.int("axis")
    if len(shape) == 1:
        return None
    return build.broadcast(build.iota((shape[axis],), 0, op.dtype()), (axis,), shape)


@rule("sizes")
def make_sizes_constant(op: Op, build: Builder) -> Value | None:
    """static sizes = constant"""
    values = op.dims("values")
    decided = [value for value in values if isinstance(value, int)]
    if len(decided) != len(values):
        return None
    return build.size(decided[0], op.dtype()) if op.flag("scalar") else build.sizes(decided, op.dtype())
