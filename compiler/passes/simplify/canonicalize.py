"""Canonicalisation: the rules of `rules/`, to a fixpoint."""

from onnxc.compiler.ir.module import Module
from onnxc.compiler.ir.rewriter import rewrite
from onnxc.compiler.passes.notes import note_refusal
from onnxc.compiler.passes.simplify.rules import RULES


def canonicalize(module: Module) -> Module:
    """Writes equal things in one form, with less movement and arithmetic."""
    return rewrite(module, RULES, note_refusal)
