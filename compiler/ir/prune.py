"""Dropping what is dead: ops of which no result, effect or symbol is needed, and captures that no block reads."""

from collections.abc import Sequence, Set
from typing import NamedTuple

from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols, capture_count, has_effects
from onnxc.compiler.ir.types import type_symbols


def prune(block: Block, known: Set[str] = frozenset()) -> Block:
    """`block` without ops that nothing needs: no result, effect or symbol of theirs; nested blocks and captures too.

    `known` are the symbols that are bound outside.
    """
    live = {value.producer for value in block.results}
    symbols = {name for value in block.results for name in type_symbols(value.type)}
    kept: list[tuple[Op, Op]] = []
    scopes = _scopes(block, known)
    # Few programs bind symbols, and it takes long to look for all uses of them.
    binds_any = any(scope.binds for scope in scopes.values())
    for op in reversed(block.ops):
        scope = scopes.get(op, _NO_SCOPE)
        if op not in live and symbols.isdisjoint(scope.binds) and not has_effects(op):
            continue
        pruned = _prune_blocks(op, scope.visible) if op.blocks else op
        kept.append((op, pruned))
        live.update([operand.producer for operand in pruned.operands])
        if binds_any:
            symbols |= pruned.symbols
    if len(kept) == len(block.ops) and all(pruned is op for op, pruned in kept):
        return block
    ops: list[Op] = []
    values: dict[Value, Value] = {}
    for op, pruned in reversed(kept):
        operands = tuple(values.get(operand, operand) for operand in pruned.operands) if values else pruned.operands
        if operands != pruned.operands:
            pruned = Op(pruned.name, operands, pruned.attributes, pruned.blocks, pruned.result_types, pruned.location)
        if pruned is not op:
            values.update(zip(op.results, pruned.results, strict=True))
        ops.append(pruned)
    return Block(block.parameters, tuple(ops), tuple(values.get(result, result) for result in block.results))


class _Scope(NamedTuple):
    """The symbols that only one op binds, and those that its blocks know."""

    binds: Set[str]
    visible: Set[str]


_NO_SCOPE = _Scope(frozenset(), frozenset())


def _scopes(block: Block, known: Set[str]) -> dict[Op, _Scope]:
    """The scopes of the ops that bind symbols or have blocks."""
    seen = {*known, *(name for value in block.parameters for name in type_symbols(value.type))}
    scopes: dict[Op, _Scope] = {}
    for op in block.ops:
        names = bound_symbols(op)
        if names or op.blocks:
            scopes[op] = _Scope(set(names) - seen, set(seen))
            seen.update(names)
    return scopes


def _prune_blocks(op: Op, known: Set[str]) -> Op:
    blocks = tuple(prune(block, known) for block in op.blocks)
    count = capture_count(op)
    used = {value for block in blocks for value in _used_values(block)}
    kept = [
        from_end
        for from_end in range(-count, 0)
        if any(block.parameters[len(block.parameters) + from_end] in used for block in blocks)
    ]
    if len(kept) == count and blocks == op.blocks:
        return op
    operands = _without_dropped(op.operands, count, kept)
    blocks = tuple(Block(_without_dropped(block.parameters, count, kept), block.ops, block.results) for block in blocks)
    return Op(op.name, operands, op.attributes, blocks, op.result_types, op.location)


def _without_dropped(values: Sequence[Value], count: int, kept: Sequence[int]) -> tuple[Value, ...]:
    """`values`, of whose last `count` only those at `kept`, counted from the end, stay."""
    return (*values[: len(values) - count], *(values[len(values) + from_end] for from_end in kept))


def _used_values(block: Block) -> list[Value]:
    return [*block.results, *(operand for op in block.ops for operand in op.operands)]
