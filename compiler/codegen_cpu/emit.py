"""KernelPlan to Artifact: kernels to object code, segments to native functions, steps to a program."""

from onnxc.compiler.codegen_cpu.kernels import EMITTERS, PACKERS
from onnxc.compiler.codegen_cpu.micro_kernels import write_micro_kernel
from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, ModuleBuilder
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.codegen_host.segment_parts import segment_functions
from onnxc.compiler.codegen_host.segments import NativeKernel, segment_function
from onnxc.compiler.codegen_host.weights import WeightBlock
from onnxc.compiler.codegen_host.write_program import Entries, write_program
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.limits import expect_within
from onnxc.compiler.planning.decompose import decompose_kernel
from onnxc.compiler.planning.kernel_plan import Kernel, KernelPlan, Segment
from onnxc.compiler.target import Target
from onnxc.runtime.artifact import Artifact


def emit(plan: KernelPlan, target: Target) -> Artifact:
    """The artifact of `plan`: one image for `target`, the weights in the layouts that its kernels read."""
    weights = WeightBlock(PACKERS)
    codes = [
        EMITTERS[kernel.kind](decompose_kernel(kernel), f"kernel{index}", target)
        for index, kernel in enumerate(plan.kernels)
    ]
    natives = [
        NativeKernel(code.name, kernel.symbols, code.units, code.grain, _reports(kernel))
        for code, kernel in zip(codes, plan.kernels, strict=True)
    ]
    offsets = [weights.add(plan.constants[weight.constant], weight.layout) for weight in plan.weights]
    entry_of = Entries()
    program, entries = write_program(plan, entry_of, weights.add), entry_of.segments
    symbols = [symbol.name for symbol in program.symbols]
    module = ModuleBuilder()
    for code in codes:
        for function in code.functions:
            module.add(function)
    for micro_kernel in sorted({micro_kernel for code in codes for micro_kernel in code.library}):
        module.add(write_micro_kernel(micro_kernel, target))
    launches = (launch for segment in entries.values() for launch in segment.launches)
    reporting = (str(launch.location or "") for launch in launches if natives[launch.kernel].reports)
    locations = {location: number for number, location in enumerate(dict.fromkeys(reporting))}

    def write(name: str, segment: Segment) -> FunctionBuilder:
        return segment_function(name, segment, natives, offsets, symbols, locations)

    for name, segment in entries.items():
        for function in segment_functions(name, segment, write):
            module.add(function)
    images = {}
    if entries:
        expect_within("code_instructions", module.length, "the number of instructions", "code-too-large")
        objects = [compile_object(text, target) for text in module.texts()]
        images[str(target)] = build_image(objects, list(entries), target)
    return Artifact(program, images, weights.bytes(), {"locations": list(locations)}, str(plan))


def _reports(kernel: Kernel) -> bool:
    """Whether the kernel picks or places elements at indices that are data."""
    return any(PRIMITIVES[op.name].kind == "indexed" for op in kernel.block.ops)
