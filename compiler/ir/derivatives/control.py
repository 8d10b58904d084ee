"""Derivatives of control flow: a branch flows back through itself, a loop from its last iteration to its first.

Both compute again what they need of the way forward: a branch inside the branch back, a loop all that it carries, in a
loop of its own that keeps the values before each iteration.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.capture import close_blocks
from onnxc.compiler.ir.copy_block import copy_block, copy_values
from onnxc.compiler.ir.derivatives.indexed import added_at
from onnxc.compiler.ir.differentiation.derivative import (
    Gradients,
    NotDifferentiable,
    Step,
    carries_gradient,
    derivative,
    independent,
    zeros_like,
)
from onnxc.compiler.ir.differentiation.pull_back import pull_back
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL, I64
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.runtime.records import record


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
    gradients = pull_back(results, seeds, xs, build)
    return [zeros_like(x, build) if gradient is None else gradient for x, gradient in zip(xs, gradients, strict=True)]


@record
class _Loop:
    """A loop on the way back.

    `floats` are the carried values with gradients. Of the wanted captures, those in `whole` are used as they are; the
    others only through `parts`, gathers of the body that pick some of their elements.
    """

    step: Step
    floats: tuple[bool, ...]
    whole: tuple[bool, ...]
    parts: tuple[Op, ...]

    @staticmethod
    def of(step: Step) -> "_Loop":
        count, (body,) = step.op.int("carried"), step.op.blocks
        floats = tuple(carries_gradient(value.type) for value in step.operands[2 : 2 + count])
        whole, parts = [], list[Op]()
        for parameter, is_wanted in zip(body.parameters[1 + count :], step.wanted[2 + count :], strict=True):
            gathers = _only_gathers(parameter, body) if is_wanted else ()
            whole.append(is_wanted and not gathers)
            parts += gathers
        return _Loop(step, floats, tuple(whole), tuple(parts))

    @property
    def body(self) -> Block:
        return self.step.op.blocks[0]

    @property
    def initial(self) -> tuple[Value, ...]:
        return self.step.operands[2 : 2 + len(self.floats)]

    @property
    def captures(self) -> tuple[Value, ...]:
        return self.step.operands[2 + len(self.floats) :]

    def captured(self, gather: Op) -> int:
        """The ordinal of the capture that one of `parts` picks from."""
        return self.body.parameters[1 + len(self.floats) :].index(gather.operands[0])

    def first_gradients(self, build: Builder) -> list[Value]:
        """What flows to the carried values after the last iteration, and zeros for the whole captures."""
        given = zip(self.initial, self.step.gradients[: len(self.floats)], self.floats, strict=True)
        own = [
            zeros_like(value, build) if gradient is None else build.with_shape(gradient, value.shape)
            for value, gradient, is_float in given
            if is_float
        ]
        return own + [zeros_like(x, build) for x, is_whole in zip(self.captures, self.whole, strict=True) if is_whole]


def _only_gathers(parameter: Value, body: Block) -> tuple[Op, ...]:
    """The uses of a parameter, where all of them gather as many of its elements each time."""
    users = [op for op in body.ops if parameter in op.operands]
    picks = all(op.name == "gather" and op.operands[1].tensor.is_static for op in users)
    return tuple(users) if picks and parameter not in body.results else ()


@derivative("while")
def while_(step: Step, build: Builder) -> Gradients:
    """From the last iteration to the first: g of what is carried, and the sum of what flows to the captures

    What flows to parts of a capture is stacked, with their indices, and added at once after the loop.
    """
    _expect_kept_shapes(step.op)
    loop = _Loop.of(step)
    kept, trips = _kept_values(step.op, build)
    state = loop.first_gradients(build)
    block = _iteration_back(loop, kept, trips, [value.type for value in state], build)
    passed, (closed,) = close_blocks([block])
    symbol = build.symbols.fresh("back")
    stacks = block.results[1 + len(state) :]
    types = [value.type for value in state]
    types += [TensorType(value.dtype, (Size.symbol(symbol), *value.shape)) for value in stacks]
    made = build.while_(build.size(trips), build.scalar(True, BOOL), state, passed, closed, types, symbol)
    last = iter(made)
    totals = [next(last) if is_there else None for is_there in (*loop.floats, *loop.whole)]
    for gather in loop.parts:
        ordinal, axis = loop.captured(gather), gather.int("axis")
        gradient, indices = next(last), next(last)
        inward = build.transpose(gradient, (*range(1, axis + 1), 0, *range(axis + 1, gradient.rank)))
        part = added_at(loop.captures[ordinal], indices, inward, axis, build)
        before = totals[len(loop.floats) + ordinal]
        totals[len(loop.floats) + ordinal] = part if before is None else build.add(before, part)
    return None, None, *totals


def _iteration_back(loop: _Loop, kept: Sequence[Value], trips: Size, types: Sequence[Type], build: Builder) -> Block:
    """(iteration, gradients...) -> (true, gradients..., scanned...), of the iteration that is as far from the last one.

    The scanned results are, for each of the parts of captures, what flows to it and its indices.
    """
    inner, gradients = build.nested(), loop.step.gradients
    iteration = inner.parameter("iteration", TensorType(I64, ()))
    parameters = [inner.parameter(f"gradient{ordinal}", type) for ordinal, type in enumerate(types)]
    forward = inner.sub(inner.size(trips - 1), iteration)
    before = [inner.gather(values, forward, 0) for values in kept]
    arguments = _independent(loop.captures, loop.whole, inner)
    copies = copy_values(loop.body, (forward, *before, *arguments), inner)
    carried = iter(parameters)
    seeds: list[Value | None] = [next(carried) if is_float else None for is_float in loop.floats]
    seeds += [None if scan is None else inner.gather(scan, forward, 0) for scan in gradients[len(kept) :]]
    results = [copies[result] for result in loop.body.results[1:]]
    parts = [copies[gather.result] for gather in loop.parts]
    wanted = (*loop.floats, *loop.whole, *(True for _ in parts))
    flows = iter(_flowing_to(results, seeds, [*before, *arguments, *parts], wanted, inner))
    own = [next(flows) for is_float in loop.floats if is_float]
    sums = [inner.add(total, next(flows)) for total in carried]
    stacks = [
        value for gather, flow in zip(loop.parts, flows, strict=True) for value in (flow, copies[gather.operands[1]])
    ]
    return inner.block((iteration, *parameters), (inner.scalar(True, BOOL), *own, *sums, *stacks))


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
    parameters = [inner.parameter(f"carried{ordinal}", value.type) for ordinal, value in enumerate(initial)]
    results = copy_block(op.blocks[0], (iteration, *parameters, *captures), inner)
    body = inner.block((iteration, *parameters), (*results[: 1 + count], *parameters))
    passed, (closed,) = close_blocks([body])
    symbol = build.symbols.fresh("trips")
    trips = Size.symbol(symbol)
    stacks = [TensorType(value.dtype, (trips, *value.shape)) for value in initial]
    types = [*(value.type for value in initial), *stacks]
    return build.while_(limit, condition, initial, passed, closed, types, symbol)[count:], trips
