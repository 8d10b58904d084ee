"""Rewriting: a new module from an old one, by rules that replace an op by something equal and not worse.

A block is rebuilt in order, so a rule sees an op when its operands have their final form; what a rule makes is visited
in its turn before the walk goes on. An op that nothing changes stays the same object. Afterwards what nothing uses is
dropped, nested blocks and their captures included.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.ir.capture import replace_operands
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Block, Function, Module, Op, Value, walk
from onnxc.compiler.ir.op_facts import bound_symbols, capture_count, has_effects, is_cheap
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.ir.types import type_symbols
from onnxc.runtime.records import record


@record
class Refusal:
    """Why a rule that nearly matched left an op as it is."""

    reason: str


Outcome = Value | tuple[Value, ...] | Refusal | None


@record
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
    """`module` with `rules` applied wherever they match, the first that does winning; `refused` gets each refusal.

    Itself where none applies; else without what is dead.
    """
    table = _RuleTable(rules)
    # What is captured by blocks is simplified by any walk.
    if not any(table[op.name] or op.blocks for function in module.functions for op in walk(function.body)):
        return module

    def rewritten(body: Block, symbols: SymbolTable) -> Block:
        made = _Walk(table, refused, body).rewriter(symbols).run(body)
        return body if made is body else prune(made)

    return map_bodies(module, rewritten)


def map_bodies(module: Module, transform: Callable[[Block, SymbolTable], Block]) -> Module:
    """`module` with the body of each function transformed; the table holds the symbols that are in use."""
    return _with_bodies(module, [transform(each.body, symbols_in_use(each)) for each in module.functions])


def _with_bodies(module: Module, bodies: Sequence[Block]) -> Module:
    """`module` with these bodies of its functions; itself where they are those that it has."""
    if all(body is function.body for function, body in zip(module.functions, bodies, strict=True)):
        return module
    functions = zip(module.functions, bodies, strict=True)
    return replace(module, functions=tuple(replace(function, body=body) for function, body in functions))


class _RuleTable(dict[str, Sequence[Rule]]):
    """The rules for the ops of a name, looked for when the first of them is met: most names that rules have are of ops
    that a module has not."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        super().__init__()
        self._rules = rules

    def __missing__(self, name: str) -> Sequence[Rule]:
        self[name] = matching = tuple(each for each in self._rules if name in each.ops)
        return matching


def symbols_in_use(function: Function) -> SymbolTable:
    """The symbols of `function` and their ranges, those that are bound within it included."""
    table = SymbolTable()
    names: list[str] = []
    inner: list[str] = []
    for op in walk(function.body):
        names += bound_symbols(op)
        for block in op.blocks:
            inner += _parameter_symbols(block)
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

    def __init__(self, table: _RuleTable, refused: Refused, body: Block) -> None:
        self.table, self.refused = table, refused
        self.remaining = 1000 + 32 * sum(1 for _ in walk(body))

    def rewriter(self, symbols: SymbolTable) -> "Rewriter":
        return Rewriter(self, symbols)


@record
class _Replacement:
    """An entry of the work list: from here on the results of `op` are `values`."""

    op: Op
    values: tuple[Value, ...]


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

    def run(self, block: Block, captures: Mapping[Value, Value] | None = None) -> Block:
        """`block` rewritten, itself where nothing changes; what is dead is still in it.

        `captures` are the values outside that parameters of the block stand for.
        """
        self._bind_captures(captures or {})
        self._uses.update(operand for op in block.ops for operand in op.operands)
        self._uses.update(block.results)
        for parameter, value in tuple(self._values.items()):
            self._uses[value] += self._uses[parameter]
        self._visit(block.ops)
        made = self.block(block.parameters, [self._value(result) for result in block.results])
        return block if (made.ops, made.results) == (block.ops, block.results) else made

    def inline(self, block: Block, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """The results of `block`, whose ops become ops of this one."""
        ops, values = replace_operands(block.ops, dict(zip(block.parameters, arguments, strict=True)))
        self.ops += ops
        return tuple(values.get(result, result) for result in block.results)

    def guard(self, left: Dim, right: Dim, relation: str, message: str) -> None:
        """Always a guard: one that was made for a rule which then declined must not hide the next."""
        self.add_guard(left, right, relation, message)

    # The walk

    def _value(self, value: Value) -> Value:
        return self._values.get(value, value)

    def _bind(self, op: Op, values: Sequence[Value]) -> None:
        for old, new in zip(op.results, values, strict=True):
            if old != new:
                self._values[old] = new
                self._uses[new] += self._uses[old]

    def _visit(self, ops: Sequence[Op]) -> None:
        """Most rules concern few ops: those for which there is none stay as they are."""
        rules = self._walk.table
        for op in ops:
            if rules[op.name] or op.blocks or not self._values.keys().isdisjoint(op.operands):
                self._rewrite(op)
            else:
                self.ops.append(op)

    def _rewrite(self, first: Op) -> None:
        """`first` and, in their turn, the ops that rules make for it."""
        pending: list[Op | _Replacement] = [first]
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
                if op is not item:
                    self._bind(item, op.results)
            else:
                values, made = replaced
                pending.append(_Replacement(item, values))
                pending.extend(reversed(made))

    def _with_new_operands(self, op: Op) -> Op | None:
        """`op` on the values that its operands have become; None where that made it a known size, which is bound."""
        if not op.blocks and self._values.keys().isdisjoint(op.operands):
            return op
        operands = tuple(self._value(operand) for operand in op.operands)
        # That of an op that is a kernel is as its kernel wants it: constants come from outside, where they are weights.
        is_kernel = PRIMITIVES[op.name].anchor is not None
        blocks = op.blocks if is_kernel else tuple(self._nested(block, op, operands) for block in op.blocks)
        if (operands, blocks) == (op.operands, op.blocks):
            return op
        mark = len(self.ops)
        with self.at(op.location):
            results = self.op(op.name, operands, op.attributes, blocks, op.result_types)
        made = self.ops[mark:]
        if made and made[-1].results == results and made[-1].name == op.name:
            return self.ops.pop()
        self._bind(op, results)
        return None

    def _nested(self, block: Block, op: Op, operands: Sequence[Value]) -> Block:
        """A block of `op` rewritten."""
        count = capture_count(op)
        parameters, captured = (values[len(values) - count :] for values in (block.parameters, tuple(operands)))
        return self._walk.rewriter(self.symbols).run(block, dict(zip(parameters, captured, strict=True)))

    def _bind_captures(self, captures: Mapping[Value, Value]) -> None:
        """Captures that cost nothing to make are made again inside, so that it folds; of equal ones only one stays."""
        seen: dict[Value, Value] = {}
        for parameter, value in captures.items():
            first = seen.setdefault(value, parameter)
            if first != parameter:
                self._values[parameter] = first
            elif is_cheap(value):
                self._values[parameter] = self._copy(value)

    def _copy(self, value: Value) -> Value:
        op = value.op
        assert op is not None, value
        with self.at(op.location):
            return self.op(op.name, [self._copy(operand) for operand in op.operands], op.attributes)[value.index]

    def _apply_rules(self, op: Op) -> tuple[tuple[Value, ...], list[Op]] | None:
        """The new results of `op` and the ops made for them, taken off this block again; None where no rule matches."""
        rules = self._walk.table[op.name]
        if not rules:
            return None
        mark = len(self.ops)
        with self.at(op.location):
            for each in rules:
                if not self._walk.remaining:
                    return None
                outcome = each.apply(op, self)
                if outcome is None and len(self.ops) == mark:
                    continue
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
