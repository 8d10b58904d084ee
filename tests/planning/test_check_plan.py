"""A sound plan that is changed in one place, in one of the ways that make it wrong, is rejected."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.kernel_plan import (
    Buffer,
    KernelPlan,
    Launch,
    Lifetime,
    PlanStep,
    Region,
    Release,
    Segment,
    Transfer,
)
from onnxc.compiler.planning.layouts import Permuted
from onnxc.compiler.planning.schedules import Packing, Schedule, Threads
from tests.planning.plans import DEVICE, make, plan

N = Size.symbol("N")
IN_ORDER, TURNED = Permuted((0, 1), (4, 4)), Permuted((1, 0), (4, 4))

STEPS: Mapping[str, Callable[[Builder, Value], Value]] = {
    "product": lambda ir, x: ir.dot(x, ir.constant(np.eye(4, dtype=np.float32)), "mk,kn->mn", x.dtype),
    "softmax": lambda ir, x: ir.softmax(x, 0),
    "softmax of rows": lambda ir, x: ir.softmax(x, 1),
    "host": lambda ir, x: ir.host("opaque", [x], [x.type], {})[0],
}


def _measures(problem: KernelProblem) -> Mapping[str, Measure]:
    if problem.kind != "contraction":
        return {}
    return {"rows": Measure(problem.block.parameters[0].tensor.known_shape[0], (Typical(1, 0, 8), Typical(64, 9)))}


def _candidates(problem: KernelProblem, case: Case) -> Sequence[Schedule]:
    """For products of few rows a kernel of its own; it needs more scratch memory than that of many."""
    if problem.kind != "contraction":
        return (Schedule(workers=Threads(1, 1)),)
    rows = problem.block.parameters[0].tensor.known_shape[0]
    few = case.sizes["rows"] == 1
    return (Schedule(workers=Threads(1, 1), packing=Packing(1, TURNED), shared_bytes=(64 if few else 32) * rows),)


VARIED = replace(DEVICE, measures=_measures, candidates=_candidates)


def built(names: Sequence[str]) -> Module:
    """The steps of these names one behind the other."""

    def build(ir: Builder, x: Value) -> Value:
        for name in names:
            x = STEPS[name](ir, x)
        return x

    return make(["f32[N, 4]"], build)


Mutation = Callable[[KernelPlan], Iterator[KernelPlan]]


def of_steps(change: Callable[[Region], Iterator[Sequence[PlanStep]]]) -> Mutation:
    """The plans in which the steps of the body are changed in one of some ways."""
    return lambda made: (replace(made, body=Region(made.body.block, tuple(steps))) for steps in change(made.body))


def of_segments(change: Callable[[Segment], Iterator[Segment]]) -> Mutation:
    """The plans in which one segment is changed in one of some ways."""

    def changed(region: Region) -> Iterator[Sequence[PlanStep]]:
        for index, step in enumerate(region.steps):
            for segment in change(step) if isinstance(step, Segment) else ():
                yield (*region.steps[:index], segment, *region.steps[index + 1 :])

    return of_steps(changed)


def of_launches(change: Callable[[Launch], Iterator[Launch]]) -> Mutation:
    """The plans in which one launch is changed in one of some ways."""

    def changed(segment: Segment) -> Iterator[Segment]:
        for index, launch in enumerate(segment.launches):
            for other in change(launch):
                yield replace(segment, launches=(*segment.launches[:index], other, *segment.launches[index + 1 :]))

    return of_segments(changed)


def without_general_variant(launch: Launch) -> Iterator[Launch]:
    if len(launch.variants) > 1:
        yield replace(launch, variants=launch.variants[:-1])


def with_unreached_variant(launch: Launch) -> Iterator[Launch]:
    yield replace(launch, variants=(launch.general, *launch.variants))


def without_scratch(launch: Launch) -> Iterator[Launch]:
    if launch.scratch is not None:
        yield replace(launch, scratch=None)


def with_free_buffer(launch: Launch) -> Iterator[Launch]:
    """Slots far behind all others."""
    if launch.inputs:
        yield replace(launch, inputs=(Buffer("slot", 1000), *launch.inputs[1:]))
    yield replace(launch, outputs=(Buffer("slot", 1000), *launch.outputs[1:]))


def with_scratch_on_a_live_buffer(segment: Segment) -> Iterator[Segment]:
    """Scratch memory with its lifetime in the slot of each value that lives while its launch runs."""
    for ordinal, launch in enumerate(segment.launches):
        if launch.scratch is None:
            continue
        own = next(
            life
            for life in segment.lifetimes
            if (life.slot, life.first, life.last) == (launch.scratch.index, ordinal, ordinal)
        )
        for life in segment.lifetimes:
            if life is not own and life.first <= ordinal <= life.last:
                yield _scratch_in(segment, ordinal, own, life.slot)


def _scratch_in(segment: Segment, ordinal: int, own: Lifetime, slot: int) -> Segment:
    launches, lifetimes = [*segment.launches], [*segment.lifetimes]
    launches[ordinal] = replace(launches[ordinal], scratch=Buffer("slot", slot))
    lifetimes[lifetimes.index(own)] = replace(own, slot=slot)
    return replace(segment, launches=tuple(launches), lifetimes=tuple(lifetimes))


def with_more_scratch_needed(made: KernelPlan) -> Iterator[KernelPlan]:
    for index, kernel in enumerate(made.kernels):
        if kernel.schedule.shared_bytes != 0:
            kernels = [*made.kernels]
            schedule = replace(kernel.schedule, shared_bytes=4 * kernel.schedule.shared_bytes)
            kernels[index] = replace(kernel, schedule=schedule)
            yield replace(made, kernels=tuple(kernels))


def with_weights_in_another_layout(made: KernelPlan) -> Iterator[KernelPlan]:
    for index, weight in enumerate(made.weights):
        for layout in (None, IN_ORDER):
            weights = [*made.weights]
            weights[index] = replace(weight, layout=layout)
            yield replace(made, weights=tuple(weights))


def with_a_release_before_the_use(region: Region) -> Iterator[Sequence[PlanStep]]:
    steps = region.steps
    for index, step in enumerate(steps):
        if isinstance(step, Release):
            yield (*steps[: index - 1], step, steps[index - 1], *steps[index + 1 :])


def with_a_release_twice(region: Region) -> Iterator[Sequence[PlanStep]]:
    for index, step in enumerate(region.steps):
        if isinstance(step, Release):
            yield (*region.steps[: index + 1], *region.steps[index:])


def with_results_released(region: Region) -> Iterator[Sequence[PlanStep]]:
    yield (*region.steps, Release(tuple(region.block.results)))


def without_one(kind: type[Release] | type[Transfer]) -> Callable[[Region], Iterator[Sequence[PlanStep]]]:
    def changed(region: Region) -> Iterator[Sequence[PlanStep]]:
        for index, step in enumerate(region.steps):
            if isinstance(step, kind):
                yield (*region.steps[:index], *region.steps[index + 1 :])

    return changed


def with_a_transfer_to_where_it_is(region: Region) -> Iterator[Sequence[PlanStep]]:
    for index, step in enumerate(region.steps):
        if isinstance(step, Transfer):
            other = Transfer(step.value, "host" if step.to == "device" else "device")
            yield (*region.steps[:index], other, *region.steps[index + 1 :])
            yield (*region.steps[:index], step, *region.steps[index:])


MUTATIONS: Mapping[str, Mutation] = {
    "no variant for all calls": of_launches(without_general_variant),
    "a variant that is never reached": of_launches(with_unreached_variant),
    "no scratch memory": of_launches(without_scratch),
    "a buffer that is not in use": of_launches(with_free_buffer),
    "scratch memory on a live buffer": of_segments(with_scratch_on_a_live_buffer),
    "too little scratch memory": with_more_scratch_needed,
    "a weight in another layout": with_weights_in_another_layout,
    "a release before the use": of_steps(with_a_release_before_the_use),
    "a release twice": of_steps(with_a_release_twice),
    "no release": of_steps(without_one(Release)),
    "a result that is released": of_steps(with_results_released),
    "no transfer": of_steps(without_one(Transfer)),
    "a transfer to where the value is": of_steps(with_a_transfer_to_where_it_is),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_each_way_to_break_a_plan_is_rejected(mutation: str) -> None:
    made = plan(built(["softmax", "product", "softmax of rows", "host", "product", "softmax", "host"]), VARIED)
    broken = list(MUTATIONS[mutation](made))
    assert broken, f"nothing was changed in\n{made}"
    for each in broken:
        with pytest.raises(AssertionError):
            check_plan(each)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([*STEPS]), max_size=8), st.sampled_from([*MUTATIONS]))
def test_any_plan_that_is_broken_is_rejected(names: list[str], mutation: str) -> None:
    for each in MUTATIONS[mutation](plan(built(names), VARIED)):
        with pytest.raises(AssertionError):
            check_plan(each)
