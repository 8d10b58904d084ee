"""Means, variances and means of squares over axes, which all normalisations share."""

from collections.abc import Sequence

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value


def moments(x: Value, axes: Sequence[int], ir: Builder) -> tuple[Value, Value]:
    """The mean and the population variance over `axes`, which stay with size 1; computed in the type of `x`."""
    mean = ir.mean(x, axes, keepdims=True)
    return mean, ir.mean(ir.square(ir.sub(x, mean)), axes, keepdims=True)


def standardize(x: Value, axes: Sequence[int], epsilon: float, ir: Builder) -> Value:
    """(x - mean) / sqrt(variance + epsilon)"""
    mean, variance = moments(x, axes, ir)
    return ir.div(ir.sub(x, mean), ir.sqrt(ir.add(variance, epsilon)))


def inverse_root(x: Value, axes: Sequence[int], epsilon: float, ir: Builder) -> Value:
    """1 / sqrt(mean of squares + epsilon), in f32"""
    square = ir.mean(ir.square(ir.cast(x, F32)), axes, keepdims=True)
    return ir.reciprocal(ir.sqrt(ir.add(square, epsilon)))
