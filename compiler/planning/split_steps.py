"""Where native code must stop: the ops of a block in steps, native ones together, every other one alone.

An op is ready when its operands exist and the symbols in its sizes are bound; within that freedom steps are made as
few as possible. But collectives overlap with what takes long and depends on nothing of them: what they wait for is a
step before, the rest is one behind, and what reads their results is behind that.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Literal

from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.planning.exchange_order import leading_to_exchange
from onnxc.runtime.records import record

NativeOps = tuple[Op, ...]

# A generator is here one that host steps read; native steps make theirs themselves.
_Kind = Literal["generator", "host", "native"]


def split_steps(block: Block, is_native: Callable[[Op], bool], bound: frozenset[str]) -> tuple[NativeOps | Op, ...]:
    """The steps of `block` in order; `bound` are the symbols that exist before it starts.

    An op without operands may be in several native steps: it is made again in each that uses it.
    """
    known = bound.union(*(type_symbols(parameter.type) for parameter in block.parameters))
    native = frozenset(op for op in block.ops if _is_native(op, is_native))
    waiting, uses = _Waiting(block, native, _order_of_symbols(block, known)), _uses(block)
    steps: list[NativeOps | Op] = []
    while waiting.count:
        before = waiting.count
        steps += waiting.take_alone("generator")
        steps += waiting.take_alone("host")
        together = waiting.take_native(lambda ready: _without_early(ready, uses, native))
        steps += [together] if together else []
        ended = not together and waiting.end_exchange()
        assert ended or waiting.count < before, f"no op is ready: {list(waiting.waiting)[:10]}"
    exists = waiting.exists
    made = {operand for step in steps if isinstance(step, tuple) for op in step for operand in op.results}
    leaving = [v for v in block.results if v.op is not None and is_generator(v.op) and v.op.name != "constant"]
    alone = tuple(dict.fromkeys(v.op for v in leaving if v not in exists and v not in made and v.op is not None))
    return (*steps, alone) if alone else tuple(steps)


class _Waiting:
    """The ops of a block that are in no step yet: those that are ready, and under what they lack the others.

    An op is looked at again only when what it waits for exists, so that many steps do not take many times as long.
    """

    def __init__(self, block: Block, native: frozenset[Op], order: Mapping[Op, "_Symbols"]) -> None:
        self.ops, self.native, self.order = block.ops, native, order
        self.ordinals = {op: ordinal for ordinal, op in enumerate(block.ops)}
        self.exists: set[Value] = set(block.parameters)
        self.symbols: set[str] = set()
        # What the native step that is being made has so far.
        self.made: set[Value] = set()
        self.exchanges = [op for op in self.ops if is_exchange(op)]
        self.begun: deque[Op] = deque()
        self.ready: dict[_Kind, list[int]] = {"generator": [], "host": [], "native": []}
        self.waiting: dict[Value | str, list[Op]] = {}
        by_host = [operand for op in block.ops if op not in native for operand in op.operands]
        generators = dict.fromkeys(v.op for v in by_host if v.op is not None and is_generator(v.op))
        self.exists.update(v for op in generators if op is not None and op.name == "constant" for v in op.results)
        pending = [op for op in block.ops if (op in generators and op.name != "constant") or not is_generator(op)]
        self.count = len(pending)
        for op in pending:
            self._queue(op)

    def take_alone(self, kind: Literal["generator", "host"]) -> Iterator[Op]:
        """The ops of a kind that are ready, and those that these make ready, in the order of the block."""
        ready = self.ready[kind]
        while ready:
            op = self.ops[heappop(ready)]
            self.count -= 1
            if is_exchange(op):
                self.exchanges.remove(op)
                self.begun.append(op)
            else:
                self._finish(op)
            yield op

    def end_exchange(self) -> bool:
        """What was exchanged first is there; whether anything was."""
        if self.begun:
            self._finish(self.begun.popleft())
            return True
        return False

    def _finish(self, op: Op) -> None:
        self.exists.update(op.results)
        self.symbols.update(self.order[op].binds)
        self._arrived((*op.results, *self.order[op].binds))

    def take_native(self, chosen: Callable[[dict[Op, None]], NativeOps]) -> NativeOps:
        """What is `chosen` of the native ops that are ready, in order, with the generators that they use."""
        native: dict[Op, None] = {}
        ready = self.ready["native"]
        while ready:
            op = self.ops[heappop(ready)]
            native.update(dict.fromkeys(v.op for v in op.operands if v.op is not None and self._is_generated(v)))
            native[op] = None
            self.made.update(op.results)
            self._arrived(op.results)
        leading = leading_to_exchange(native, self.exchanges, self.exists, is_under_way=bool(self.begun))
        taken = chosen(leading)
        steps = frozenset(taken)
        self.made.clear()
        for op in native:
            if is_generator(op):
                continue
            if op in steps:
                self.exists.update(op.results)
                self.count -= 1
                self._arrived(op.results)
            else:
                heappush(ready, self.ordinals[op])
        return taken

    def _is_generated(self, value: Value) -> bool:
        """Whether a native step makes the value wherever it is wanted."""
        return value.op is not None and is_generator(value.op) and value not in self.exists

    def _queue(self, op: Op) -> None:
        """Puts an op among those that are ready, or under the first thing that it lacks."""
        lacking = next(self._lacking(op), None)
        if lacking is not None:
            self.waiting.setdefault(lacking, []).append(op)
            return
        kind: _Kind = "generator" if is_generator(op) else "native" if op in self.native else "host"
        heappush(self.ready[kind], self.ordinals[op])

    def _lacking(self, op: Op) -> Iterator[Value | str]:
        """The operands and symbols that do not exist yet."""
        is_native = op in self.native
        for operand in op.operands:
            if is_native and operand.op is not None and self._is_generated(operand):
                yield from self.order[operand.op].wants - self.symbols
            elif operand not in self.exists and not (is_native and operand in self.made):
                yield operand
        yield from self.order[op].wants - self.symbols

    def _arrived(self, things: Sequence[Value | str]) -> None:
        for thing in things:
            for op in self.waiting.pop(thing, ()):
                self._queue(op)


def is_exchange(op: Op) -> bool:
    """Whether devices meet in the op."""
    return PRIMITIVES[op.name].kind == "collective"


def is_generator(op: Op) -> bool:
    """Whether the op needs no operand and has no effect, so that it can be made wherever it is wanted.

    What a host function gives is made once, where it stands.
    """
    primitive = PRIMITIVES[op.name]
    return not op.operands and not primitive.effects and primitive.kind != "host" and bool(op.results)


def _is_native(op: Op, is_native: Callable[[Op], bool]) -> bool:
    primitive = PRIMITIVES[op.name]
    has_kernel = primitive.anchor is not None or not primitive.structural
    return has_kernel and primitive.kind not in ("host", "collective") and is_native(op)


@record
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


def _uses(block: Block) -> dict[Value, list[Op | None]]:
    """The ops that read each value; None for the block itself."""
    uses: dict[Value, list[Op | None]] = {}
    for op in block.ops:
        for operand in op.operands:
            uses.setdefault(operand, []).append(op)
    for result in block.results:
        uses.setdefault(result, []).append(None)
    return uses


def _without_early(ready: dict[Op, None], uses: dict[Value, list[Op | None]], native: frozenset[Op]) -> NativeOps:
    """`ready` without movements of constants that only later native steps read: made there, they need no buffer.

    Nothing where generators alone are left.
    """
    kept = dict(ready)
    for op in reversed(ready):
        readers = [reader for result in op.results for reader in uses.get(result, [])]
        later = all(reader is not None and reader not in kept and reader in native for reader in readers)
        if readers and later and _moves_constants(op):
            del kept[op]
    return () if all(map(is_generator, kept)) else tuple(kept)


def _moves_constants(op: Op) -> bool:
    made = (operand.op for operand in op.operands)
    movement = PRIMITIVES[op.name].kind == "movement"
    return movement and all(maker is not None and (is_generator(maker) or _moves_constants(maker)) for maker in made)
