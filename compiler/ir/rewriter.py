"""Rewriting: a new module from an old one, by rules that replace an op by something equal and not worse.

A block is rebuilt in order, so a rule sees an op when its operands have their final form; what a rule makes is visited
in its turn before the walk goes on. An op that nothing changes stays the same object. Afterwards what nothing uses is
dropped, nested blocks and their captures included.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn

from onnxc.compiler.ir.builder import Builder, SymbolTable
from onnxc.compiler.ir.capture import replace_operands
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.module import Attribute, Attributes, Block, Function, Module, Op, Value, walk
from onnxc.compiler.ir.op_facts import bound_symbols, capture_count, has_effects, is_cheap
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import Type, type_symbols


@dataclass(frozen=True)
class Refusal:
    """Why a rule that nearly matched left an op as it is."""

    reason: str


Outcome = Value | tuple[Value, ...] | Refusal | None


@dataclass(frozen=True)
class Rule:
    """A rewrite of ops with one of the names `ops`: `apply` gives the new results, None, or why it refuses.

    It may look at the op and at everything above it, and make ops; it must not use the results of the op itself.
    """

    name: str
    ops: tuple[str, ...]
    apply: Callable[[Op, "Rewriter"], Outcome]


def rule(*ops: str) -> Callable[[Callable[[Op, "Rewriter"], Outcome]], Rule]:
    """A decorator that makes a function a rule for the ops of these names."""
    return lambda apply: Rule(apply.__name__, ops, apply)


Refused = Callable[[Rule, Op, Refusal], None]


def _ignore(rule: Rule, op: Op, refusal: Refusal) -> None:
    """What is done with a refusal where nobody asks."""


def rewrite(module: Module, rules: Sequence[Rule], refused: Refused = _ignore) -> Module:
    """`module` with `rules` applied wherever they match, the first that does winning; `refused` hears of refusals."""
    table: dict[str, list[Rule]] = {}
    for each in rules:
        for name in each.ops:
            table.setdefault(name, []).append(each)
    return map_bodies(module, lambda body, symbols: prune(_Walk(table, refused, body).rewriter(symbols).run(body)))


def map_bodies(module: Module, transform: Callable[[Block, SymbolTable], Block]) -> Module:
    """`module` with the body of each function transformed; the table holds the symbols that are in use."""
    functions = (
        replace(function, body=transform(function.body, symbols_in_use(function))) for function in module.functions
    )
    return replace(module, functions=tuple(functions))


def symbols_in_use(function: Function) -> SymbolTable:
    """The symbols of `function` and their ranges, those that are bound within it included."""
    table = SymbolTable()
    names = (name for op in walk(function.body) for name in bound_symbols(op))
    inner = (name for op in walk(function.body) for block in op.blocks for name in _parameter_symbols(block))
    for name in (*_parameter_symbols(function.body), *names, *inner):
        table.ranges[name] = (-(2**63), None) if name.startswith("?") else (0, None)
    table.ranges.update(function.symbols)
    return table


def _parameter_symbols(block: Block) -> tuple[str, ...]:
    return tuple(sorted(name for value in block.parameters for name in type_symbols(value.type)))


class _Walk:
    """What the rewriters of a function and of its nested blocks share.

    The number of rewrites is bounded, so that two rules that undo each other cost time and no more.
    """

    def __init__(self, table: Mapping[str, Sequence[Rule]], refused: Refused, body: Block) -> None:
        self.table, self.refused = table, refused
        self.remaining = 1000 + 32 * sum(1 for _ in walk(body))

    def rewriter(self, symbols: SymbolTable) -> "Rewriter":
        return Rewriter(self, symbols)


@dataclass(frozen=True)
class _Replacement:
    """An entry of the work list: from here on the results of `op` are `values`."""

    op: Op
    values: tuple[Value, ...]


class PassBuilder(Builder):
    """A builder for passes: the model typed once, so what does not type now is a defect of ours and not the model's.

    A float that is broadcast stays one number; other small constants fold as in any builder.
    """

    def op(
        self,
        name: str,
        operands: Sequence[Value] = (),
        attributes: Attributes | None = None,
        blocks: Sequence[Block] = (),
        result_types: Sequence[Type] | None = None,
    ) -> tuple[Value, ...]:
        """The results of a new op."""
        if name != "broadcast" or not operands[0].dtype.is_float:
            return super().op(name, operands, attributes, blocks, result_types)
        rule = PRIMITIVES[name].type_rule
        assert rule is not None, name
        attributes = dict(attributes or {})
        types = rule([operands[0].type], attributes, ())
        return self._made(Op(name, tuple(operands), attributes, (), types, self.location))

    def fail(self, code: str, message: str, values: Sequence[str] = (), rule: str = "") -> NoReturn:
        """An AssertionError."""
        raise AssertionError(f"{message}: {', '.join(values)} at {self.location}")


class Rewriter(PassBuilder):
    """The builder that rules get: it rebuilds one block, and knows how often a value is used."""

    def __init__(self, walk: _Walk, symbols: SymbolTable) -> None:
        super().__init__(symbols)
        self._walk = walk
        self._values: dict[Value, Value] = {}
        self._uses: Counter[Value] = Counter()

    def uses(self, value: Value) -> int:
        """How many operands and results of the block are `value`; at least as many as will be in the end."""
        return self._uses[value]

    def run(self, block: Block) -> Block:
        """`block` rewritten; what is dead is still in it."""
        self._uses.update(operand for op in block.ops for operand in op.operands)
        self._uses.update(block.results)
        for parameter, value in tuple(self._values.items()):
            self._uses[value] += self._uses[parameter]
        self._visit(block.ops)
        return self.block(block.parameters, [self._value(result) for result in block.results])

    def inline(self, block: Block, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """The results of `block`, whose ops become ops of this one."""
        ops, values = replace_operands(block.ops, dict(zip(block.parameters, arguments, strict=True)))
        self.ops += ops
        return tuple(values.get(result, result) for result in block.results)

    def guard(self, left: Dim, right: Dim, relation: str, message: str) -> None:
        """Always a guard: one that was made for a rule which then declined must not hide the next."""
        self._guards.clear()
        super().guard(left, right, relation, message)

    # The walk

    def _value(self, value: Value) -> Value:
        return self._values.get(value, value)

    def _bind(self, op: Op, values: Sequence[Value]) -> None:
        for old, new in zip(op.results, values, strict=True):
            if old != new:
                self._values[old] = new
                self._uses[new] += self._uses[old]

    def _visit(self, ops: Sequence[Op]) -> None:
        pending: list[Op | _Replacement] = list(reversed(ops))
        while pending:
            item = pending.pop()
            if isinstance(item, _Replacement):
                self._bind(item.op, [self._value(value) for value in item.values])
                continue
            op = self._with_new_operands(item)
            if op is None:
                continue
            replaced = self._apply_rules(op)
            if replaced is None:
                self.ops.append(op)
                self._bind(item, op.results)
            else:
                values, made = replaced
                pending.append(_Replacement(item, values))
                pending.extend(reversed(made))

    def _with_new_operands(self, op: Op) -> Op | None:
        """`op` on the values that its operands have become; None where that made it a known size, which is bound."""
        operands = tuple(self._value(operand) for operand in op.operands)
        if operands == op.operands and not op.blocks:
            return op
        blocks = tuple(self._nested(block, op, operands) for block in op.blocks)
        mark = len(self.ops)
        with self.at(op.location):
            results = self.op(op.name, operands, op.attributes, blocks, op.result_types)
        made = self.ops[mark:]
        if made and made[-1].results == results and made[-1].name == op.name:
            return self.ops.pop()
        self._bind(op, results)
        return None

    def _nested(self, block: Block, op: Op, operands: Sequence[Value]) -> Block:
        """A block of `op` rewritten; captures that cost nothing to make are made again inside, so that it folds."""
        inner = self._walk.rewriter(self.symbols)
        count = capture_count(op)
        seen: dict[Value, Value] = {}
        captured = zip(
            block.parameters[len(block.parameters) - count :], operands[len(operands) - count :], strict=True
        )
        for parameter, value in captured:
            first = seen.setdefault(value, parameter)
            if first != parameter:
                inner._values[parameter] = first
            elif is_cheap(value):
                inner._values[parameter] = inner._copy(value)
        return inner.run(block)

    def _copy(self, value: Value) -> Value:
        op = value.op
        assert op is not None, value
        with self.at(op.location):
            return self.op(op.name, [self._copy(operand) for operand in op.operands], op.attributes)[value.index]

    def _apply_rules(self, op: Op) -> tuple[tuple[Value, ...], list[Op]] | None:
        """The new results of `op` and the ops made for them, taken off this block again; None where no rule matches."""
        for each in self._walk.table.get(op.name, ()):
            if not self._walk.remaining:
                return None
            mark = len(self.ops)
            with self.at(op.location):
                outcome = each.apply(op, self)
                values = self._fitted(op, outcome)
            made = self.ops[mark:]
            del self.ops[mark:]
            if isinstance(outcome, Refusal):
                self._walk.refused(each, op, outcome)
            if values is not None:
                self._walk.remaining -= 1
                self._uses.update(operand for new in made for operand in new.operands)
                self._release(op)
                return values, made
        return None

    def _fitted(self, op: Op, outcome: Outcome) -> tuple[Value, ...] | None:
        """The new results under the very types of the old ones, as equal sizes may be written in two ways."""
        if outcome is None or isinstance(outcome, Refusal):
            return None
        values = outcome if isinstance(outcome, tuple) else (outcome,)
        return tuple(self._retyped(value, old) for value, old in zip(values, op.results, strict=True))

    def _retyped(self, value: Value, old: Value) -> Value:
        if value.type == old.type:
            return value
        assert (value.dtype, value.rank) == (old.dtype, old.rank), (value, old)
        return self.with_shape(value, old.shape)

    def _release(self, op: Op) -> None:
        """Uncounts the uses that `op` makes, and those of what is thereby no longer used."""
        dead = [op]
        while dead:
            for operand in dead.pop().operands:
                self._uses[operand] -= 1
                above = operand.op
                if above is not None and not has_effects(above) and not any(map(self.uses, above.results)):
                    dead.append(above)


# Dropping what is dead


def prune(block: Block, known: Set[str] = frozenset()) -> Block:
    """`block` without ops that nothing needs: no result, effect or symbol of theirs; nested blocks and captures too.

    `known` are the symbols that are bound outside.
    """
    live = set(block.results)
    symbols = {name for value in block.results for name in _type_symbols(value.type)}
    kept: list[tuple[Op, Op]] = []
    for op, binds, visible in reversed(_scopes(block, known)):
        needed = has_effects(op) or any(result in live for result in op.results)
        if not needed and symbols.isdisjoint(binds):
            continue
        pruned = _prune_blocks(op, visible) if op.blocks else op
        kept.append((op, pruned))
        live.update(pruned.operands)
        symbols |= _used_symbols(pruned)
    ops: list[Op] = []
    values: dict[Value, Value] = {}
    for op, pruned in reversed(kept):
        operands = tuple(values.get(operand, operand) for operand in pruned.operands)
        if operands != pruned.operands:
            pruned = Op(pruned.name, operands, pruned.attributes, pruned.blocks, pruned.result_types, pruned.location)
        if pruned is not op:
            values.update(zip(op.results, pruned.results, strict=True))
        ops.append(pruned)
    return Block(block.parameters, tuple(ops), tuple(values.get(result, result) for result in block.results))


def _scopes(block: Block, known: Set[str]) -> list[tuple[Op, Set[str], Set[str]]]:
    """For each op the symbols that only it binds, and those that its blocks know."""
    seen = {*known, *(name for value in block.parameters for name in _type_symbols(value.type))}
    scopes: list[tuple[Op, Set[str], Set[str]]] = []
    for op in block.ops:
        binds = set(bound_symbols(op)) - seen
        scopes.append((op, binds, set(seen) if op.blocks else frozenset()))
        seen |= binds
    return scopes


def _prune_blocks(op: Op, known: Set[str]) -> Op:
    blocks = [prune(block, known) for block in op.blocks]
    count = capture_count(op)
    used = {value for block in blocks for value in _used_values(block)}
    kept = [
        place
        for place in range(-count, 0)
        if any(block.parameters[len(block.parameters) + place] in used for block in blocks)
    ]
    operands = _without_dropped(op.operands, count, kept)
    blocks = [Block(_without_dropped(block.parameters, count, kept), block.ops, block.results) for block in blocks]
    return Op(op.name, operands, op.attributes, tuple(blocks), op.result_types, op.location)


def _without_dropped(values: Sequence[Value], count: int, kept: Sequence[int]) -> tuple[Value, ...]:
    """`values`, of whose last `count` only those at `kept`, counted from the end, stay."""
    return (*values[: len(values) - count], *(values[len(values) + place] for place in kept))


def _used_values(block: Block) -> list[Value]:
    return [*block.results, *(operand for op in block.ops for operand in op.operands)]


def _used_symbols(op: Op) -> set[str]:
    """The symbols that `op` and its blocks read."""
    used = {name for value in op.attributes.values() for name in _attribute_symbols(value)}
    used |= {name for type in op.result_types for name in _type_symbols(type)}
    for block in op.blocks:
        used |= {name for value in (*block.parameters, *block.results) for name in _type_symbols(value.type)}
        for inner in block.ops:
            used |= _used_symbols(inner)
    return used


def _attribute_symbols(value: Attribute) -> frozenset[str]:
    if isinstance(value, Size):
        return _size_symbols(value)
    if isinstance(value, tuple):
        return frozenset().union(*(_attribute_symbols(item) for item in value))
    return frozenset()


@lru_cache(maxsize=4096)
def _size_symbols(size: Size) -> frozenset[str]:
    return symbols_of(size)


@lru_cache(maxsize=4096)
def _type_symbols(type: Type) -> frozenset[str]:
    return type_symbols(type)
