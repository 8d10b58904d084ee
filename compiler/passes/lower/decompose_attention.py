"""Attention taken apart into products, a softmax and pointwise ops, where kernels for all of it do not serve."""

from collections.abc import Collection

from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.pipeline import Pass


def decompose_attention_but(widest: int, computed: Collection[DType] | None = None) -> Pass:
    """The pass for a target with kernels for heads of up to `widest` elements, of the types computed (None: of any)."""

    @rule("attention")
    def apart(op: Op, build: Rewriter) -> Outcome:
        """attention(q, k, v, mask) = softmax(scale * q kᵀ + mask) v"""
        q, _, v, *_ = op.operands
        widths = (q.shape[3], v.shape[3])
        fits = all(isinstance(width, int) and 0 < width <= widest for width in widths)
        if fits and (computed is None or q.dtype in computed):
            return None
        return decompose(op, build)

    def decompose_attention(module: Module) -> Module:
        """Takes attention apart into products, softmax and pointwise ops where a target has no kernel for all of it."""
        return rewrite(module, [apart])

    return decompose_attention
