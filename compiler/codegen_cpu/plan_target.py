"""What the CPU asks of planning: which ops have native kernels, how they are scheduled, how constants are packed."""

from collections.abc import Mapping

from compiler.codegen_cpu.element_types import NATIVE_DTYPES
from compiler.codegen_cpu.kernels import EMITTERS, contraction, convolution
from compiler.codegen_cpu.scalars import table_of
from compiler.ir.module import Block, Op
from compiler.ir.primitive import PRIMITIVES
from compiler.ir.types import TensorType
from compiler.planning.fuse_kernels import ANCHORS
from compiler.planning.kernel_plan import Kernel, KernelKind, PlanTarget
from compiler.planning.matrix_products import sums_shared_letters
from compiler.target import Target

FUNCTIONS = {"pointwise", "movement", "generator", "random"}
OTHER_NATIVE = {
    "reduce", "arg_reduce", "softmax", "masked_softmax", "log_softmax", "layer_norm", "rms_norm", "gelu", "gather",
    "gather_along", "gather_nd", "dot", "convolution", "reduce_window", "arg_reduce_window", "scan_axis",
    "scatter_along", "scatter_nd", "sort", "top_k",
}  # fmt: skip


def cpu_plan_target(target: Target) -> PlanTarget:
    """The planner's view of a CPU."""

    def schedule(kind: KernelKind, block: Block, constants: tuple[int, ...]) -> Mapping[str, int | str]:
        if kind == "contraction":
            return contraction.schedule(block, constants, target)
        if kind == "convolution":
            return convolution.schedule(block, constants, target)
        return {}

    def weight_layout(kernel: Kernel, index: int) -> tuple[str | int, ...]:
        if kernel.kind == "contraction":
            return contraction.weight_layout(kernel.block, index, kernel.schedule, target)
        return ()

    return PlanTarget(str(target), is_native, schedule, weight_layout)


def is_native(op: Op) -> bool:
    """Whether the op has a kernel for its element types."""
    kind = PRIMITIVES[op.name].kind
    if op.name in ANCHORS and ANCHORS[op.name] not in EMITTERS:
        return False
    if kind not in FUNCTIONS and op.name not in OTHER_NATIVE:
        return False
    types = [operand.type for operand in op.operands] + list(op.result_types)
    if not all(
        isinstance(type, TensorType) and type.shape is not None and type.dtype in NATIVE_DTYPES for type in types
    ):
        return False
    check = _CHECKS.get(op.name)
    if check is not None:
        return check(op)
    if kind == "pointwise" and op.name not in ("select", "cast", "bitcast"):
        return op.name in table_of(op.operands[0].dtype)
    return True


def _cast(op: Op) -> bool:
    return op.text("round_mode") == "nearest" or not op.dtype().is_float


def _channels_first(op: Op) -> bool:
    return not op.flag("channels_last")


def _has_axes(op: Op) -> bool:
    return op.operands[0].rank > 0


def _nonempty_reduce(op: Op) -> bool:
    return bool(op.ints("axes"))


_CHECKS = {
    "cast": _cast,
    "reduce": _nonempty_reduce,
    "dot": sums_shared_letters,
    "convolution": _channels_first,
    "reduce_window": _has_axes,
    "arg_reduce_window": _has_axes,
    "scatter_along": _has_axes,
    "scatter_nd": _has_axes,
    "sort": _has_axes,
    "top_k": _has_axes,
}
