"""What the GPU asks of planning: which ops have kernels, how these may be computed, and at what cost."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from onnxc.compiler.codegen_gpu.kernels import EMITTERS, convolution, native_call, reduction, scan
from onnxc.compiler.codegen_gpu.schedules import attention, block_products
from onnxc.compiler.codegen_gpu.schedules.attention import (
    attention_candidates,
    attention_cost,
    attention_measures,
    attention_sweep,
)
from onnxc.compiler.codegen_gpu.schedules.block_products import (
    block_candidates,
    block_cost,
    block_measures,
    block_sweep,
)
from onnxc.compiler.codegen_gpu.schedules.compactions import compaction_candidates, compaction_measures
from onnxc.compiler.codegen_gpu.schedules.contractions import (
    contraction_candidates,
    contraction_cost,
    contraction_measures,
    contraction_sweep,
    makes_together,
)
from onnxc.compiler.codegen_gpu.schedules.convolutions import (
    convolution_candidates,
    convolution_cost,
    convolution_measures,
    convolution_sweep,
)
from onnxc.compiler.codegen_gpu.schedules.elements import ELEMENT_SCHEDULES
from onnxc.compiler.codegen_gpu.schedules.orderings import ordering_candidates, ordering_measures
from onnxc.compiler.codegen_gpu.schedules.product_tiles import multiplies
from onnxc.compiler.codegen_gpu.schedules.recurrences import recurrence_schedule
from onnxc.compiler.codegen_gpu.schedules.reductions import reduction_candidates, reduction_cost, reduction_measures
from onnxc.compiler.codegen_gpu.schedules.scans import scan_candidates, scan_measures
from onnxc.compiler.codegen_gpu.schedules.scatters import scatter_candidates, scatter_measures
from onnxc.compiler.codegen_gpu.serves_less import serves_less
from onnxc.compiler.codegen_gpu.source.element_types import COMPUTED_DTYPES, NATIVE_DTYPES
from onnxc.compiler.codegen_gpu.source.scalars import table_of
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, PlanTarget
from onnxc.compiler.planning.fusion.fusion_rules import REPEAT_LIMIT, Computes, FusionRules
from onnxc.compiler.planning.kernel_plan import KernelKind
from onnxc.compiler.planning.loops.matrix_products import picks_matrices
from onnxc.compiler.planning.loops.picked_views import PickedView
from onnxc.compiler.planning.loops.views import View, is_dense
from onnxc.compiler.planning.native_ops import native_rule
from onnxc.compiler.planning.schedules import (
    AttentionSchedule,
    BlockProductSchedule,
    ContractionSchedule,
    ConvolutionSchedule,
    ReductionSchedule,
    Schedule,
)
from onnxc.compiler.target import Target

INPUT_PRECISIONS = {"fp32": "tf32x3", "tf32": "tf32"}
"""How f32 operands of a product meet the tensor cores: three products are as accurate as f32 itself."""


def gpu_plan_target(target: Target, precision: str = "fp32") -> PlanTarget:
    """The planner's view of a GPU; `precision` is the compile option."""
    f32_operands = INPUT_PRECISIONS.get(precision, INPUT_PRECISIONS["fp32"])
    candidates = partial(_candidates, target=target, f32_operands=f32_operands)
    fusion = FusionRules(
        _reads,
        reads_padding=convolution.reads_padding,
        reads_picked=partial(_reads_picked, target=target),
        arranges=_ARRANGES,
        computes=_COMPUTES,
        pairs=makes_together,
        inlines_movements=True,
        repeat_limit=REPEAT_WORK,
    )
    return PlanTarget(
        *(str(target), is_native, fusion, _measures, candidates, partial(_cost, target=target)),
        residency="device",
        writes_several=_WRITES_SEVERAL,
        shares_code=lambda op, ordinal: True,
        sweep=partial(_sweep, target=target),
        serves_less=partial(serves_less, target=target),
    )


def _reads(anchor: Op, ordinal: int, view: View) -> bool:
    """Kernels step through any view, but for code of callers that gets pointers, and images with channels apart."""
    match anchor.name:
        case "native_call":
            return anchor.text("access") != "whole" or is_dense(view)
        case "convolution" if ordinal == 0:
            return convolution.reads_image(anchor, view)
    return True


def _reads_picked(anchor: Op, ordinal: int, view: PickedView, target: Target) -> bool:
    """Tiles of tensor cores are of operands where indices pick them: matrices of a batch, as experts of a mixture."""
    has_tiles = anchor.name == "dot" and multiplies(anchor.operands[0].dtype, target)
    return has_tiles and picks_matrices(anchor, ordinal, view)


