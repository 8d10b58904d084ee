"""Sizes: what guards prove about them is used, and guards that are thereby decided go.

Guards on the sizes of inputs move to the front of their function, for they stop the call in any case. From there on
sizes that were proved equal are written in one way, so that operations which only differed in that become equal. What
is not zero in a value is looked for once: one mask for boxes, scores and labels finds as many of each. A branch for
nothing goes where the other one does as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, Size, constant_of
from onnxc.compiler.ir.module import Block, Module, Op, Parameter, Value
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.primitive import TypeRuleError
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.ir.types import TensorType, type_symbols
from onnxc.compiler.passes.analysis.size_facts import SizeFacts
from onnxc.compiler.passes.simplify.branches_of_nothing import branch_for_all

Fact = tuple[str, Dim, Dim]


class _Builder(PassBuilder):
    """Ops may turn out to be impossible here: under guards that contradict each other."""

    def fail(self, code: str, message: str, values: Sequence[str] = (), rule: str = "") -> NoReturn:
        """Raises TypeRuleError."""
        raise TypeRuleError(message)


def simplify_sizes(module: Module) -> Module:
    """Uses what guards say of sizes, and drops guards that are decided."""
    return map_bodies(module, _simplified)


def _simplified(body: Block, symbols: SymbolTable) -> Block:
    """`body` under what its guards say, itself where they say nothing of it."""
    bound = {name for value in body.parameters for name in type_symbols(value.type)}
    early = [op for op in body.ops if op.name == "guard" and _guard_symbols(op) <= bound]
    facts = SizeFacts({name: span for name, span in symbols.ranges.items() if name in bound}, {})
    walk = _Walk(_Builder(symbols), facts, searched={})
    try:
        walk.run([*_settled(early, facts), *(op for op in body.ops if op not in early)])
    except TypeRuleError:
        # Guards contradict each other, so that no call gets beyond them.
        return body
    made = walk.build.block(body.parameters, [walk.value(result) for result in body.results])
    return body if (made.ops, made.results) == (body.ops, body.results) else prune(made)


def _guard_symbols(guard: Op) -> frozenset[str]:
    return symbols_of(guard.dim("left")) | symbols_of(guard.dim("right"))


def _settled(guards: Sequence[Op], facts: SizeFacts) -> list[Op]:
    """The guards that the others do not decide, those that say most first, in their plainest form."""
    waiting, chosen = [_plain(guard) for guard in guards], list[Op]()
    while True:
        telling = next((guard for guard in waiting if facts.after(guard) != facts), None)
        if telling is None:
            return chosen + waiting
        waiting.remove(telling)
        facts = facts.after(telling)
        chosen.append(telling)
        waiting = [_plain(_with(guard, *_relation(guard, facts))) for guard in waiting]


def _relation(guard: Op, facts: SizeFacts) -> Fact:
    return guard.text("relation"), facts.dim(guard.dim("left")), facts.dim(guard.dim("right"))


def _plain(guard: Op) -> Op:
    """min(n, x) broadcasts with x exactly where x <= n, for an integer n >= 2; max(n, x) is x exactly where x >= n"""
    relation, left, right = guard.text("relation"), guard.dim("left"), guard.dim("right")
    for size, other in ((left, right), (right, left)):
        limit = _limit(size, other)
        if relation == "broadcast" and limit is not None:
            return _with(guard, "at_least", limit, other)
        least = constant_of(size)
        if relation == "equal" and isinstance(size, Size) and size == maximum(least, other):
            return _with(guard, "at_least", other, least)
    return guard


def _limit(size: Dim, other: Dim) -> int | None:
    """n, where `size` is min(n, other) and n >= 2."""
    if not isinstance(size, Size) or len(size.terms) != 1 or size.terms[0][1] != 1 or len(size.terms[0][0]) != 1:
        return None
    (atom,) = size.terms[0][0]
    if isinstance(atom, str) or atom.function != "min" or len(atom.arguments) != 2 or other not in atom.arguments:
        return None
    limit = next((argument for argument in atom.arguments if argument != other), other)
    return limit if isinstance(limit, int) and limit >= 2 else None


def _with(guard: Op, relation: str, left: Dim, right: Dim) -> Op:
    if (relation, left, right) == (guard.text("relation"), guard.dim("left"), guard.dim("right")):
        return guard
    attributes = {**guard.attributes, "relation": relation, "left": left, "right": right}
    return Op("guard", (), attributes, (), (), guard.location)


@dataclass
class _Walk:
    """One block on its way: the new ops, what old values have become, and what is known so far.

    An old value of type T stands in the new block under `facts.type(T)`, whatever was known when it was made. searched:
    in which values was looked for what is not zero; None within blocks, whose results have sizes of their own.
    """

    build: PassBuilder
    facts: SizeFacts
    values: dict[Value, Value] = field(default_factory=dict)
    said: set[Fact] = field(default_factory=set)
    searched: dict[Value, Op] | None = None

    def value(self, old: Value) -> Value:
        """What stands for `old`, under the sizes that are known by now."""
        new, wanted = self.values.get(old, old), self.facts.type(old.type)
        if new.type != wanted:
            assert isinstance(wanted, TensorType), (new, wanted)
            new = self.values[old] = self.build.with_shape(new, wanted.known_shape)
        return new

    def run(self, ops: Sequence[Op]) -> None:
        for op in ops:
            with self.build.at(op.location):
                if op.name == "guard":
                    self._guard(op)
                elif self.searched is None or not (self._is_searched(op) or self._is_taken(op)):
                    self._op(op)

    def _guard(self, guard: Op) -> None:
        fact = _relation(guard, self.facts)
        if self.facts.holds(*fact) or fact in self.said:
            return
        self.said.add(fact)
        self.build.ops.append(_with(guard, *fact))
        self.facts = self.facts.after(guard)

    def _is_searched(self, op: Op) -> bool:
        """Whether what is not zero was looked for in the same value, so that both sizes are one."""
        if op.name != "non_zero" or self.searched is None:
            return False
        first = self.searched.setdefault(self.value(op.operands[0]), op)
        if first is op:
            return False
        size = self.facts.dim(Size.symbol(first.text("symbol")))
        self.facts = self.facts.with_symbol(op.text("symbol"), size)
        self.values[op.result] = self.value(first.result)
        return True

    def _is_taken(self, op: Op) -> bool:
        """Whether one branch serves all sizes, so that its ops stand for the `if`."""
        chosen = branch_for_all(self.value(op.operands[0]), op, self.facts) if op.name == "if" else None
        if chosen is None:
            return False
        block = chosen.block
        self.values.update(zip(block.parameters, map(self.value, op.operands[1:]), strict=True))
        self.run(block.ops)
        for name, size in chosen.equal.items():
            self.facts = self.facts.with_symbol(name, self.facts.dim(size))
        self.values.update(zip(op.results, map(self.value, block.results), strict=True))
        return True

    def _op(self, op: Op) -> None:
        operands = [self.value(operand) for operand in op.operands]
        attributes = {name: self.facts.attribute(value) for name, value in op.attributes.items()}
        blocks = [self._block(block) for block in op.blocks]
        types = [self.facts.type(type) for type in op.result_types]
        same = operands == list(op.operands) and types == list(op.result_types) and attributes == op.attributes
        if same and blocks == list(op.blocks):
            self.build.ops.append(op)
            return
        if op.name == "reshape" and operands[0].type == types[0]:
            self.values[op.result] = operands[0]
            return
        results = self.build.op(op.name, operands, attributes, blocks, types)
        self.values.update(zip(op.results, results, strict=True))

    def _block(self, block: Block) -> Block:
        """A nested block under the facts of the op that owns it; what it learns itself ends with it."""
        inner = _Walk(_Builder(self.build.symbols), self.facts, said=set(self.said))
        parameters = tuple(self._parameter(value) for value in block.parameters)
        inner.values.update(zip(block.parameters, parameters, strict=True))
        inner.run(block.ops)
        inner.facts = self.facts
        made = inner.build.block(parameters, [inner.value(result) for result in block.results])
        unchanged = (made.parameters, made.ops, made.results) == (block.parameters, block.ops, block.results)
        return block if unchanged else made

    def _parameter(self, old: Value) -> Value:
        type = self.facts.type(old.type)
        return old if type == old.type else Parameter(old.producer.name, type).value
