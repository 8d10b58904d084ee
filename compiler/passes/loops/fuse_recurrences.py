"""Loops that are recurrences as one op each, and two that do not depend on each other as one: the two directions.

What was a launch for every product and every round, driven by the host, is a kernel that goes through all rounds.
"""

from collections.abc import Sequence
from dataclasses import replace

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.capture import replace_operands
from onnxc.compiler.ir.module import Block, Module, Op, Parameter, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.loops.counted_loops import CountedLoop, replace_counted
from onnxc.compiler.passes.loops.recurrences import is_recurrence


def fuse_recurrences(module: Module) -> Module:
    """Makes one op of a recurrence, and of two that can run side by side."""
    fused = replace_counted(module, _fused)
    if fused is module:
        return module
    return replace(fused, functions=tuple(replace(each, body=_side_by_side(each.body)) for each in fused.functions))


def _fused(loop: CountedLoop, build: Builder) -> tuple[Value, ...] | None:
    """while (i < n) {body} = recurrence {body}, whose constants come from outside, as a kernel wants them"""
    if not is_recurrence(loop):
        return None
    inner = [op for op in loop.body.ops if op.name == "constant" and op.array().size > 1]
    parameters = [Parameter(f"constant{ordinal}", op.result.type).value for ordinal, op in enumerate(inner)]
    constants = dict(zip((op.result for op in inner), parameters, strict=True))
    ops, values = replace_operands([op for op in loop.body.ops if op not in inner], constants)
    results = tuple(values.get(value, value) for value in (*loop.carried, *loop.scanned))
    body = Block((*loop.body.parameters, *parameters), tuple(ops), results)
    stacked = [TensorType(value.dtype, (loop.trips, *value.shape)) for value in loop.scanned]
    return build.op(
        "recurrence",
        [*loop.initial, *loop.captures, *(build.constant(op.array()) for op in inner)],
        {"trips": loop.trips, "carried": len(loop.initial), "scans": len(loop.scanned)},
        [body],
        [*(value.type for value in loop.initial), *stacked],
    )


# Two at a time


def _side_by_side(body: Block) -> Block:
    """`body` with pairs of recurrences that fit, and do not depend on each other, as one."""
    position = 0
    while (position := _next_recurrence(body, position)) < len(body.ops):
        joined = _with_second(body, position)
        if joined is body:
            position += 1
        # Else what stood between the two is at this ordinal now.
        body = joined
    return body


def _next_recurrence(body: Block, start: int) -> int:
    """The ordinal of the first recurrence from `start` on that is one loop; behind all ops where there is none."""
    ordinals = range(start, len(body.ops))
    return next((ordinal for ordinal in ordinals if _is_lone(body.ops[ordinal])), len(body.ops))


def _is_lone(op: Op) -> bool:
    return op.name == "recurrence" and len(op.blocks) == 1


def _with_second(body: Block, position: int) -> Block:
    """`body` with the recurrence at this ordinal and the first that fits as one; itself where none does."""
    first, behind = body.ops[position], body.ops[position + 1 :]
    fitting = [op for op in behind if _fits(first, op)]
    dependent = _dependents(first, behind) if fitting else frozenset()
    second = next((op for op in fitting if op not in dependent), None)
    if second is None:
        return body
    joined = _joined(first, second)
    values = dict(zip((*first.results, *second.results), joined.results, strict=True))
    early = [op for op in behind[: behind.index(second)] if op not in dependent]
    moved = {first, second, *early}
    late, values = replace_operands([op for op in behind if op not in moved], values)
    results = tuple(values.get(value, value) for value in body.results)
    return Block(body.parameters, (*body.ops[:position], *early, joined, *late), results)


def _dependents(op: Op, behind: Sequence[Op]) -> frozenset[Op]:
    """Those of the ops `behind` that need a result of `op`; all behind one that binds symbols, which any may read."""
    made, dependents = set(op.results), set[Op]()
    for ordinal, other in enumerate(behind):
        if not made.isdisjoint(other.operands):
            if bound_symbols(other) or PRIMITIVES[other.name].effects:
                return frozenset((*dependents, *behind[ordinal:]))
            dependents.add(other)
            made.update(other.results)
    return frozenset(dependents)


def _fits(first: Op, second: Op) -> bool:
    """Whether `second` is a recurrence of one loop too, of the same sizes and types."""
    return _is_lone(second) and first.attributes == second.attributes and first.result_types == second.result_types


def _joined(first: Op, second: Op) -> Op:
    """The recurrence of both loops, each with the captures of both."""
    count = first.int("carried")
    captures = tuple(dict.fromkeys((*first.operands[count:], *second.operands[count:])))
    blocks = tuple(_with_captures(op.blocks[0], op.operands[count:], count, captures) for op in (first, second))
    operands = (*first.operands[:count], *second.operands[:count], *captures)
    types = (*first.result_types, *second.result_types)
    return Op("recurrence", operands, first.attributes, blocks, types, second.location)


def _with_captures(block: Block, own: Sequence[Value], count: int, captures: Sequence[Value]) -> Block:
    """A block that takes `captures` in place of its `own`."""
    parameters = [Parameter(f"captured{ordinal}", value.type).value for ordinal, value in enumerate(captures)]
    of = dict(zip(captures, parameters, strict=True))
    before = block.parameters[1 + count :]
    ops, values = replace_operands(block.ops, {old: of[value] for old, value in zip(before, own, strict=True)})
    results = tuple(values.get(value, value) for value in block.results)
    return Block((*block.parameters[: 1 + count], *parameters), tuple(ops), results)
