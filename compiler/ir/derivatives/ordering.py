"""Derivatives of ordering: each value flows back to where it was."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import Gradients, Step, derivative, zeros_like


@derivative("sort", "top_k")
def ordered(step: Step, build: Builder) -> Gradients:
    """g at the indices that the second result gives"""
    indices = step.op.results[1]
    return (build.scatter_along(zeros_like(step.x, build), indices, step.gradient, step.op.int("axis"), "add"),)
