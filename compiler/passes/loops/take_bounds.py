"""Sizes that data could make smaller, and nothing else: taken at their bounds, for who would wait for the data.

The rounds of a recurrent layer are those of the longest sequence, or of all steps: a host that reads how many makes
the device stop, which takes longer than rounds that change nothing.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.module import Block, Module, Op, Value, walk
from onnxc.compiler.ir.op_facts import named_symbols
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.passes.loops.replaced_sizes import ReplacedSizes


def take_bounds(module: Module) -> Module:
    """Puts bounds in the place of sizes that data decides, where the results are the same."""
    if not any("at_most" in op.attributes for function in module.functions for op in walk(function.body)):
        return module
    return map_bodies(module, _at_bounds)


def _at_bounds(body: Block, symbols: SymbolTable) -> Block:
    copy = _AtBounds(PassBuilder(symbols))
    values = copy.values(body, body.parameters)
    return prune(copy.build.block(body.parameters, [values[result] for result in body.results]))


class _AtBounds(ReplacedSizes):
    def op(self, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
        if "at_most" not in op.attributes:
            return super().op(op, operands)
        bounds = self.attribute(op, "at_most", op.attributes["at_most"])
        self.sizes |= dict(zip(named_symbols(op), _dims(bounds), strict=True))
        return ()


def _dims(bounds: object) -> tuple[Dim, ...]:
    assert isinstance(bounds, tuple), bounds
    return tuple(bound for bound in bounds if isinstance(bound, int | Size))
