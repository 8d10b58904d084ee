"""KernelPlan to Artifact: kernels as sources, compiled by worker processes; segments launch them through the driver."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from onnxc.compiler.codegen_gpu.fit_registers import CompileKernels, fit_registers
from onnxc.compiler.codegen_gpu.growing_sizes import growing_sizes, obstacle
from onnxc.compiler.codegen_gpu.report import make_report
from onnxc.compiler.codegen_gpu.segments import CompiledKernel, write_segment
from onnxc.compiler.codegen_host.assemble import Pieces, assemble
from onnxc.compiler.codegen_host.segment_frame import SegmentFrame
from onnxc.compiler.planning.kernel_plan import KernelPlan, Segment
from onnxc.compiler.target import Target
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.device_code import DeviceCode


def emit(
    plan: KernelPlan, target: Target, host: Target, compile_kernels: CompileKernels, cache: Path | None = None
) -> Artifact:
    """The artifact of `plan`: kernels for `target`, the functions that launch them for the processor `host`.

    cache: the folder where object code of the host is kept, None for none.
    """
    fitted = fit_registers(plan, target, compile_kernels)
    why_not = obstacle(fitted.plan, fitted.codes) if plan.growing else ""
    if why_not:
        fitted = fit_registers(replace(plan, growing={}), target, compile_kernels)
    plan, codes, kernels = fitted.plan, fitted.codes, fitted.kernels
    ordinals = {source: ordinal for ordinal, source in enumerate(kernels)}
    for code, kernel in zip(codes, plan.kernels, strict=True):
        needed = max(kernels[step.source].scratch_bytes for step in code.steps)
        assert needed <= kernel.schedule.program_bytes, f"programs need {needed} bytes of their own: {kernel}"
    compiled = [
        CompiledKernel(kernel, code, [(ordinals[step.source], kernels[step.source]) for step in code.steps])
        for kernel, code in zip(plan.kernels, codes, strict=True)
    ]

    growing = growing_sizes(plan, codes)

    def write(frame: SegmentFrame, segment: Segment, locations: Mapping[str, int]) -> None:
        write_segment(frame, segment, compiled, locations, growing)

    device = DeviceCode(target.name, tuple(kernels.values()))
    report = make_report(plan, codes, kernels, target, why_not)
    pieces = Pieces((), (), write, lambda kernel: compiled[kernel].reports, report, device, table=growing.shape)
    return assemble(plan, pieces, target, host, cache)
