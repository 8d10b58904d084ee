"""KernelPlan to Artifact: kernels to sources to cubins, segments to functions on the host, steps to a program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.codegen_gpu.kernels import EMITTERS
from onnxc.compiler.codegen_gpu.report import make_report
from onnxc.compiler.codegen_gpu.segments import programs_memory, segment_function
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode, KernelSource
from onnxc.compiler.codegen_gpu.source.packed_weights import PACKERS
from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, ModuleBuilder
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.codegen_host.segment_parts import segment_functions
from onnxc.compiler.codegen_host.weights import WeightBlock
from onnxc.compiler.codegen_host.write_program import Entries, write_program
from onnxc.compiler.ir.dims import Dim, maximum, product, substitute
from onnxc.compiler.limits import expect_within
from onnxc.compiler.planning.decompose import decompose_kernel
from onnxc.compiler.planning.kernel_plan import HostStep, KernelPlan, PlanBody, PlanStep, Segment
from onnxc.compiler.target import Target
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.device_code import DeviceCode, DeviceKernel

CompileKernels = Callable[[Sequence[KernelSource]], Sequence[DeviceKernel]]


def emit(plan: KernelPlan, target: Target, host: Target, compile_kernels: CompileKernels) -> Artifact:
    """The artifact of `plan`: kernels for `target`, the functions that launch them for the processor `host`."""
    codes = [EMITTERS[kernel.kind](decompose_kernel(kernel), target) for kernel in plan.kernels]
    sources = list(dict.fromkeys(step.source for code in codes for step in code.steps))
    kernels = compile_kernels(sources)
    numbered = {source: (number, kernel) for number, (source, kernel) in enumerate(zip(sources, kernels, strict=True))}
    plan = replace(plan, body=_with_scratch(plan, plan.body, codes, dict(zip(sources, kernels, strict=True))))
    weights = WeightBlock(PACKERS)
    offsets = [weights.add(plan.constants[weight.constant], weight.layout) for weight in plan.weights]
    entry_of = Entries()
    program, entries = write_program(plan, entry_of, weights.add), entry_of.segments
    symbols = [symbol.name for symbol in program.symbols]
    locations = _locations(entries, codes)
    own_symbols = [kernel.symbols for kernel in plan.kernels]
    module = ModuleBuilder()

    def write(name: str, segment: Segment) -> FunctionBuilder:
        return segment_function(name, segment, codes, own_symbols, numbered, offsets, symbols, locations)

    for name, segment in entries.items():
        for function in segment_functions(name, segment, write):
            module.add(function)
    images = {}
    if entries:
        expect_within("code_instructions", module.length, "the number of instructions", "code-too-large")
        objects = [compile_object(text, host) for text in module.texts()]
        images[str(target)] = build_image(objects, list(entries), host)
    device = DeviceCode(target.name, tuple(kernels))
    report = make_report(plan, codes, dict(zip(sources, kernels, strict=True)), target)
    return Artifact(program, images, weights.bytes(), {"locations": list(locations)}, report, device=device)


def _with_scratch(
    plan: KernelPlan, body: PlanBody, codes: Sequence[KernelCode], kernels: Mapping[KernelSource, DeviceKernel]
) -> PlanBody:
    """The body with the scratch memory of each segment: as much as the launch that needs most."""

    def step(found: PlanStep) -> PlanStep:
        if isinstance(found, HostStep):
            return HostStep(found.op, tuple(_with_scratch(plan, inner, codes, kernels) for inner in found.bodies))
        needed: Dim = 0
        for launch in found.launches:
            sizes = dict(zip(plan.kernels[launch.kernel].symbols, launch.sizes, strict=True))
            code = codes[launch.kernel]
            needed = maximum(needed, substitute(code.scratch_bytes, sizes))
            for device_step in code.steps:
                each = kernels[device_step.source].scratch_bytes
                if each:
                    programs = substitute(product(device_step.grid), sizes)
                    needed = maximum(needed, programs_memory(found, code, sizes) - found.arena_bytes + programs * each)
        return replace(found, scratch_bytes=needed)

    return PlanBody(body.block, tuple(map(step, body.steps)))


def _locations(entries: Mapping[str, Segment], codes: Sequence[KernelCode]) -> dict[str, int]:
    """The numbers of the nodes whose kernels may report data that is not legal."""
    reporting = (
        str(launch.location or "")
        for segment in entries.values()
        for launch in segment.launches
        if any(argument.kind == "location" for step in codes[launch.kernel].steps for argument in step.arguments)
    )
    return {location: number for number, location in enumerate(dict.fromkeys(reporting))}
