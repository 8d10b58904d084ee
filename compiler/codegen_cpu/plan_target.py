"""What the CPU asks of planning: which ops have native kernels, how these may be computed, and at what cost."""

from collections.abc import Callable, Collection, Mapping, Sequence

from onnxc.compiler.codegen_cpu.element_types import COMPUTED_DTYPES, NATIVE_DTYPES, computed_dtype
from onnxc.compiler.codegen_cpu.exponential_forms import sigmoid_operand
from onnxc.compiler.codegen_cpu.kernels import KINDS
from onnxc.compiler.codegen_cpu.scalars import table_of
from onnxc.compiler.codegen_cpu.schedules import attention, block_products, transforms, trees
from onnxc.compiler.codegen_cpu.schedules.attention import attention_candidates, attention_measures
from onnxc.compiler.codegen_cpu.schedules.byte_products import is_of_bytes, reads_bytes
from onnxc.compiler.codegen_cpu.schedules.contraction_costs import contraction_cost
from onnxc.compiler.codegen_cpu.schedules.contractions import contraction_candidates, contraction_measures
from onnxc.compiler.codegen_cpu.schedules.convolutions import (
    convolution_candidates,
    convolution_measures,
    reads_filters,
    reads_image,
)
from onnxc.compiler.codegen_cpu.schedules.elements import (
    ELEMENT_CANDIDATES,
    SMALLEST_CROSSED,
    pointwise_measures,
    pointwise_schedule,
)
from onnxc.compiler.codegen_cpu.schedules.reductions import finishes_folds, reduction_measures, reduction_schedule
from onnxc.compiler.ir.dims import at_least, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitive import PRIMITIVES, AnchorKind
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, PlanTarget
from onnxc.compiler.planning.fusion.fusion_rules import Computes, FusionRules
from onnxc.compiler.planning.kernel_plan import KernelKind
from onnxc.compiler.planning.loops.indices import picks_rows
from onnxc.compiler.planning.loops.matrix_products import picks_matrices
from onnxc.compiler.planning.loops.picked_views import PickedView
from onnxc.compiler.planning.loops.views import View, crosses, is_dense
from onnxc.compiler.planning.native_ops import native_rule
from onnxc.compiler.planning.schedules import ContractionSchedule, Schedule
from onnxc.compiler.target import Target

INDEX_WORK = 4
"""Work of an index that is done again for each vector that it picks: to count from the end. Positions in an image whose
size only the call knows cost 8 by the primitives and far more as they are, in f64 and i64: with these in the kernel
f32[64, 28, 28] became twice as high and wide in 2.0 ms, and takes 0.65 where they are written first."""


def cpu_plan_target(target: Target) -> PlanTarget:
    """The planner's view of a CPU."""

    def candidates(problem: KernelProblem, case: Case) -> Sequence[Schedule]:
        match problem.kind:
            case "attention":
                return attention_candidates(problem, case, target)
            case "block_product":
                return (block_products.block_schedule(problem, target),)
            case "contraction":
                return contraction_candidates(problem, case, target)
            case "convolution":
                return convolution_candidates(problem, case, target)
            case "pointwise":
                return (pointwise_schedule(problem, case, target),)
            case "reduction":
                return (reduction_schedule(problem, case, target),)
        return (ELEMENT_CANDIDATES[problem.kind](problem, target),)

    def cost(problem: KernelProblem, schedule: Schedule, case: Case) -> float:
        assert isinstance(schedule, ContractionSchedule), f"{problem.kind} has one candidate"
        return contraction_cost(problem, schedule, case, target)

    def measures(problem: KernelProblem) -> Mapping[str, Measure]:
        if problem.kind == "reduction":
            return reduction_measures(problem, target)
        named = _MEASURES.get(problem.kind)
        return named(problem) if named is not None else {}

    fusion = FusionRules(
        _reads_view,
        reads_picked=_reads_picked,
        arranges=_ARRANGES,
        finishes=finishes_folds,
        computes=_COMPUTES,
        index_limit=INDEX_WORK,
    )
    return PlanTarget(
        *(str(target), is_native, fusion, measures, candidates, cost),
        compiles_steps=True,
        shares_code=_reads_scalar,
        joins_sizes=True,
    )


