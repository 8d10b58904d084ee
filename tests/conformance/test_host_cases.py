"""Official cases whose values are tensors of numbers run without a step on the host, except those of a list."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from onnxc.compiler.ir.module import walk
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.compiler.planning.kernel_plan import HostStep, KernelPlan, Routine, walk_steps
from tests.conformance.cases import Case, all_cases
from tests.support.type_support import stages_to_plan

LISTED = Path(__file__).with_name("host_cases.txt")
SAMPLE = 100

pytestmark = pytest.mark.slow


@cache
def listed() -> Mapping[str, str]:
    """The reason of each case that has a step on the host."""
    lines = LISTED.read_text().splitlines()
    return dict(line.split(maxsplit=1) for line in lines if not line.startswith("#"))


def is_listed_rightly(case: Case) -> bool:
    """Whether a case is in the list if it computes with numbers and does so on the host, and is not there if not."""
    plan = dict(stages_to_plan(case.load()[0].SerializeToString()))["plan"]
    assert isinstance(plan, KernelPlan), plan
    on_host = computes_with_numbers(plan) and any(host_steps(plan))
    return on_host == (case.name in listed())


def computes_with_numbers(plan: KernelPlan) -> bool:
    values = [value for op in walk(plan.function.body) for value in (*op.operands, *op.results)]
    return all(is_of_numbers(value.type) for value in values)


def is_of_numbers(type: Type) -> bool:
    return isinstance(type, TensorType) and not type.dtype.is_string


def host_steps(plan: KernelPlan) -> Iterator[HostStep]:
    """The steps on the host; a routine has none."""
    steps = (step for step in plan.body.steps if not isinstance(step, Routine))
    return (step for step in walk_steps(steps) if isinstance(step, HostStep))


@cache
def cases() -> Mapping[str, Case]:
    return {case.name: case for case in all_cases()}


def test_listed_cases_have_a_step_on_the_host() -> None:
    assert [name for name in listed() if not is_listed_rightly(cases()[name])] == []


def test_a_sample_of_the_others_has_none() -> None:
    others = [case for name, case in cases().items() if name not in listed()]
    assert [case.name for case in others[::SAMPLE] if not is_listed_rightly(case)] == []
