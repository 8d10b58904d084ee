"""Rotary embeddings taken apart into pointwise ops, which are part of the kernels they are fused into."""

from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def decompose_rotary(module: Module) -> Module:
    """Takes rotary embeddings apart into products and sums."""
    return rewrite(module, [apart])


@rule("rotary")
def apart(op: Op, build: Rewriter) -> Outcome:
    """rotary(a | b, cos, sin) = a cos - b sin | a sin + b cos"""
    return decompose(op, build)