def _candidates(problem: KernelProblem, case: Case, target: Target, f32_operands: str) -> Sequence[Schedule]:
    match problem.kind:
        case "contraction":
            return contraction_candidates(problem, case, target, f32_operands)
        case "convolution":
            return convolution_candidates(problem, case, target, f32_operands)
        case "attention":
            return attention_candidates(problem, case, target, f32_operands)
        case "block_product":
            return block_candidates(problem, case, target, f32_operands)
        case "reduction":
            return reduction_candidates(problem, case, target)
        case "ordering":
            return ordering_candidates(problem, case)
        case "scatter":
            return scatter_candidates(problem, case)
        case "scan":
            return scan_candidates(problem, case)
        case "compaction":
            return compaction_candidates(problem, case)
        case "recurrence":
            return (recurrence_schedule(problem, target, f32_operands),)
    return (ELEMENT_SCHEDULES[problem.kind](problem),)


def _cost(problem: KernelProblem, schedule: Schedule, case: Case, target: Target) -> float:
    match schedule:
        case ContractionSchedule():
            return contraction_cost(problem, schedule, case, target)
        case ConvolutionSchedule():
            return convolution_cost(problem, schedule, case, target)
        case AttentionSchedule():
            return attention_cost(problem, schedule, case, target)
        case BlockProductSchedule():
            return block_cost(problem, schedule, case, target)
        case ReductionSchedule():
            return reduction_cost(problem, schedule, case, target)
    raise AssertionError(f"{problem.kind} has one candidate")


def _sweep(problem: KernelProblem, schedule: Schedule, case: Case, target: Target) -> np.ndarray:
    match schedule:
        case ContractionSchedule():
            return contraction_sweep(problem, schedule, case, target)
        case ConvolutionSchedule():
            return convolution_sweep(problem, schedule, case, target)
        case AttentionSchedule():
            return attention_sweep(problem, schedule, case, target)
        case BlockProductSchedule():
            return block_sweep(problem, schedule, case, target)
    raise AssertionError(f"{problem.kind} has no samples")


WIDENING = 2
"""The work of an element that is read and cast."""

_WRITES_SEVERAL: tuple[KernelKind, ...] = ("pointwise", "concatenate")

_ARRANGES: tuple[KernelKind, ...] = ("attention", "contraction", "convolution", "reduction")

# A program reads its queries once: a rotary embedding of them takes less time than to write and read them. Keys, values
# and masks are read again by the programs of all queries, so that only what narrows or scales them is done there.
# Rows of a product with weights of few bits are narrow in memory, and only widened for it. A scan, or a search for what
# is true, reads an element once or, where programs share them, twice: what it counts is compared there, or widened.
_COMPUTES: Computes = {
    "attention": (16, REPEAT_LIMIT, REPEAT_LIMIT, REPEAT_LIMIT),
    "block_product": (WIDENING,),
    "compaction": (REPEAT_LIMIT,),
    "scan": (REPEAT_LIMIT,),
}


REPEAT_WORK = 20
"""The most work that is done again in a second kernel rather than written and read, in the costs of the primitives.

By data sheets, the instructions of a lane in the time in which 4 bytes, a float of 16 bits twice, go through memory: 19
on an A100, 40 on an H100, 28 on an H200. A launch less is not counted.
"""

_MEASURES = {
    "contraction": contraction_measures,
    "convolution": convolution_measures,
    "attention": attention_measures,
    "block_product": block_measures,
    "reduction": reduction_measures,
    "ordering": ordering_measures,
    "scatter": scatter_measures,
    "scan": scan_measures,
    "compaction": compaction_measures,
}


def _measures(problem: KernelProblem) -> Mapping[str, Measure]:
    measures = _MEASURES.get(problem.kind)
    return {} if measures is None else measures(problem)


_CHECKS = {
    "attention": attention.is_native,
    "block_product": block_products.is_native,
    "convolution": convolution.is_native,
    "native_call": native_call.is_native,
    "reduce": reduction.is_native,
    "scan_axis": scan.is_native,
}

TAKE_NARROW = (None, "contraction", "concatenate")
"""What takes floats of 8 bits: inline ops, and the kernels of anchors that multiply or move elements."""

is_native = native_rule(
    lambda kind: NATIVE_DTYPES if kind in TAKE_NARROW else COMPUTED_DTYPES, EMITTERS, table_of, _CHECKS
)
"""Whether an op has a kernel for its element types."""
