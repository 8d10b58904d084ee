"""The walk back: from the gradients of results to the gradients of what they are computed from.

Each op between them is visited once, after all that uses it. What flows to one value from several uses is added in the
order of the visits, so the same program gives the same sums.
"""

from collections.abc import Collection, Sequence

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.composites.decompositions import DECOMPOSITIONS, decompose
from onnxc.compiler.ir.differentiation.derivative import (
    DERIVATIVES,
    Gradients,
    NotDifferentiable,
    Step,
    carries_gradient,
    holds_floats,
    independent,
)
from onnxc.compiler.ir.module import Op, Value


def pull_back(results: Sequence[Value], seeds: Gradients, xs: Sequence[Value], build: Builder) -> Gradients:
    """The gradients of `xs`, None for zeros, where those of `results` are `seeds`; results may repeat.

    Raises UnsupportedError, which names the op, where one between them has no derivative.
    """
    flowing: dict[Value, Value] = {}
    for result, seed in zip(results, seeds, strict=True):
        if seed is not None:
            _add(flowing, result, seed, build)
    active = _active_ops(tuple(flowing), xs)
    ends = set(xs)
    reached = ends | {result for op in active for result in op.results}
    for op in reversed(active):
        gradients = tuple(None if result in ends else flowing.get(result) for result in op.results)
        if any(gradient is not None for gradient in gradients):
            with build.at(op.location):
                _visit(Step(op, gradients, _wanted(op, reached)), flowing, build)
    return tuple(flowing.get(x) for x in xs)


def _wanted(op: Op, reached: Collection[Value]) -> tuple[bool, ...]:
    """Which operands something has to flow to; UnsupportedError where there is one to which nothing can."""
    wanted = tuple(operand in reached and holds_floats(operand.type) for operand in op.operands)
    for operand, is_wanted in zip(op.operands, wanted, strict=True):
        if is_wanted and not carries_gradient(operand.type):
            raise NotDifferentiable(op, f"{op.name} takes {operand.type}, which has no gradient")
    return wanted


def _visit(step: Step, flowing: dict[Value, Value], build: Builder) -> None:
    """Adds what flows to the operands of one op."""
    for operand, gradient, wanted in zip(step.operands, _derive(step, build), step.wanted, strict=True):
        if gradient is not None and wanted:
            _add(flowing, operand, gradient, build)


def _derive(step: Step, build: Builder) -> Gradients:
    """By the rule of the primitive, else through its decomposition."""
    rule = DERIVATIVES.get(step.op.name)
    if rule is not None:
        return rule(step, build)
    if step.op.name not in DECOMPOSITIONS:
        raise NotDifferentiable(step.op, f"{step.op.name} has no derivative")
    operands = tuple(
        independent(operand, build) if wanted else operand
        for operand, wanted in zip(step.operands, step.wanted, strict=True)
    )
    op = step.op
    results = decompose(Op(op.name, operands, op.attributes, op.blocks, op.result_types, op.location), build)
    return pull_back(results, step.gradients, operands, build)


def _add(flowing: dict[Value, Value], value: Value, gradient: Value, build: Builder) -> None:
    assert (gradient.dtype, gradient.rank) == (value.dtype, value.rank), (value, gradient)
    gradient = build.with_shape(gradient, value.shape)
    flowing[value] = build.add(flowing[value], gradient) if value in flowing else gradient


def _active_ops(results: Sequence[Value], xs: Collection[Value]) -> tuple[Op, ...]:
    """The ops through which `results` depend on `xs`, each after those it depends on itself."""
    order = _ops_above(results, xs)
    reached, active = set(xs), []
    for op in order:
        if any(operand in reached and holds_floats(operand.type) for operand in op.operands):
            active.append(op)
            reached.update(op.results)
    return tuple(active)


def _ops_above(results: Sequence[Value], xs: Collection[Value]) -> tuple[Op, ...]:
    """All ops that `results` are computed by from `xs` and other things, each after those it depends on itself."""
    stop, order, seen = set(xs), list[Op](), set[Op]()
    pending: list[tuple[Value, bool]] = [(value, False) for value in reversed(results)]
    while pending:
        value, is_done = pending.pop()
        op = value.op
        if op is None or value in stop:
            continue
        if is_done:
            order.append(op)
        elif op not in seen:
            seen.add(op)
            pending.append((value, True))
            pending += [(operand, False) for operand in reversed(op.operands)]
    return tuple(order)
