"""Short loops of a known number of rounds, written out: their ops are launched like all others, without a host.

Sizes that data decides do not keep a loop: each round gets its own, which a device may have without the host.
"""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.copy_block import copy_block
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.passes.loops.counted_loops import CountedLoop, replace_counted
from onnxc.compiler.passes.loops.recurrences import is_recurrence
from onnxc.compiler.passes.notes import note

MOST_ROUNDS, MOST_OPS = 32, 512
"""Loops of more rounds, or of more ops in all of them, stay.

An estimate: kernels in which the number of the round is written take 0.1 to 0.4 s each to compile, so that 32 rounds
of two are as long as a model of 60 layers."""


def unroll_loops(module: Module) -> Module:
    """Writes short loops out that would wait for the host in every round."""
    return replace_counted(module, _unrolled)


def _unrolled(loop: CountedLoop, build: Builder) -> tuple[Value, ...] | None:
    """body(0, x), body(1, body(0, x)), ...; each scanned value is those of all rounds joined"""
    if is_recurrence(loop):
        return None
    reason, trips = _reason_to_stay(loop), loop.trips
    if reason or not isinstance(trips, int):
        note("unroll_loops", f"the host drives a loop in each round: {reason}", build.location)
        return None
    carried, scanned = loop.initial, list[tuple[Value, ...]]()
    for iteration in range(trips):
        arguments = [build.constant(np.array(iteration)), *carried, *loop.captures]
        _, *results = copy_block(loop.body, arguments, build)
        carried = tuple(results[: len(loop.initial)])
        scanned.append(tuple(results[len(loop.initial) :]))
    return *carried, *(
        build.concatenate([build.unsqueeze(value, (0,)) for value in rounds], 0)
        for rounds in zip(*scanned, strict=True)
    )


def _reason_to_stay(loop: CountedLoop) -> str:
    """Why a loop is not written out; nothing where it is."""
    trips, ops = loop.trips, loop.body.ops
    if not isinstance(trips, int):
        return f"it has {trips} rounds, which only a call knows"
    if not 1 <= trips <= MOST_ROUNDS:
        return f"it has {trips} rounds, not 1 to {MOST_ROUNDS}"
    if trips * len(ops) > MOST_OPS:
        return f"it has {len(ops)} ops in each of {trips} rounds, more than {MOST_OPS} in all"
    alone = next((op.name for op in ops if PRIMITIVES[op.name].kernel is None and op.name != "bind_sizes"), None)
    if alone is not None:
        return f"no kernel computes {alone}"
    bound = frozenset(name for op in ops for name in bound_symbols(op))
    stacked = next((value.type for value in loop.scanned if not bound.isdisjoint(type_symbols(value.type))), None)
    return "" if stacked is None else f"the size of what it stacks is only found in each round, {stacked}"
