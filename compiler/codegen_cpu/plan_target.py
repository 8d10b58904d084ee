"""What the CPU asks of planning: which ops have native kernels, how these may be computed, and at what cost."""

from collections.abc import Collection, Mapping, Sequence

from onnxc.compiler.codegen_cpu.element_types import COMPUTED_DTYPES, NATIVE_DTYPES, computed_dtype
from onnxc.compiler.codegen_cpu.kernels import EMITTERS
from onnxc.compiler.codegen_cpu.scalars import table_of
from onnxc.compiler.codegen_cpu.schedules import trees
from onnxc.compiler.codegen_cpu.schedules.contraction_costs import contraction_cost
from onnxc.compiler.codegen_cpu.schedules.contractions import contraction_candidates, contraction_measures
from onnxc.compiler.codegen_cpu.schedules.elements import ELEMENT_CANDIDATES
from onnxc.compiler.codegen_cpu.schedules.products import convolution_candidates, reads_view
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitive import AnchorKind
from onnxc.compiler.ir.primitives.contractions import channels_first
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, PlanTarget
from onnxc.compiler.planning.native_ops import native_rule
from onnxc.compiler.planning.schedules import ContractionSchedule, Schedule
from onnxc.compiler.target import Target


def cpu_plan_target(target: Target) -> PlanTarget:
    """The planner's view of a CPU."""

    def candidates(problem: KernelProblem, case: Case) -> Sequence[Schedule]:
        match problem.kind:
            case "contraction":
                return contraction_candidates(problem, target)
            case "convolution":
                return convolution_candidates(problem, target)
        return (ELEMENT_CANDIDATES[problem.kind](problem, target),)

    def cost(problem: KernelProblem, schedule: Schedule, case: Case) -> float:
        assert isinstance(schedule, ContractionSchedule), f"{problem.kind} has one candidate"
        return contraction_cost(problem, schedule, case, target)

    return PlanTarget(str(target), is_native, reads_view, _measures, candidates, cost, compiles_steps=True)


def _measures(problem: KernelProblem) -> Mapping[str, Measure]:
    return contraction_measures(problem) if problem.kind == "contraction" else {}


def _channels_first(op: Op) -> bool:
    return op.text("dimensions") == channels_first(op.result.rank - 2)


def _dtypes(kind: AnchorKind | None) -> Collection[DType]:
    """All types where elements are moved, or widened one by one; kernels that fold take those that need neither."""
    return NATIVE_DTYPES if kind in (None, "concatenate", "scatter") else COMPUTED_DTYPES


def _sets_or_combines(op: Op) -> bool:
    """Updates of a narrow type would be rounded one by one, where they mean to be rounded together."""
    dtype, kind = op.operands[0].dtype, op.text("kind")
    return kind == "set" or (computed_dtype(dtype) == dtype and kind in table_of(dtype))


_CHECKS = {
    "convolution": _channels_first,
    "scatter_along": _sets_or_combines,
    "scatter_nd": _sets_or_combines,
    "tree_ensemble": trees.is_native,
}

is_native = native_rule(_dtypes, EMITTERS, table_of, _CHECKS)
"""Whether an op has a kernel for its element types."""
