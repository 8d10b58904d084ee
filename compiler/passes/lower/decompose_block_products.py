"""Products with weights of few bits taken apart, for targets without a kernel for them."""

from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def decompose_block_products(module: Module) -> Module:
    """Takes products with weights of few bits apart into floats and a product of these."""
    return rewrite(module, [apart])


@rule("block_product")
def apart(op: Op, build: Rewriter) -> Outcome:
    """block_product(x, codes, scales, zeros) = x wᵀ, with w = (codes - zeros) * scales"""
    return decompose(op, build)
