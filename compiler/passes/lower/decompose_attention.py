"""Attention taken apart into products, a softmax and pointwise ops, where kernels for all of it do not serve."""

from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule

WIDEST = 512
"""The widest heads that kernels of the CPU keep whole panels of (codegen_cpu/schedules/attention.py)."""


def decompose_attention(module: Module) -> Module:
    """Takes attention apart into products, softmax and pointwise ops where heads are of no known width, or too wide."""
    return rewrite(module, [apart])


@rule("attention")
def apart(op: Op, build: Rewriter) -> Outcome:
    """attention(q, k, v, mask) = softmax(scale * q kᵀ + mask) v"""
    q, _, v, *_ = op.operands
    widths = (q.shape[3], v.shape[3])
    if all(isinstance(width, int) and 0 < width <= WIDEST for width in widths):
        return None
    return decompose(op, build)
