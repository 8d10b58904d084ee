"""Where the values of a region are given up: behind the last step that reads them.

What the last step uses is left to the end of the region, as are its results; constants stay.
"""

from collections.abc import Sequence
from dataclasses import replace

from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import (
    Branch,
    Loop,
    PlanStep,
    Region,
    Release,
    Transfer,
    is_constant,
    values_made,
    values_read,
)

__all__ = ["check_releases", "release_values", "with_releases"]


def release_values(region: Region) -> Region:
    """The region with its releases, and those of the regions within; a routine has buffers instead."""
    steps = [_with_inner_releases(step) for step in region.steps]
    return Region(region.block, with_releases(steps, region.block.results))


def _with_inner_releases(step: PlanStep) -> PlanStep:
    match step:
        case Loop():
            return replace(step, body=release_values(step.body))
        case Branch():
            return replace(step, then=release_values(step.then), otherwise=release_values(step.otherwise))
    return step


def with_releases(steps: Sequence[PlanStep], results: Sequence[Value]) -> tuple[PlanStep, ...]:
    """The steps of a region with these results, each followed by the release of what no later one uses."""
    last = {value: ordinal for ordinal, step in enumerate(steps) for value in _uses(step)}
    done: list[list[Value]] = [[] for _ in steps]
    for value in _released(steps, results):
        done[last[value]].append(value)
    released: list[PlanStep] = []
    for step, values in zip(steps, done, strict=True):
        released += [step, Release(tuple(values))] if values else [step]
    return tuple(released)


def check_releases(region: Region) -> None:
    """Raises AssertionError unless every value that is to be released is, once, and not used behind that."""
    expected = set(_released(region.steps, region.block.results))
    released: set[Value] = set()
    for step in region.steps:
        used = released.intersection(_uses(step))
        assert not used, f"{step} uses {used} behind the release"
        if isinstance(step, Release):
            values = set(step.values)
            assert len(values) == len(step.values), f"{step} names a value twice"
            assert values <= expected - released, f"{values - expected} are kept, {values & released} released before"
            released |= values
    assert released == expected, f"{expected - released} are never released"


def _released(steps: Sequence[PlanStep], results: Sequence[Value]) -> tuple[Value, ...]:
    """What steps use and is to be released before the last of them, in order of the first use."""
    computing = [step for step in steps if not isinstance(step, Release | Transfer)]
    kept = {*results, *(_uses(computing[-1]) if computing else ())}
    used = dict.fromkeys(value for step in computing for value in _uses(step))
    return tuple(value for value in used if value not in kept and not is_constant(value))


def _uses(step: PlanStep) -> tuple[Value, ...]:
    """What a step reads or makes."""
    return (*values_read(step), *values_made(step))
