"""Attention taken apart into products, a softmax and pointwise ops, for targets without a kernel for it."""

from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def decompose_attention(module: Module) -> Module:
    """Takes attention apart into products, softmax and pointwise ops."""
    return rewrite(module, [apart])


@rule("attention")
def apart(op: Op, build: Rewriter) -> Outcome:
    """attention(q, k, v, mask) = softmax(scale * q kᵀ + mask) v"""
    return decompose(op, build)
