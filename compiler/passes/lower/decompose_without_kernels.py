"""Tree ensembles taken apart, for targets without kernels for them."""

from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def decompose_without_kernels(module: Module) -> Module:
    """Takes tree ensembles apart into a loop of gathers and a fold of votes."""
    return rewrite(module, [walks])


@rule("tree_ensemble")
def walks(op: Op, build: Rewriter) -> Outcome:
    """tree_ensemble(x, nodes) = the fold of the votes of the leaves, to which a step per level leads"""
    return decompose(op, build)
