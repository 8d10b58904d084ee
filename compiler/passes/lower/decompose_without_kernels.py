"""Tree ensembles and searches for what is true taken apart, for targets without kernels for them."""

from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.module import Module, Op
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule


def decompose_without_kernels(module: Module) -> Module:
    """Takes tree ensembles apart into a loop of gathers and a fold of votes, positions into a scan and a scatter."""
    return rewrite(module, [walks, positions])


@rule("tree_ensemble")
def walks(op: Op, build: Rewriter) -> Outcome:
    """tree_ensemble(x, nodes) = the fold of the votes of the leaves, to which a step per level leads"""
    return decompose(op, build)


@rule("true_positions")
def positions(op: Op, build: Rewriter) -> Outcome:
    """true_positions(x) = iota scattered to how many are true before each that is"""
    return decompose(op, build)
