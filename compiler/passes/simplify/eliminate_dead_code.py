"""Dead code: ops of which no result, effect or symbol is needed."""

from onnxc.compiler.ir.module import Module
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies


def eliminate_dead_code(module: Module) -> Module:
    """Drops ops that nothing needs, and captures that no block uses."""
    return map_bodies(module, lambda body, _: prune(body))
