"""Segments as native functions on the host: sizes are computed, parameters filled in, and the driver is called.

    i64 segment(ptr frame)

The frame is laid out in runtime/program.py. The result is 0, the first error of the driver, or TOO_MANY_ELEMENTS.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from onnxc.compiler.codegen_gpu.source.kernel_source import Argument, DeviceStep, KernelCode, KernelSource
from onnxc.compiler.codegen_gpu.source.source_builder import MOST_ELEMENTS_I32
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.segment_frame import SegmentFrame
from onnxc.compiler.ir.dim_symbols import evaluate, substitute
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.planning.kernel_plan import Launch, Segment
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.program import DEVICE_FUNCTIONS, DEVICE_LAUNCH, DEVICE_STREAM, TOO_MANY_ELEMENTS

# CUlaunchConfig of cuda.h: the grid, the block, dynamic shared memory, the stream, attributes and their number.
_CONFIG_BYTES = 56
_GRID, _BLOCK, _SHARED, _STREAM, _ATTRIBUTES, _ATTRIBUTE_COUNT = 0, 12, 24, 32, 40, 48

_WARP_THREADS = 32

# What describes a block copy begins on so many bytes.
_PROGRAM_ALIGNMENT = 128

_NULL = Reg("null", "ptr")

DeviceKernels = Mapping[KernelSource, tuple[int, DeviceKernel]]
"""The number of the kernel of each source, and the kernel."""


def segment_function(
    name: str,
    segment: Segment,
    codes: Sequence[KernelCode],
    symbols_of_kernels: Sequence[Sequence[str]],
    kernels: DeviceKernels,
    weight_offsets: Sequence[int],
    symbols: Sequence[str],
    locations: Mapping[str, int],
) -> FunctionBuilder:
    """The function of a segment; `codes` and `symbols_of_kernels` are by number of the plan's kernels."""
    f = FunctionBuilder(name, [("ptr", "frame")], returns="i64")
    frame = SegmentFrame(f, segment, weight_offsets, symbols)
    launches = [(launch, codes[launch.kernel], symbols_of_kernels[launch.kernel]) for launch in segment.launches]
    _refuse_many_elements(frame, launches)
    writer = _Launches(frame, segment, launches, kernels, locations)
    for launch, code, own in launches:
        sizes = dict(zip(own, launch.sizes, strict=True))
        behind = programs_memory(segment, code, sizes)
        for step in code.steps:
            writer.launch(launch, step, sizes, behind)
    f.ret(0)
    return f


def programs_memory(segment: Segment, code: KernelCode, sizes: Mapping[str, Dim]) -> Dim:
    """Where in the arena the programs of a kernel have memory of their own, behind what its steps share."""
    end = segment.arena_bytes + substitute(code.scratch_bytes, sizes)
    return floordiv(end + _PROGRAM_ALIGNMENT - 1, _PROGRAM_ALIGNMENT) * _PROGRAM_ALIGNMENT


def _refuse_many_elements(frame: SegmentFrame, launches: Sequence[tuple[Launch, KernelCode, Sequence[str]]]) -> None:
    """Leaves at once where indices of 32 bits would not do."""
    f = frame.f
    counts = dict.fromkeys(
        substitute(count, dict(zip(own, launch.sizes, strict=True)))
        for launch, code, own in launches
        for count in code.element_counts
    )
    tests = [f.icmp("sge", size, MOST_ELEMENTS_I32) for size in map(frame.size, counts) if isinstance(size, Reg)]
    if tests:
        f.if_(reduce(f.or_, tests), lambda: f.ret(TOO_MANY_ELEMENTS))


class _Launches:
    """Writes one launch after another, with one configuration and one row of parameters for all."""

    def __init__(
        self,
        frame: SegmentFrame,
        segment: Segment,
        launches: Sequence[tuple[Launch, KernelCode, Sequence[str]]],
        kernels: DeviceKernels,
        locations: Mapping[str, int],
    ) -> None:
        self.frame, self.f, self.segment = frame, frame.f, segment
        self.kernels, self.locations = kernels, locations
        f = self.f
        steps = [step for _, code, _ in launches for step in code.steps]
        count = 2 + max((len(step.arguments) for step in steps), default=0)
        self.words = f.alloca("i64", count)
        self.pointers = f.alloca("i64", count)
        for place in range(count):
            f.store(f.gep(self.words, place, "i64"), f.gep(self.pointers, place, "i64"), align=8)
        self.config = f.alloca("i8", _CONFIG_BYTES)
        for place in range(0, _CONFIG_BYTES, 8):
            f.store(0, f.gep(self.config, place), align=8)
        f.store(self._table(DEVICE_STREAM, "i64"), f.gep(self.config, _STREAM), align=8)
        self.driver_launch = self._table(DEVICE_LAUNCH, "ptr")

    def _table(self, place: int, type: str) -> Reg:
        return self.f.load(type, self.f.gep(self.frame.pool, place, "i64"), align=8)

    def launch(self, launch: Launch, step: DeviceStep, sizes: Mapping[str, Dim], behind: Dim) -> None:
        """One call of the driver, unless the grid is empty."""
        f, frame = self.f, self.frame
        number, kernel = self.kernels[step.source]
        words = [self._word(argument, launch, sizes) for argument in step.arguments]
        grid = [frame.size(substitute(dim, sizes)) for dim in step.grid]
        own = f.gep(frame.arena, frame.size(behind)) if kernel.scratch_bytes else 0
        for place, word in enumerate([*words, own, 0]):
            f.store(word, f.gep(self.words, place, "i64"), align=8)
        for place, size in enumerate([*grid, _WARP_THREADS * kernel.warps, 1, 1, kernel.shared_bytes]):
            f.store(f.convert("trunc", size, "i32"), f.gep(self.config, _GRID + 4 * place), align=4)
        wanted = [f.icmp("sgt", size, 0) for size in grid]
        if step.when is not None:
            size = frame.size(substitute(step.when.size, sizes))
            wanted.append(f.icmp("sge", size, step.when.low))
            if step.when.high is not None:
                wanted.append(f.icmp("sle", size, step.when.high))
        f.if_(reduce(f.and_, wanted), lambda: self._call(number))

    def _call(self, number: int) -> None:
        f = self.f
        function = self._table(DEVICE_FUNCTIONS + number, "ptr")
        result = f.call_pointer(self.driver_launch, "i32", self.config, function, self.pointers, _NULL)
        failed = f.icmp("ne", result, 0)
        f.if_(failed, lambda: f.ret(f.convert("zext", result, "i64")))

    def _word(self, argument: Argument, launch: Launch, sizes: Mapping[str, Dim]) -> Int:
        frame = self.frame
        match argument.kind:
            case "input":
                return frame.address(launch.inputs[evaluate(argument.value, {})])
            case "output":
                return frame.address(launch.outputs[evaluate(argument.value, {})])
            case "status":
                return frame.status
            case "scratch":
                offset = self.segment.arena_bytes + substitute(argument.value, sizes)
                return self.f.gep(frame.arena, frame.size(offset))
            case "location":
                return self.locations[str(launch.location or "")]
        return frame.size(substitute(argument.value, sizes))
