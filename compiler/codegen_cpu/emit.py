"""KernelPlan to Artifact: kernels as functions over units of work, which segments hand to the thread pool."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path

from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import LibraryFunction
from onnxc.compiler.codegen_cpu.kernels import emit_kernel
from onnxc.compiler.codegen_cpu.report import make_report
from onnxc.compiler.codegen_host.assemble import Pieces, assemble
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.segment_frame import SegmentFrame
from onnxc.compiler.codegen_host.segments import NativeKernel, write_segment
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.decompose import decompose_kernel
from onnxc.compiler.planning.kernel_plan import Kernel, KernelPlan, Segment
from onnxc.compiler.planning.reported_launches import variant_ordinals
from onnxc.compiler.target import Target
from onnxc.runtime.artifact import Artifact


def emit(
    plan: KernelPlan, target: Target, cache: Path | None = None, progress: Callable[[int, int], None] | None = None
) -> Artifact:
    """The artifact of `plan` for `target`. cache: the folder where object code is kept, None for none.

    progress: is told how many modules of machine code are compiled, and of how many.
    """
    return assemble(plan, kernel_pieces(plan, target), target, target, cache, progress)


def kernel_pieces(plan: KernelPlan, target: Target) -> Pieces:
    """The functions of the kernels of `plan`, and what writes the launches of them."""
    lengths: list[int] = []
    natives: list[NativeKernel] = []
    modules: dict[str, None] = {}

    def functions() -> Iterator[Sequence[FunctionBuilder]]:
        library: dict[str, LibraryFunction] = {}
        called: set[str] = set()
        for index, kernel in enumerate(plan.kernels):
            code = emit_kernel(decompose_kernel(kernel), f"kernel{index}", target)
            yield code.functions
            lengths.append(sum(function.length for function in code.functions))
            scratch = kernel.schedule.scratch_bytes != 0
            natives.append(NativeKernel(code.name, kernel.symbols, code.units, code.grain, _reports(kernel), scratch))
            library.update((shared.name, shared) for shared in code.library)
            called.update(name for function in code.functions for name in function.declarations)
            modules.update(dict.fromkeys(code.modules))
        yield from _called_functions(library, called, target)

    ordinals = variant_ordinals(plan)

    def write(frame: SegmentFrame, segment: Segment, locations: Mapping[str, int]) -> None:
        write_segment(frame, segment, natives, locations, ordinals)

    report = make_report(plan, target)
    return Pieces(functions(), lengths, write, lambda kernel: _reports(plan.kernels[kernel]), report, modules=modules)


def _called_functions(
    library: Mapping[str, LibraryFunction], called: Set[str], target: Target
) -> Iterator[Sequence[FunctionBuilder]]:
    """What is called of a library, and what that calls: known sizes leave out most numbers of rows."""
    known = set[str]()
    while wanted := sorted((library.keys() & called) - known):
        functions = [library[name].write(target) for name in wanted]
        yield from ([function] for function in functions)
        known.update(wanted)
        called = {name for function in functions for name in function.declarations}


def _reports(kernel: Kernel) -> bool:
    """Whether the kernel picks or places elements at indices that are data."""
    return any(PRIMITIVES[op.name].kind == "indexed" for op in kernel.block.ops)
