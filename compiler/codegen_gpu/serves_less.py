"""Whether a kernel that loads sizes does what is right where these are less than what it is launched for."""

from dataclasses import replace

from onnxc.compiler.codegen_gpu.kernels import emit_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep
from onnxc.compiler.codegen_gpu.source.loaded_sizes import can_compute
from onnxc.compiler.ir.dim_symbols import depends, never_falls
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.target import Target

__all__ = ["serves_less"]


def serves_less(kernel: Kernel, target: Target) -> bool:
    """Whether its programs can leave that are beyond its sizes, and its memory is enough, with each of its schedules.

    What calls code of a caller's own is launched for its sizes alone.
    """
    schedules = (kernel.schedule, *kernel.schedule.fallbacks)
    plain = (replace(kernel, schedule=schedule, loads=()) for schedule in schedules)
    steps = (step for each in plain for step in emit_kernel(each, target).steps)
    return kernel.kind != "native_call" and all(_serves(step, frozenset(kernel.loads)) for step in steps)


def _serves(step: DeviceStep, loads: frozenset[str]) -> bool:
    sizes = [*step.grid, *(each.value for each in step.arguments if each.kind == "size")]
    loaded = [size for size in sizes if depends(size, loads)]
    room = [*step.grid, *(each.value for each in step.arguments if each.kind == "scratch")]
    # What programs wait for must come.
    if step.source.cooperative and any(depends(size, loads) for size in step.grid):
        return False
    return all(map(can_compute, loaded)) and all(never_falls(size, loads) for size in room)
