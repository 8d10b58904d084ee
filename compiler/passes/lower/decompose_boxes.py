"""The suppression of boxes taken apart into a loop over boxes, for targets without a kernel for it."""

from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def decompose_boxes(module: Module) -> Module:
    """Takes the suppression of boxes apart into a sort and a loop."""
    return rewrite(module, [apart])


@rule("suppress_boxes")
def apart(op: Op, build: Rewriter) -> Outcome:
    """suppress_boxes(corners, scores) = the best boxes first, without those that lose against one before"""
    return decompose(op, build)
