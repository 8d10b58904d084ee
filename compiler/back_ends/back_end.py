"""What a back end is: for one target its passes, its view of planning, and what writes its code."""

from collections.abc import Callable

from onnxc.compiler.ir.module import Module
from onnxc.compiler.options import CompileOptions
from onnxc.compiler.passes.pipeline import Pass
from onnxc.compiler.planning import compute_constants as planning
from onnxc.compiler.planning.choose_schedules import PlanTarget
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.target import Target
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.records import record

__all__ = ["BackEnd", "Progress", "computing_constants"]

Progress = Callable[[int, int], None]
"""Is told how many kernels of a GPU, or modules for a processor, are compiled, and of how many."""


@record
class BackEnd:
    """How modules become artifacts for one target. `host` is the processor that runs the native functions.

    begin: starts what `emit` needs whatever the plan is, beside the stages before it.
    """

    target: Target
    host: Target
    passes: tuple[Pass, ...]
    plan_target: PlanTarget
    begin: Callable[[], object]
    emit: Callable[[KernelPlan], Artifact]


def computing_constants(target: PlanTarget, options: CompileOptions) -> Pass:
    """The last pass, which plans with what all others have made."""

    def compute_constants(module: Module) -> Module:
        """Computes what is made of constants and would be written in calls."""
        return planning.compute_constants(module, target, options.limits.folding_bytes)

    return compute_constants
