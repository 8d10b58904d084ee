"""What launches take at least: the larger of the times of their bytes and of their operations, and the launch itself.

Limits are those of the cost models that choose kernels. On a GPU a launch is taken to fill the card; a device of a CPU
is one core.
"""

from collections.abc import Callable, Mapping

from onnxc.compiler.codegen_cpu.schedules import cost_model as cpu
from onnxc.compiler.codegen_gpu import kernel_work as gpu_work
from onnxc.compiler.codegen_gpu.schedules import cost_model as gpu
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.planning import kernel_work
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.target import Target

__all__ = ["Sizes", "kernel_seconds", "memory_seconds"]

Sizes = Mapping[str, int]


def kernel_seconds(kernel: Kernel, sizes: Sizes, target: Target, *, in_place: bool) -> float:
    """The seconds of a launch where the symbols of the kernel have these sizes."""
    return _KERNELS[target.kind](kernel, sizes, target, in_place)


def memory_seconds(nbytes: int, target: Target) -> float:
    """The seconds in which a device reads or writes so many bytes of its memory."""
    if target.kind == "cuda":
        return gpu.cost_model(target).seconds(_filling(nbytes, target))
    return cpu.cost_model(target).seconds(0, nbytes)


def _on_cpu(kernel: Kernel, sizes: Sizes, target: Target, in_place: bool) -> float:
    work, machine = kernel_work.work_of(kernel, in_place=in_place), cpu.cost_model(target).machine
    moving = evaluate(work.read_bytes + work.written_bytes, sizes) / machine.memory_bytes_per_second
    # A multiply-add of a vector is two operations in each lane.
    lanes = target.vector_bits // F32.bits
    computing = evaluate(work.flops, sizes) / (2 * lanes * machine.vector_products_per_second)
    return max(moving, computing) + machine.launch_seconds


def _on_gpu(kernel: Kernel, sizes: Sizes, target: Target, in_place: bool) -> float:
    work, in_all = gpu_work.work_of(kernel), kernel_work.work_of(kernel, in_place=in_place)
    nbytes = evaluate(in_all.read_bytes + in_all.written_bytes, sizes)
    model = gpu.cost_model(target)
    return model.seconds(
        gpu.Work(
            memory_bytes=nbytes,
            operations=evaluate(work.flops, sizes) * work.repeats,
            unit=work.unit,
            programs=model.card.sms,
            steps=max(1, evaluate(work.steps, sizes)),
        )
    )


def _filling(nbytes: int, target: Target) -> gpu.Work:
    return gpu.Work(memory_bytes=nbytes, programs=gpu.cost_model(target).card.sms)


_KERNELS: Mapping[str, Callable[[Kernel, Sizes, Target, bool], float]] = {"cpu": _on_cpu, "cuda": _on_gpu}
