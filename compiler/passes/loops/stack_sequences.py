"""Sequences that a loop fills one by one, only to be joined behind it: stacked by the loop, as tensors.

Lists in scripts come so: an empty sequence, an insertion at the end in each round, a concatenation. A sequence is a
value of the host, which drives each round of a loop that carries one; what a loop stacks, native code writes in place.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onnxc.compiler.ir.dims import Size, only_atom, product
from onnxc.compiler.ir.dtypes import STRING
from onnxc.compiler.ir.module import Block, Module, Op, Value, walk
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.ir.types import TensorType, substitute_type, type_symbols
from onnxc.compiler.passes.loops.counted_loops import known_trips
from onnxc.compiler.passes.loops.replaced_sizes import ReplacedSizes

Uses = Mapping[Value, Sequence[Op | None]]
"""The ops that have a value among their operands; None for a block that has it among its results."""


def stack_sequences(module: Module) -> Module:
    """Makes scans of carried sequences that start empty, get one element at their end in each round, and are joined."""
    if not any(op.name == "while" for function in module.functions for op in walk(function.body)):
        return module
    return map_bodies(module, _stacked)


def _stacked(body: Block, symbols: SymbolTable) -> Block:
    uses = _uses(body)
    filled = {op: ordinals for op in walk(body) if op.name == "while" and (ordinals := _filled(op, uses))}
    if not filled:
        return body
    copy = _Stacking(PassBuilder(symbols), filled=filled)
    values = copy.values(body, body.parameters)
    return prune(copy.build.block(body.parameters, [values[result] for result in body.results]))


def _uses(body: Block) -> Uses:
    uses = defaultdict[Value, list[Op | None]](list)
    blocks = [body, *(block for op in walk(body) for block in op.blocks)]
    for block in blocks:
        for result in block.results:
            uses[result].append(None)
        for op in block.ops:
            for operand in op.operands:
                uses[operand].append(op)
    return uses


def _filled(loop: Op, uses: Uses) -> tuple[int, ...]:
    """The ordinals of the carried values of a loop that it may stack."""
    return tuple(ordinal for ordinal in range(loop.int("carried")) if _is_filled(loop, ordinal, uses))


def _is_filled(loop: Op, ordinal: int, uses: Uses) -> bool:
    initial, body = loop.operands[2 + ordinal], loop.blocks[0]
    before, after, behind = body.parameters[1 + ordinal], body.results[1 + ordinal], loop.results[ordinal]
    if not _is_host(initial.op, "sequence_construct") or (initial.op is not None and initial.op.operands):
        return False
    insert = after.op
    if insert is None or not _is_host(insert, "sequence_insert") or len(insert.operands) != 2:
        return False
    if insert.operands[0] != before or list(uses[before]) != [insert] or list(uses[after]) != [None]:
        return False
    outer = {name for operand in loop.operands for name in type_symbols(operand.type)}
    return bool(uses[behind]) and all(map(_is_join, uses[behind])) and _is_stackable(insert.operands[1], outer)


def _is_host(op: Op | None, function: str) -> bool:
    return op is not None and op.name == "host" and op.text("function") == function


def _is_join(op: Op | None) -> bool:
    """Whether `op` joins a sequence of elements whose rank is known."""
    if op is None or not _is_host(op, "concatenate_sequence"):
        return False
    return isinstance(op.result.type, TensorType) and op.result.type.shape is not None


def _is_stackable(value: Value, outer: set[str]) -> bool:
    """Whether all elements have one shape, which is known before the loop."""
    if not isinstance(value.type, TensorType) or value.type.shape is None or value.dtype == STRING:
        return False
    return set(type_symbols(value.type)) <= outer


@dataclass
class _Stacking(ReplacedSizes):
    """A block on its way: the sequences of `filled` loops are stacks, and joined as such."""

    filled: Mapping[Op, tuple[int, ...]] = field(kw_only=True)
    stacks: set[Value] = field(default_factory=set)

    def op(self, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
        if op in self.filled:
            return self._loop(op, operands, self.filled[op])
        if _is_join(op) and operands[0] in self.stacks:
            return (self._joined(op, operands[0]),)
        return super().op(op, operands)

    def _loop(self, op: Op, operands: Sequence[Value], filled: Sequence[int]) -> tuple[Value, ...]:
        """The results of the loop that scans what it filled; a stack for each sequence."""
        count, symbol = op.int("carried"), op.text("symbol")
        kept = [ordinal for ordinal in range(count) if ordinal not in filled]
        body = _scanning(self.nested(op.blocks[0]), count, filled)
        elements = body.results[len(body.results) - len(filled) :]
        scans = [substitute_type(type, self.replacements) for type in op.result_types[count:]]
        scans += [TensorType(value.dtype, (Size.symbol(symbol), *value.shape)) for value in elements]
        types = [substitute_type(op.result_types[ordinal], self.replacements) for ordinal in kept]
        initial = [operands[2 + ordinal] for ordinal in kept]
        captures = operands[2 + count :]
        made = self.build.while_(operands[0], operands[1], initial, captures, body, [*types, *scans], symbol)
        last = len(made) - len(filled)
        sequences = dict(zip(filled, self._counted(made[last:]), strict=True))
        self.stacks.update(sequences.values())
        carried = dict(zip(kept, made, strict=False)) | sequences
        return *(carried[ordinal] for ordinal in range(count)), *made[len(kept) : last]

    def _counted(self, stacks: Sequence[Value]) -> tuple[Value, ...]:
        """The stacks of a loop, with the number of its rounds where that is known."""
        loop = stacks[0].op
        assert loop is not None, stacks
        trips = known_trips(loop, loop.operands, self.build)
        if trips is None:
            return tuple(stacks)
        return tuple(self.build.with_shape(stack, (trips, *stack.shape[1:])) for stack in stacks)

    def _joined(self, op: Op, stack: Value) -> Value:
        """The elements of a stack along the axis that a concatenation asks for, whose sizes take those it had found."""
        axis, build = op.int("axis"), self.build
        build.guard(stack.shape[0], 1, "at_least", "ConcatFromSequence: the sequence is empty")
        order = (*range(1, axis + 1), 0, *range(axis + 1, stack.rank))
        made = build.transpose(stack, order)
        if not op.flag("new_axis"):
            shape = made.shape
            made = build.reshape(made, (*shape[:axis], product(shape[axis : axis + 2]), *shape[axis + 2 :]))
        bound = set(bound_symbols(op))
        for old, new in zip(op.result.shape, made.shape, strict=True):
            if isinstance(name := only_atom(old), str) and name in bound and old != new:
                self.sizes[name] = new
        return made


def _scanning(body: Block, count: int, filled: Sequence[int]) -> Block:
    """The body of a loop of so many carried values, that scans what it had put into sequences."""
    inserts = [op for ordinal in filled if (op := body.results[1 + ordinal].op) is not None]
    dropped = {1 + ordinal for ordinal in filled}
    parameters = tuple(value for ordinal, value in enumerate(body.parameters) if ordinal not in dropped)
    results = tuple(value for ordinal, value in enumerate(body.results) if ordinal not in dropped)
    ops = tuple(op for op in body.ops if op not in inserts)
    return Block(parameters, ops, (*results, *(insert.operands[1] for insert in inserts)))
