"""What the GPU asks of planning: which ops have kernels, and how they are scheduled."""

from collections.abc import Mapping

from onnxc.compiler.codegen_gpu.kernels import EMITTERS, attention, convolution, reduction, scan
from onnxc.compiler.codegen_gpu.source.element_types import NATIVE_DTYPES
from onnxc.compiler.codegen_gpu.source.scalars import table_of
from onnxc.compiler.ir.module import Block
from onnxc.compiler.planning.kernel_plan import Kernel, KernelKind, PlanTarget
from onnxc.compiler.planning.native_ops import native_rule
from onnxc.compiler.target import Target

INPUT_PRECISIONS = {"fp32": "tf32x3", "tf32": "tf32"}
"""How f32 operands of a product meet the tensor cores: three products are as accurate as f32 itself."""


def gpu_plan_target(target: Target, precision: str = "fp32") -> PlanTarget:
    """The planner's view of a GPU; `precision` is the compile option."""

    def schedule(kind: KernelKind, block: Block, constants: tuple[int, ...]) -> Mapping[str, int | str]:
        if kind not in ("contraction", "convolution", "attention"):
            return {}
        own = convolution.schedule(block, constants) if kind == "convolution" else {}
        return {"input_precision": INPUT_PRECISIONS.get(precision, "tf32x3"), **own}

    return PlanTarget(str(target), is_native, schedule, _weight_layout)


def _weight_layout(kernel: Kernel, index: int) -> tuple[str | int, ...]:
    return convolution.weight_layout(kernel, index) if kernel.kind == "convolution" else ()


_CHECKS = {
    "attention": attention.is_native,
    "convolution": convolution.is_native,
    "reduce": reduction.is_native,
    "scan_axis": scan.is_native,
}

is_native = native_rule(NATIVE_DTYPES, EMITTERS, table_of, _CHECKS)
"""Whether an op has a kernel for its element types."""
