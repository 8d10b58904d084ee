"""What the tests of planning share: a target that makes a kernel of everything, and plans as text."""

from collections.abc import Callable, Mapping, Sequence
from textwrap import dedent

from onnxc.compiler.ir.module import Block, Module, Op, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import Kernel, KernelKind, KernelPlan, PlanTarget
from onnxc.compiler.planning.plan import plan_kernels
from tests.codegen_cpu.support import make

__all__ = ["TARGET", "assert_plan", "make", "plan"]


def is_native(op: Op) -> bool:
    """Everything but what counts, which stands here for what only the host can do."""
    return op.name != "non_zero"


def _schedule(kind: KernelKind, block: Block, constants: tuple[int, ...]) -> Mapping[str, int | str]:
    return {}


def _weight_layout(kernel: Kernel, index: int) -> tuple[str | int, ...]:
    return ("panels", 4) if kernel.kind == "contraction" else ()


TARGET = PlanTarget("test", is_native, _schedule, _weight_layout)


def plan(module: Module, target: PlanTarget = TARGET) -> KernelPlan:
    """The plan, proved to be sound."""
    made = plan_kernels(module, target)
    check_plan(made)
    return made


def assert_plan(
    types: Sequence[str | TensorType], build: Callable[..., Value | Sequence[Value]], expected: str
) -> None:
    """The plan of what is built is this text."""
    found = str(plan(make(types, build)))
    assert found == dedent(expected).strip("\n"), f"\n{found}"
