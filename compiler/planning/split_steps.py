"""Where native code must stop: the ops of a block in steps, native ones together, every other one alone.

An op is ready when its operands exist and the symbols in its sizes are bound; within that freedom steps are made as
few as possible.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import type_symbols

NativeOps = tuple[Op, ...]


def split_steps(block: Block, is_native: Callable[[Op], bool], bound: frozenset[str]) -> tuple[NativeOps | Op, ...]:
    """The steps of `block` in order; `bound` are the symbols that exist before it starts.

    An op without operands may be in several native steps: it is made again in each that uses it.
    """
    exists: set[Value] = set(block.parameters)
    known = bound.union(*(type_symbols(parameter.type) for parameter in block.parameters))
    order = _order_of_symbols(block, known)
    symbols: set[str] = set()
    wanted_by_host = {
        operand
        for op in block.ops
        if not _is_native(op, is_native)
        for operand in op.operands
        if operand.op is not None and is_generator(operand.op)
    }
    pending = [op for op in block.ops if not is_generator(op)]
    generators = [op for op in block.ops if is_generator(op) and op.results[0] in wanted_by_host]
    uses = _uses(block)
    steps: list[NativeOps | Op] = []
    while pending or generators:
        before = len(pending) + len(generators)
        generators = _take_ready(generators, exists, symbols, order, steps, lambda op: op.name != "constant")
        pending = _take_ready(pending, exists, symbols, order, steps, lambda op: not _is_native(op, is_native))
        native = _without_early(_ready_native(pending, exists, symbols, order, is_native), uses, is_native)
        if native:
            steps.append(native)
            exists.update(result for op in native if not is_generator(op) for result in op.results)
            taken = frozenset(native)
            pending = [op for op in pending if op not in taken]
        assert len(pending) + len(generators) < before, f"no op is ready: {[op.name for op in pending][:10]}"
    made = {operand for step in steps if isinstance(step, tuple) for op in step for operand in op.results}
    leaving = [v for v in block.results if v.op is not None and is_generator(v.op) and v.op.name != "constant"]
    alone = tuple(dict.fromkeys(v.op for v in leaving if v not in exists and v not in made and v.op is not None))
    return (*steps, alone) if alone else tuple(steps)


def is_generator(op: Op) -> bool:
    """Whether the op needs no operand and has no effect, so that it can be made wherever it is wanted.

    What a host function gives is made once, where it stands.
    """
    primitive = PRIMITIVES[op.name]
    return not op.operands and not primitive.effects and primitive.kind != "host" and bool(op.results)


def _is_native(op: Op, is_native: Callable[[Op], bool]) -> bool:
    primitive = PRIMITIVES[op.name]
    has_kernel = primitive.anchor is not None or not primitive.structural
    return has_kernel and primitive.kind != "host" and is_native(op)


@dataclass(frozen=True)
class _Symbols:
    """What an op of a block binds, and what it mentions of that which earlier ops of the block bind."""

    binds: frozenset[str]
    wants: frozenset[str]


def _order_of_symbols(block: Block, known: frozenset[str]) -> dict[Op, _Symbols]:
    """For each op of a block its symbols. The first op that binds one is the one that does; `known` ones need none.

    A later op that declares a result of such a size only mentions it, as an op does in whose blocks it comes up.
    """
    order: dict[Op, _Symbols] = {}
    before: set[str] = set()
    for op in block.ops:
        binds = frozenset(bound_symbols(op)) - before - known
        order[op] = _Symbols(binds, op.symbols & before)
        before |= binds
    return order


def _is_ready(op: Op, exists: set[Value], symbols: set[str], order: Mapping[Op, _Symbols]) -> bool:
    return all(operand in exists for operand in op.operands) and order[op].wants <= symbols


def _take_ready(
    pending: Sequence[Op],
    exists: set[Value],
    symbols: set[str],
    order: Mapping[Op, _Symbols],
    steps: list[NativeOps | Op],
    takes: Callable[[Op], bool],
) -> list[Op]:
    """Appends the ready ops that `takes` as steps of their own; what is left."""
    left = []
    for op in pending:
        if takes(op) and _is_ready(op, exists, symbols, order):
            steps.append(op)
            exists.update(op.results)
            symbols.update(order[op].binds)
        elif op.name == "constant":
            exists.update(op.results)
        else:
            left.append(op)
    return left


def _ready_native(
    pending: Sequence[Op],
    exists: set[Value],
    symbols: set[str],
    order: Mapping[Op, _Symbols],
    is_native: Callable[[Op], bool],
) -> dict[Op, None]:
    """The native ops that can run now, in order, with the generators that they use."""
    local = set(exists)
    native: dict[Op, None] = {}
    for op in pending:
        generated = [v.op for v in op.operands if v.op is not None and is_generator(v.op) and v not in exists]
        if not _is_native(op, is_native) or not all(order[generator].wants <= symbols for generator in generated):
            continue
        local.update(result for generator in generated for result in generator.results)
        if _is_ready(op, local, symbols, order):
            native.update(dict.fromkeys(generated))
            native[op] = None
            local.update(op.results)
    return native


def _uses(block: Block) -> dict[Value, list[Op | None]]:
    """The ops that read each value; None for the block itself."""
    uses: dict[Value, list[Op | None]] = {}
    for op in block.ops:
        for operand in op.operands:
            uses.setdefault(operand, []).append(op)
    for result in block.results:
        uses.setdefault(result, []).append(None)
    return uses


def _without_early(
    native: dict[Op, None], uses: dict[Value, list[Op | None]], is_native: Callable[[Op], bool]
) -> NativeOps:
    """`native` without movements of constants that only later native steps read: made there, they need no buffer."""
    kept = dict(native)
    for op in reversed(native):
        readers = [reader for result in op.results for reader in uses.get(result, [])]
        later = all(reader is not None and reader not in kept and _is_native(reader, is_native) for reader in readers)
        if readers and later and _moves_constants(op):
            del kept[op]
    return tuple(kept)


def _moves_constants(op: Op) -> bool:
    made = (operand.op for operand in op.operands)
    movement = PRIMITIVES[op.name].kind == "movement"
    return movement and all(maker is not None and (is_generator(maker) or _moves_constants(maker)) for maker in made)
