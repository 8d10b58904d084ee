"""Shares of a device in plans: packed once, as constants are, each stored in the layouts that something reads."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import KernelPlan, Segment, walk_steps
from onnxc.compiler.planning.plan import plan_kernels
from tests.planning.plans import TARGET, make


def planned(build: Callable[[Builder, Value, Value, Value], Value | Sequence[Value]]) -> KernelPlan:
    """The plan of a program x0, x1, x2, of which the last two are shares."""
    made = plan_kernels(make(["f32[N, 4]", "f32[4, 4]", "f32[4, 4]"], build), TARGET, shares=2)
    check_plan(made)
    return made


def product(ir: Builder, x: Value, w: Value) -> Value:
    return ir.dot(x, w, "mk,kn->mn", x.dtype)


def parameters(made: KernelPlan) -> list[str]:
    return [value.producer.name for value in made.function.body.parameters]


def read(made: KernelPlan) -> list[tuple[str, ...]]:
    """What each segment reads."""
    segments = (step for step in walk_steps(made.body.steps) if isinstance(step, Segment))
    return [tuple(value.producer.name for value in segment.inputs if value.op is None) for segment in segments]


def test_a_product_reads_its_share_as_a_packed_parameter() -> None:
    made = planned(lambda ir, x, w, v: product(ir, product(ir, x, v), w))
    assert list(map(str, made.shares)) == ["share 1 in axes [1, 0]", "share 0 in axes [1, 0]"]
    assert parameters(made) == ["x0", "x2 in axes [1, 0]", "x1 in axes [1, 0]"]
    assert read(made) == [("x0", "x2 in axes [1, 0]", "x1 in axes [1, 0]")]


def test_a_share_that_is_read_as_it_is_too_is_there_twice() -> None:
    made = planned(lambda ir, x, w, v: (product(ir, x, w), ir.neg(w)))
    assert list(map(str, made.shares)) == ["share 0", "share 0 in axes [1, 0]"]
    assert sorted(read(made)[0]) == ["x0", "x1", "x1 in axes [1, 0]"]


def test_shares_that_nothing_reads_are_not_held() -> None:
    made = planned(lambda ir, x, w, v: ir.neg(x))
    assert (made.shares, parameters(made)) == ((), ["x0"])


def test_what_the_host_and_results_read_stays_as_it_is() -> None:
    made = planned(lambda ir, x, w, v: (ir.non_zero(w), v))
    assert list(map(str, made.shares)) == ["share 0", "share 1"]


def test_parameters_that_callers_pass_are_not_packed() -> None:
    made = planned(lambda ir, x, w, v: product(ir, w, x))
    assert list(map(str, made.shares)) == ["share 0 in axes [1, 0]"]
    assert parameters(made) == ["x0", "x1 in axes [1, 0]"]


def test_a_share_in_another_layout_than_its_kernel_reads_is_rejected() -> None:
    made = planned(lambda ir, x, w, v: product(ir, x, w))
    with pytest.raises(AssertionError):
        check_plan(replace(made, shares=tuple(replace(share, layout=None) for share in made.shares)))
