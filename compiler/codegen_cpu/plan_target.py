"""What the CPU asks of planning: which ops have native kernels, how they are scheduled, how constants are packed."""

from collections.abc import Mapping

from onnxc.compiler.codegen_cpu.element_types import NATIVE_DTYPES
from onnxc.compiler.codegen_cpu.kernels import EMITTERS, contraction, convolution
from onnxc.compiler.codegen_cpu.scalars import table_of
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.ir.primitives.contractions import channels_first
from onnxc.compiler.planning.kernel_plan import Kernel, KernelKind, PlanTarget
from onnxc.compiler.planning.native_ops import native_rule
from onnxc.compiler.target import Target


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


def _channels_first(op: Op) -> bool:
    return op.text("dimensions") == channels_first(op.result.rank - 2)


is_native = native_rule(NATIVE_DTYPES, EMITTERS, table_of, {"convolution": _channels_first})
"""Whether an op has a kernel for its element types."""
