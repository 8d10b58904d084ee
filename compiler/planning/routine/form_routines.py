"""Routines: runs of steps without the host become one native call, loops and branches within them too.

A run is as long as can be. One segment alone stays one, and so do guards that the inputs decide, which are checked once
for each combination of their shapes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.types import TensorType, type_symbols
from onnxc.compiler.planning.kernel_plan import (
    BindSizes,
    Branch,
    Collective,
    GuardStep,
    HostStep,
    Kernel,
    Loop,
    OpStep,
    PlanStep,
    Region,
    Routine,
    Segment,
    is_constant,
    regions_of,
    values_made,
    values_read,
    walk_steps,
)
from onnxc.compiler.planning.routine.buffers import assign_buffers

__all__ = ["with_routines"]

WeightOf = Callable[[Value], int]
"""The ordinal of the row-major weight that a constant is."""


def with_routines(region: Region, known: frozenset[str], weight: WeightOf, kernels: Sequence[Kernel]) -> Region:
    """The region with its runs of native steps as routines; `known` are the symbols from outside."""
    known = known.union(*(type_symbols(parameter.type) for parameter in region.block.parameters))
    read_after = _read_after(region)
    steps: list[PlanStep] = []
    for first, run in _runs(region.steps, known):
        if _is_worthwhile(run):
            steps.append(_routine(run, read_after[first + len(run)], known, weight, kernels))
        else:
            steps += [_with_inner(step, known, weight, kernels) for step in run]
        known = known.union(*(bound_symbols(step.op) for step in run if isinstance(step, OpStep)))
    return Region(region.block, tuple(steps))


def _runs(steps: Sequence[PlanStep], inputs: frozenset[str]) -> Iterator[tuple[int, Sequence[PlanStep]]]:
    """The steps in runs, each with the ordinal of its first: native steps together, every other one alone.

    A run begins where a step waits for what devices exchange, which those before it overlap with.
    """
    first, exchanged = 0, set[Value]()
    for ordinal, step in enumerate(steps):
        waits = not exchanged.isdisjoint(values_read(step))
        is_alone = not _is_native(step) or _is_decided(step, inputs)
        if (is_alone or waits) and first < ordinal:
            yield first, steps[first:ordinal]
            first = ordinal
        if is_alone:
            yield ordinal, steps[ordinal : ordinal + 1]
            first = ordinal + 1
        exchanged.difference_update(values_read(step))
        if isinstance(step, Collective):
            exchanged.update(step.op.results)
    if first < len(steps):
        yield first, steps[first:]


def _is_decided(step: PlanStep, inputs: frozenset[str]) -> bool:
    """Whether the step is a guard on sizes that the shapes of the inputs say."""
    return isinstance(step, GuardStep) and symbols_of(step.op.dim("left")) | symbols_of(step.op.dim("right")) <= inputs


def _is_worthwhile(run: Sequence[PlanStep]) -> bool:
    """Whether the run is more than one native call would be anyway."""
    calls = sum(isinstance(step, Segment) for step in run)
    flow = any(isinstance(step, Loop | Branch) and _is_native(step) for step in run)
    return flow or (calls > 0 and len(run) > 1)


def _is_native(step: PlanStep) -> bool:
    match step:
        case Segment() | GuardStep():
            return True
        case BindSizes():
            return _are_dense(step.op.operands)
        case HostStep():
            return is_sizes(step.op)
        case Loop() | Branch():
            regions = regions_of(step)
            values = [*step.op.operands, *step.op.results]
            values += [value for inner in regions for value in (*inner.block.parameters, *inner.block.results)]
            return _are_dense(values) and all(_is_native(inner) for region in regions for inner in region.steps)
    return False


def is_sizes(op: Op) -> bool:
    """Whether an op writes sizes as integers, which takes no kernel."""
    return op.name == "sizes" and op.dtype().is_integer


def _are_dense(values: Sequence[Value]) -> bool:
    """Whether all are tensors of numbers whose rank is known."""
    types = [value.type for value in values]
    return all(isinstance(type, TensorType) and type.shape is not None and not type.dtype.is_string for type in types)


def _with_inner(step: PlanStep, known: frozenset[str], weight: WeightOf, kernels: Sequence[Kernel]) -> PlanStep:
    """A step that the host carries out, with routines in its regions."""
    match step:
        case Loop():
            return replace(step, body=with_routines(step.body, known, weight, kernels))
        case Branch():
            then, otherwise = (with_routines(inner, known, weight, kernels) for inner in (step.then, step.otherwise))
            return replace(step, then=then, otherwise=otherwise)
    return step


def _read_after(region: Region) -> list[frozenset[Value]]:
    """For each step, and the end, what is read from there on."""
    read = [frozenset(region.block.results)]
    for step in reversed(region.steps):
        read.append(read[-1].union(values_read(step)))
    return read[::-1]


def _routine(
    run: Sequence[PlanStep],
    wanted: frozenset[Value],
    known: frozenset[str],
    weight: WeightOf,
    kernels: Sequence[Kernel],
) -> Routine:
    """The run as one call, of whose values later steps read those `wanted`."""
    made = dict.fromkeys(value for step in run for value in values_made(step))
    read = dict.fromkeys(value for step in run for value in values_read(step))
    inputs = tuple(value for value in read if value not in made and not is_constant(value))
    outputs = tuple(value for value in made if value in wanted)
    late = tuple(k for k, value in enumerate(outputs) if not type_symbols(value.type) <= known)
    written = {value for step in run if isinstance(step, Segment) for value in step.outputs}
    direct = frozenset(value for k, value in enumerate(outputs) if k not in late and value in written)
    buffers = assign_buffers(run, outputs, direct, kernels)
    return Routine(
        inputs=inputs,
        outputs=outputs,
        late=late,
        direct=direct,
        steps=tuple(run),
        buffers=buffers.values,
        loops=buffers.loops,
        buffer_count=buffers.count,
        constants={value: weight(value) for value in _constants(run)},
        known=known,
    )


def _constants(run: Sequence[PlanStep]) -> Iterator[Value]:
    """What steps other than launches read and is known beforehand, each once."""
    constants: dict[Value, None] = {}
    for step in walk_steps(run):
        if isinstance(step, OpStep):
            constants.update(dict.fromkeys(step.op.operands))
            for inner in regions_of(step):
                constants.update(dict.fromkeys(inner.block.results))
    return (value for value in constants if is_constant(value))
