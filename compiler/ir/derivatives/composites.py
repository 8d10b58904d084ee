"""Derivatives of composites that have a better one than that of their decomposition."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import Gradients, Step, derivative
from onnxc.compiler.ir.dtypes import BF16, F16, F32
from onnxc.compiler.ir.module import Value


@derivative("softmax", "masked_softmax")
def softmax(step: Step, build: Builder) -> Gradients:
    """y (g - Σ g y)"""
    y, gradient = _wide(step.y, build), _wide(step.gradient, build)
    total = build.reduce(build.mul(gradient, y), "sum", [step.op.int("axis")], keepdims=True)
    return (build.cast(build.mul(y, build.sub(gradient, total)), step.x.dtype),)


@derivative("log_softmax")
def log_softmax(step: Step, build: Builder) -> Gradients:
    """g - exp(y) Σ g"""
    y, gradient = _wide(step.y, build), _wide(step.gradient, build)
    total = build.reduce(gradient, "sum", [step.op.int("axis")], keepdims=True)
    return (build.cast(build.sub(gradient, build.mul(build.exp(y), total)), step.x.dtype),)


def _wide(x: Value, build: Builder) -> Value:
    """`x` as composites compute: 16-bit floats in f32."""
    return build.cast(x, F32) if x.dtype in (F16, BF16) else x
