"""Rows of bytes that are multiplied with weights of few bits, as the floats that they stand for.

This is for what has no kernel of bytes; that for floats reads the weights as narrow as they are, too.
"""

from collections.abc import Callable

from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.compiler.passes.pipeline import Pass


def decompose_byte_blocks_but(keeps: Callable[[Op], bool]) -> Pass:
    """The pass that multiplies floats where rows are bytes in blocks, but for products that are kept."""

    @rule("byte_block_product")
    def apart(op: Op, build: Rewriter) -> Outcome:
        """byte_block_product(x, steps, w) = block_product(x * steps, w)"""
        return None if keeps(op) else decompose(op, build)

    def decompose_byte_blocks(module: Module) -> Module:
        """Multiplies floats where rows are bytes in blocks."""
        return rewrite(module, [apart])

    return decompose_byte_blocks
