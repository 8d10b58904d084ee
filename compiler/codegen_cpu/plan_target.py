"""What the CPU asks of planning: which ops have native kernels, how these may be computed, and at what cost."""

from collections.abc import Collection, Mapping, Sequence

from onnxc.compiler.codegen_cpu.element_types import COMPUTED_DTYPES, NATIVE_DTYPES, computed_dtype
from onnxc.compiler.codegen_cpu.kernels import EMITTERS
from onnxc.compiler.codegen_cpu.scalars import table_of
from onnxc.compiler.codegen_cpu.schedules import trees
from onnxc.compiler.codegen_cpu.schedules.byte_convolutions import (
    byte_convolution,
    convolves_bytes,
    reads_bytes_of_image,
)
from onnxc.compiler.codegen_cpu.schedules.byte_products import is_of_bytes, reads_bytes
from onnxc.compiler.codegen_cpu.schedules.contractions import (
    contraction_candidates,
    contraction_cost,
    contraction_measures,
)
from onnxc.compiler.codegen_cpu.schedules.elements import ELEMENT_CANDIDATES
from onnxc.compiler.codegen_cpu.schedules.products import convolution_candidates, reads_view
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitive import AnchorKind
from onnxc.compiler.ir.primitives.contractions import channels_first, channels_innermost
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, PlanTarget
from onnxc.compiler.planning.native_ops import native_rule
from onnxc.compiler.planning.schedules import ContractionSchedule, Schedule
from onnxc.compiler.planning.views import View
from onnxc.compiler.target import Target


def cpu_plan_target(target: Target) -> PlanTarget:
    """The planner's view of a CPU."""

    def candidates(problem: KernelProblem, case: Case) -> Sequence[Schedule]:
        match problem.kind:
            case "contraction":
                return contraction_candidates(problem, target)
            case "convolution":
                in_bytes = _byte_convolution(problem, target)
                return convolution_candidates(problem, target) if in_bytes is None else (in_bytes,)
        return (ELEMENT_CANDIDATES[problem.kind](problem, target),)

    def cost(problem: KernelProblem, schedule: Schedule, case: Case) -> float:
        assert isinstance(schedule, ContractionSchedule), f"{problem.kind} has one candidate"
        return contraction_cost(problem, schedule, case, target)

    return PlanTarget(str(target), is_native, _reads, _measures, candidates, cost, compiles_steps=True)


def _reads(anchor: Op, ordinal: int, view: View) -> bool:
    """Whether kernels read an operand as a view."""
    if anchor.name == "dot" and is_of_bytes(anchor):
        return reads_bytes(anchor, ordinal, view)
    if anchor.name == "convolution" and convolves_bytes(anchor):
        return ordinal == 1 or reads_bytes_of_image(view)
    return reads_view(anchor, ordinal, view)


def _measures(problem: KernelProblem) -> Mapping[str, Measure]:
    return contraction_measures(problem) if problem.kind == "contraction" else {}


def _byte_convolution(problem: KernelProblem, target: Target) -> Schedule | None:
    op = next(op for op in problem.block.ops if op.name == "convolution")
    return byte_convolution(op, problem, target) if convolves_bytes(op) else None


def _channels_first(op: Op) -> bool:
    is_innermost = op.text("dimensions") == channels_innermost(op.result.rank - 2)
    return op.text("dimensions") == channels_first(op.result.rank - 2) or (convolves_bytes(op) and is_innermost)


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
