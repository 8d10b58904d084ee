"""Variants for sizes that were asked for: which are kept, and that constants lie as the general kernel wants them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import bcast
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, PlanTarget
from onnxc.compiler.planning.kernel_plan import KernelPlan, Segment
from onnxc.compiler.planning.layouts import Permuted
from onnxc.compiler.planning.schedules import Packing, PointwiseSchedule, Schedule, Threads
from tests.planning.plans import TARGET, make, plan

TURNED = Packing(1, Permuted((1, 0), (4, 4)))


def product(ir: Builder, x: Value) -> Value:
    return ir.dot(x, ir.constant(np.ones((4, 4), np.float32)), "mk,kn->mn")


def test_a_kernel_for_a_size_wants_constants_as_the_general_one_does() -> None:
    """It would rather have the constant as it is, and takes the best schedule that turns it."""
    made = plan(make(["f32[N, 4]"], product), liking(few=[None, TURNED], many=[TURNED]), {"N": [1]})
    assert variants(made) == [("N = 1", 1), ("", 0)]
    assert [kernel.schedule.packing for kernel in made.kernels] == [TURNED, TURNED]
    assert [weight.layout for weight in made.weights] == [TURNED.layout]


def test_a_size_whose_kernels_want_a_constant_otherwise_has_none() -> None:
    made = plan(make(["f32[N, 4]"], product), liking(few=[None], many=[TURNED]), {"N": [1]})
    assert variants(made) == [("", 0)]


def test_sizes_of_several_symbols_are_combined() -> None:
    made = plan(exps("f32[N, M]"), TARGET, {"N": [1, 2], "M": [3]})
    assert variants(made) == [("N = 1 and M = 3", 1), ("N = 2 and M = 3", 2), ("", 0)]


def test_equal_kernels_for_a_size_are_one() -> None:
    made = plan(exps("f32[N]", "f32[M]"), TARGET, {"N": [2], "M": [2]})
    assert variants(made) == [("N = 2", 1), ("", 0), ("M = 2", 1), ("", 0)]


def test_a_symbol_without_sizes_of_its_own_stays() -> None:
    assert variants(plan(exps("f32[N]", "f32[M]"), TARGET, {"M": [2]})) == [("", 0), ("M = 2", 1), ("", 0)]


@pytest.mark.parametrize(
    ("types", "guard"),
    [
        (("f32[N, 4]", "f32[M, 4]"), "M - N = 0"),
        (("f32[N, K]", "f32[M, L]"), "M - N = 0 and -K + L = 0"),
        (("f32[N, 4]", "f32[M, 4]", "f32[K, 4]"), "M - N = 0 and K - N = 0"),
        (("f32[N, 4]", "f32[8, 4]"), "N = 8"),
        (("f32[8, N]", "f32[M, 4]"), "N = 4 and M = 8"),
        (("f32[N, 4]", "f32[M, 4]", "f32[8, 4]"), "N = 8 and M = 8"),
    ],
)
def test_sizes_that_are_broadcast_together_are_one_where_they_are_equal(types: Sequence[str], guard: str) -> None:
    made = plan(make(list(types), sums), replace(TARGET, joins_sizes=True))
    assert variants(made) == [(guard, 1), ("", 0)]
    equal, general = made.kernels[1], made.kernels[0]
    shapes = {value.shape for value in (*equal.block.parameters, *equal.block.results)}
    assert len(shapes) == 1
    assert len(equal.symbols) < len(general.symbols)
    assert variants(plan(make(list(types), sums))) == [("", 0)]


def sums(ir: Builder, *values: Value) -> Value:
    total, *others = values
    for value in others:
        shape = tuple(bcast(a, b) for a, b in zip(total.shape, value.shape, strict=True))
        total = ir.add(*(ir.broadcast(each, (0, 1), shape) for each in (total, value)))
    return total


def exps(*types: str) -> Module:
    return make(list(types), lambda ir, *values: [ir.exp(value) for value in values])


def variants(made: KernelPlan) -> list[tuple[str, int]]:
    """The guard of each variant of each launch, and its kernel."""
    (segment,) = made.body.steps
    assert isinstance(segment, Segment)
    every = (variant for launch in segment.launches for variant in launch.variants)
    return [(" and ".join(map(str, variant.guard)), variant.kernel) for variant in every]


def liking(few: Sequence[Packing | None], many: Sequence[Packing | None]) -> PlanTarget:
    """A target with a schedule for each of these layouts, for a known number of rows and for any, the best first."""

    def candidates(problem: KernelProblem, case: Case) -> Sequence[Schedule]:
        packings = few if isinstance(problem.block.parameters[0].shape[0], int) else many
        workers = Threads(1, 1)
        return [PointwiseSchedule(workers=workers, packing=each, algorithm="flat", block=1) for each in packings]

    def cost(problem: KernelProblem, schedule: Schedule, case: Case) -> float:
        return 2.0 if schedule.packing else 1.0

    return replace(TARGET, candidates=candidates, cost=cost)