_ARRANGES: tuple[KernelKind, ...] = ("attention",)

_COMPUTES: Computes = {"scan": (6,), "compaction": (6,)}
"""What a scan computes as it reads, in the costs of the primitives: each sum waits for the one before in any case.

Running sums of i64 of a comparison of f32[1000, 1000] along the first axis, written before and computed: 669 and 190
us, along the last 533 and 385; of products of f32 240 and 154, 868 and 641. The 1,000,003 f32 of NonZero, with 0, 2 and
6: 985, 922 and 751."""


_MEASURES: Mapping[KernelKind, Callable[[KernelProblem], Mapping[str, Measure]]] = {
    "attention": attention_measures,
    "contraction": contraction_measures,
    "convolution": convolution_measures,
    "pointwise": pointwise_measures,
}


def _reads_view(anchor: Op, ordinal: int, view: View) -> bool:
    """Whether kernels read an operand as a view: images of convolutions in some, and all else in any.

    Rows that cross memory are turned first, by a kernel for that, before they are picked or padded, or computed with
    what a product has summed; so are rows that are picked or made, and then turned.
    """
    if picks_rows(anchor) and _picks_all(anchor, view):
        return not crosses(view, 1)
    if picks_rows(anchor) or anchor.name in ("transpose", "pad"):
        return not crosses(view, SMALLEST_CROSSED)
    match PRIMITIVES[anchor.name].anchor:
        case "contraction" if is_of_bytes(anchor):
            return reads_bytes(anchor, ordinal, view)
        case "convolution":
            return (reads_filters if ordinal else reads_image)(anchor, view)
        case "block_product" | "native_call":
            return is_dense(view)
        case "reduction" | "concatenate" | "scan" | "compaction" | "window":
            return not crosses(view, SMALLEST_CROSSED)
    return True


def _picks_all(anchor: Op, view: View) -> bool:
    """Whether surely as many elements are picked as there are: rows that lie apart are then worth turning, however few.

    100 of 5 planes of 13 x 31, of each of 32 images with channels last, took 506 us of bool and take 32; f32 343, 67.
    """
    return at_least(product(anchor.result.shape), product(view.base.shape))


def _reads_picked(anchor: Op, ordinal: int, view: PickedView) -> bool:
    """Whether kernels read an operand where indices pick it: matrices of a batch, as experts of a mixture.

    Two of 8 experts [2048, 512] and [512, 1024] for each of 32 tokens took 105 ms with copies, and take 17; for one
    token 2.8 and 1.8.
    """
    return anchor.name == "dot" and not is_of_bytes(anchor) and picks_matrices(anchor, ordinal, view)


def _reads_scalar(op: Op, ordinal: int) -> bool:
    """Whether an op with that operand in memory has the code that it has with the number itself.

    Integers are divided by a number that is known with a product, and a sigmoid is known by its numbers.
    """
    if op.name in ("div", "rem") and op.results[0].dtype.is_integer:
        return ordinal != 1
    return sigmoid_operand(op.results[0]) is None


def _dtypes(kind: AnchorKind | None) -> Collection[DType]:
    """All types where elements are moved, or widened one by one; kernels that fold take those that need neither."""
    return NATIVE_DTYPES if kind in (None, "concatenate", "scatter", "native_call") else COMPUTED_DTYPES


def _sets_or_combines(op: Op) -> bool:
    """Updates of a narrow type would be rounded one by one, where they mean to be rounded together."""
    dtype, kind = op.operands[0].dtype, op.text("kind")
    return kind == "set" or (computed_dtype(dtype) == dtype and kind in table_of(dtype))


_CHECKS = {
    "attention": attention.is_native,
    "block_product": block_products.is_native,
    "byte_block_product": block_products.holds_weights,
    "scatter_along": _sets_or_combines,
    "scatter_nd": _sets_or_combines,
    "fourier": transforms.is_native,
    "tree_ensemble": trees.is_native,
}

is_native = native_rule(_dtypes, KINDS, table_of, _CHECKS)
"""Whether an op has a kernel for its element types."""
