"""Loops that run a number of times known in sizes: found, and replaced by what a rule makes of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Apply, Dim, at_least, only_atom
from onnxc.compiler.ir.module import Block, Module, Op, Value, walk
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.loops.replaced_sizes import ReplacedSizes
from onnxc.runtime.records import record

ENDLESS = 2**63 - 1
"""The limit of a loop that has none."""

LONGEST = 1 << 31
"""Kernels refuse so many rounds, as they do so many elements: no other bound that is as high needs to be kept."""


@record
class CountedLoop:
    """A loop of `trips` rounds, that carries the same types from each to the next."""

    trips: Dim
    initial: tuple[Value, ...]
    captures: tuple[Value, ...]
    body: Block

    @property
    def carried(self) -> tuple[Value, ...]:
        """What the body gives to its next round."""
        return self.body.results[1 : 1 + len(self.initial)]

    @property
    def scanned(self) -> tuple[Value, ...]:
        """What is stacked, round by round."""
        return self.body.results[1 + len(self.initial) :]

    @property
    def states(self) -> tuple[Value, ...]:
        """The parameters that stand for what is carried; the one before them is the number of the round."""
        return self.body.parameters[1 : 1 + len(self.initial)]


Replace = Callable[[CountedLoop, Builder], tuple[Value, ...] | None]
"""The last carried and the stacked values of a loop, made by a builder; None where the loop is to stay."""


def replace_counted(module: Module, rule: Replace) -> Module:
    """`module` with what `rule` makes of its counted loops; the size of what they stack is their number of rounds."""
    if not any(op.name == "while" for function in module.functions for op in walk(function.body)):
        return module
    return map_bodies(module, lambda body, symbols: _replaced(body, symbols, rule))


def _replaced(body: Block, symbols: SymbolTable, rule: Replace) -> Block:
    copy = _Replacement(PassBuilder(symbols), rule=rule)
    values = copy.values(body, body.parameters)
    if not copy.sizes:
        return body
    return prune(copy.build.block(body.parameters, [values[result] for result in body.results]))


@dataclass
class _Replacement(ReplacedSizes):
    """A block on its way; the symbol of a loop that is replaced becomes its number of rounds."""

    rule: Replace = field(kw_only=True)

    def op(self, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
        if op.name == "while" and (made := self._loop(op, operands)) is not None:
            return made
        return () if op.name == "guard" and self._holds(op) else super().op(op, operands)

    def _loop(self, op: Op, operands: Sequence[Value]) -> tuple[Value, ...] | None:
        trips = known_trips(op, operands, self.build)
        if trips is None:
            return None
        last = 2 + op.int("carried")
        initial, body = tuple(operands[2:last]), self.nested(op.blocks[0])
        loop = CountedLoop(trips, initial, tuple(operands[last:]), body)
        types = [value.type for value in initial]
        if [value.type for value in loop.states] != types or [value.type for value in loop.carried] != types:
            return None
        made = self.rule(loop, self.build)
        if made is not None:
            self.sizes[op.text("symbol")] = trips
        return made

    def _holds(self, guard: Op) -> bool:
        """Whether a guard on the rounds of a loop is decided, or bounds what kernels refuse anyway."""
        left, right = guard.dim("left"), only_atom(guard.dim("right"))
        if guard.text("relation") != "at_least" or not isinstance(right, str) or right not in self.sizes:
            return False
        return at_least(left, LONGEST) or at_least(left, self.sizes[right])


def known_trips(op: Op, operands: Sequence[Value], build: Builder) -> Dim | None:
    """How often a loop runs, where its limit is a known size and its condition always holds."""
    limit, kept = build.known(operands[0]), op.blocks[0].results[0]
    if limit is None or limit == (ENDLESS,) or build.known(operands[1]) != (1,) or build.known(kept) != (1,):
        return None
    return maximum(_unbounded(limit[0]), 0) if _has_shapes(op) else None


def _unbounded(size: Dim) -> Dim:
    """min(n, ...) without an n that is so large that kernels refuse it."""
    atom = only_atom(size)
    if not isinstance(atom, Apply) or atom.function != "min":
        return size
    bounds = [bound for bound in atom.arguments if not isinstance(bound, int) or bound <= LONGEST]
    return reduce(minimum, bounds) if bounds else size


def _has_shapes(op: Op) -> bool:
    types = (*op.result_types, *(value.type for value in op.operands))
    return all(isinstance(type, TensorType) and type.shape is not None for type in types)
