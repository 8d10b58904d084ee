"""What the tests of planning share: a target that makes a kernel of everything, and plans as text."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from textwrap import dedent

from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, PlanTarget
from onnxc.compiler.planning.fusion.fusion_rules import FusionRules, reads_any_view
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.layouts import Permuted
from onnxc.compiler.planning.plan import Specialize, plan_kernels
from onnxc.compiler.planning.schedules import Packing, Schedule, Threads
from tests.codegen_cpu.support import make

__all__ = ["DEVICE", "TARGET", "assert_plan", "make", "plan", "step_lines"]

STEPS = tuple(f"  {word} " for word in ("segment", "loop", "branch", "guard", "bind", "host", "collective", "transfer"))
"""How the text of a step begins that can be a plan's first."""


def is_native(op: Op) -> bool:
    """Everything but what counts, which stands here for what only the host can do."""
    return op.name != "non_zero"


class _Plain(Schedule):
    """A schedule that decides nothing."""

    def __str__(self) -> str:
        return ""


def _candidates(problem: KernelProblem, case: Case) -> Sequence[Schedule]:
    """One schedule for each kernel; products want a constant B with its axes in the other order."""
    packing = Packing(1, Permuted((1, 0), (4, 4))) if problem.kind == "contraction" and problem.is_constant(1) else None
    return (_Plain(workers=Threads(1, 1), packing=packing),)


def _no_cost(problem: KernelProblem, schedule: Schedule, case: Case) -> float:
    raise AssertionError("there is one candidate")


TARGET = PlanTarget("test", is_native, FusionRules(reads_any_view), lambda problem: {}, _candidates, _no_cost)

DEVICE = replace(TARGET, name="device", residency="device")
"""A target whose launches run on a device."""


def plan(module: Module, target: PlanTarget = TARGET, specialize: Specialize | None = None) -> KernelPlan:
    """The plan, proved to be sound."""
    made = plan_kernels(module, target, specialize)
    check_plan(made)
    return made


def assert_plan(
    types: Sequence[str | TensorType], build: Callable[..., Value | Sequence[Value]], expected: str
) -> None:
    """The plan of what is built is this text."""
    found = str(plan(make(types, build)))
    assert found == dedent(expected).strip("\n"), f"\n{found}"


def step_lines(made: KernelPlan) -> list[str]:
    """The steps of a plan as text, without kernels and launches."""
    lines = str(made).splitlines()[1:]
    first = next(index for index, line in enumerate(lines) if line.startswith(STEPS))
    return [line.removeprefix("  ") for line in lines[first:] if not line.lstrip().startswith("launch ")]
