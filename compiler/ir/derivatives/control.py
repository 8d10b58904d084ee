"""Derivatives of control flow: a branch flows back through itself, a loop from its last iteration to its first.

Both compute again what they need of the way forward: a branch inside the branch back, a loop all that it carries, in a
loop of its own that keeps the values before each iteration.
"""

from collections.abc import Sequence

from compiler.ir.builder import Builder
from compiler.ir.capture import close_blocks
from compiler.ir.copy_block import copy_block
from compiler.ir.derivative import (
    Gradients,
    NotDifferentiable,
    Step,
    carries_gradient,
    derivative,
    independent,
    zeros_like,
)
from compiler.ir.dims import Size
from compiler.ir.dtypes import BOOL, I64
from compiler.ir.module import Block, Op, Value
from compiler.ir.pull_back import pull_back
from compiler.ir.types import TensorType, Type


@derivative("if")
def if_(step: Step, build: Builder) -> Gradients:
    """The branch that was taken, computed again, and g through it to what it captures"""
    condition, *captures = step.operands
    wanted = step.wanted[1:]
    blocks = [_branch_back(block, captures, wanted, step.gradients, build) for block in step.op.blocks]
    passed, closed = close_blocks(blocks)
    types = [capture.type for capture, is_wanted in zip(captures, wanted, strict=True) if is_wanted]
    made = iter(build.if_(condition, passed, closed, types))
    return None, *(next(made) if is_wanted else None for is_wanted in wanted)


def _branch_back(
    block: Block, captures: Sequence[Value], wanted: Sequence[bool], gradients: Gradients, build: Builder
) -> Block:
    """() -> the gradients of the wanted captures."""
    inner = build.nested()
    arguments = _independent(captures, wanted, inner)
    results = copy_block(block, arguments, inner)
    seeds = [
        None if gradient is None else inner.with_shape(gradient, result.shape)
        for gradient, result in zip(gradients, results, strict=True)
    ]
    return inner.block((), _flowing_to(results, seeds, arguments, wanted, inner))


def _independent(values: Sequence[Value], wanted: Sequence[bool], build: Builder) -> list[Value]:
    return [independent(value, build) if own else value for value, own in zip(values, wanted, strict=True)]


def _flowing_to(
    results: Sequence[Value], seeds: Gradients, values: Sequence[Value], wanted: Sequence[bool], build: Builder
) -> list[Value]:
    """The gradients of the wanted among `values`, zeros where nothing flows."""
    xs = [value for value, is_wanted in zip(values, wanted, strict=True) if is_wanted]
    found = pull_back(results, seeds, xs, build)
    return [zeros_like(x, build) if gradient is None else gradient for x, gradient in zip(xs, found, strict=True)]


@derivative("while")
def while_(step: Step, build: Builder) -> Gradients:
    """From the last iteration to the first: g of what is carried, and the sum of what flows to the captures

    The loop back carries the gradients of the carried floats, then those of the wanted captures.
    """
    count = step.op.int("carried")
    _expect_kept_shapes(step.op)
    initial, captures = step.operands[2 : 2 + count], step.operands[2 + count :]
    floats = tuple(carries_gradient(value.type) for value in initial)
    wanted = step.wanted[2 + count :]
    kept, trips = _kept_values(step.op, build)
    state = [
        zeros_like(value, build) if gradient is None else build.with_shape(gradient, value.shape)
        for value, gradient, is_float in zip(initial, step.gradients[:count], floats, strict=True)
        if is_float
    ]
    state += [zeros_like(value, build) for value, is_wanted in zip(captures, wanted, strict=True) if is_wanted]
    types = [value.type for value in state]
    passed, (closed,) = close_blocks([_iteration_back(step, kept, trips, types, floats, build)])
    symbol = build.symbols.fresh("back")
    last = iter(build.while_(build.size(trips), build.scalar(True, BOOL), state, passed, closed, types, symbol))
    return None, None, *(next(last) if is_there else None for is_there in (*floats, *wanted))


def _iteration_back(
    step: Step, kept: Sequence[Value], trips: Size, types: Sequence[Type], floats: Sequence[bool], build: Builder
) -> Block:
    """(iteration, gradients...) -> (true, gradients...), of the iteration that is as far from the last one."""
    count, inner = len(kept), build.nested()
    captures, wanted = step.operands[2 + count :], step.wanted[2 + count :]
    iteration = inner.parameter("iteration", TensorType(I64, ()))
    parameters = [inner.parameter(f"gradient{place}", type) for place, type in enumerate(types)]
    place = inner.sub(inner.size(trips - 1), iteration)
    before = [inner.gather(values, place, 0) for values in kept]
    arguments = _independent(captures, wanted, inner)
    _, *results = copy_block(step.op.blocks[0], (place, *before, *arguments), inner)
    flowing = iter(parameters)
    seeds: list[Value | None] = [next(flowing) if is_float else None for is_float in floats]
    seeds += [None if scan is None else inner.gather(scan, place, 0) for scan in step.gradients[count:]]
    found = _flowing_to(results, seeds, [*before, *arguments], [*floats, *wanted], inner)
    own, more = found[: sum(floats)], found[sum(floats) :]
    sums = [inner.add(total, part) for total, part in zip(flowing, more, strict=True)]
    return inner.block((iteration, *parameters), (inner.scalar(True, BOOL), *own, *sums))


def _expect_kept_shapes(op: Op) -> None:
    """A stack needs tensors of one shape."""
    count, (body,) = op.int("carried"), op.blocks
    for given, taken, made in zip(
        op.operands[2 : 2 + count], body.parameters[1 : 1 + count], body.results[1 : 1 + count], strict=True
    ):
        if not isinstance(given.type, TensorType) or given.type.shape is None:
            raise NotDifferentiable(op, f"a loop that carries {given.type} has no derivative")
        if taken.type != given.type or made.type != given.type:
            raise NotDifferentiable(op, f"a loop has no derivative where {given.type} that it carries changes shape")


def _kept_values(op: Op, build: Builder) -> tuple[tuple[Value, ...], Size]:
    """The carried values before each iteration, stacked along a new first axis, and how many iterations there are."""
    limit, condition, *rest = op.operands
    count = op.int("carried")
    initial, captures = rest[:count], rest[count:]
    inner = build.nested()
    iteration = inner.parameter("iteration", TensorType(I64, ()))
    parameters = [inner.parameter(f"carried{place}", value.type) for place, value in enumerate(initial)]
    results = copy_block(op.blocks[0], (iteration, *parameters, *captures), inner)
    body = inner.block((iteration, *parameters), (*results[: 1 + count], *parameters))
    passed, (closed,) = close_blocks([body])
    symbol = build.symbols.fresh("trips")
    trips = Size.symbol(symbol)
    stacks = [TensorType(value.dtype, (trips, *value.shape)) for value in initial]
    types = [*(value.type for value in initial), *stacks]
    return build.while_(limit, condition, initial, passed, closed, types, symbol)[count:], trips
