"""Sizes that only a call decides, at numbers that they are taken for."""

from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Bounds, Dim
from onnxc.compiler.planning.kernel_plan import Guard
from onnxc.runtime.program import JsonValue

__all__ = ["TYPICAL_SIZE", "TypicalSizes"]

TYPICAL_SIZE = 32
"""What a size that only a call decides is taken for, within its range."""


class TypicalSizes:
    """Sizes as texts, and as numbers at typical values of the symbols, which are collected in `symbols`."""

    def __init__(self, ranges: Bounds) -> None:
        self._ranges = ranges
        self.symbols: dict[str, int] = {}

    def typical(self, dim: Dim) -> int:
        """The size where every symbol is typical."""
        for name in sorted(symbols_of(dim)):
            low, high = self._ranges.get(name, (0, None))
            typical = max(low, TYPICAL_SIZE)
            self.symbols[name] = typical if high is None else min(high, typical)
        return evaluate(dim, self.symbols)

    def json(self, dim: Dim) -> JsonValue:
        """A number; or where it has symbols, its text and its typical value."""
        return dim if isinstance(dim, int) else {"size": str(dim), "typical": self.typical(dim)}

    def serves(self, guard: Guard) -> bool:
        """Whether a variant with this guard serves typical calls."""
        sized = ((each, self.typical(each.size)) for each in guard)
        return all(size >= each.low and (each.high is None or size <= each.high) for each, size in sized)
