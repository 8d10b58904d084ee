"""Segments as native functions on the host: sizes are computed, parameters filled in, and the driver is called.

    i64 segment(ptr frame)

The frame is laid out in runtime/program.py. The result is 0, the first error of the driver, or TOO_MANY_ELEMENTS.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from onnxc.compiler.codegen_gpu.growing_sizes import GrowingSizes
from onnxc.compiler.codegen_gpu.schedules.cards import WARP_THREADS
from onnxc.compiler.codegen_gpu.size_table import SizeTable
from onnxc.compiler.codegen_gpu.source.kernel_source import Argument, DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import MOST_ELEMENTS_I32
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.segment_frame import SegmentFrame, run_first
from onnxc.compiler.ir.dim_symbols import evaluate, lone_symbol, substitute
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.kernel_plan import Kernel, Launch, Segment, Variant
from onnxc.compiler.planning.schedules import PROGRAM_ALIGNMENT
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.program import DEVICE_FUNCTIONS, DEVICE_LAUNCH, DEVICE_STREAM, TOO_MANY_ELEMENTS
from onnxc.runtime.records import record

# CUlaunchConfig of cuda.h: the grid, the block, dynamic shared memory, the stream, attributes and their number.
_CONFIG_BYTES = 56
_GRID, _BLOCK, _SHARED, _STREAM, _ATTRIBUTES, _ATTRIBUTE_COUNT = 0, 12, 24, 32, 40, 48

# CUlaunchAttribute of cuda.h: which, and its value; CU_LAUNCH_ATTRIBUTE_COOPERATIVE asks that all programs run at once,
# which the driver refuses where the device has no room for them.
_ATTRIBUTE_BYTES, _VALUE, _COOPERATIVE = 72, 8, 2

_NULL = Reg("null", "ptr")


@record
class CompiledKernel:
    """A kernel of the plan with its code, and for each of its steps the ordinal of the device's kernel, and that."""

    kernel: Kernel
    code: KernelCode
    device: Sequence[tuple[int, DeviceKernel]]

    @property
    def reports(self) -> bool:
        """Whether the kernel may report data that is not legal."""
        return any(argument.kind == "location" for step in self.code.steps for argument in step.arguments)


def write_segment(
    frame: SegmentFrame,
    segment: Segment,
    kernels: Sequence[CompiledKernel],
    locations: Mapping[str, int],
    growing: GrowingSizes,
) -> None:
    """Writes the launches of a segment; `locations` numbers the nodes that launches whose kernels report come from."""
    _refuse_many_elements(frame, segment, kernels)
    table = SizeTable(frame, growing)
    table.write_on_host()
    writer = _Launches(frame, segment, kernels, locations, table)
    for launch in segment.launches:
        runs = [(table.holds(variant.guard), writer.run(launch, variant)) for variant in launch.variants]
        run_first(frame.f, runs)


def _refuse_many_elements(frame: SegmentFrame, segment: Segment, kernels: Sequence[CompiledKernel]) -> None:
    """Leaves at once where indices of 32 bits would not do.

    The counts are those of the values of a block: where another variant runs, they are those of the general one.
    """
    f = frame.f
    counts = dict.fromkeys(
        substitute(count, dict(zip(kernels[general.kernel].kernel.symbols, general.sizes, strict=True)))
        for general in (launch.general for launch in segment.launches)
        for count in kernels[general.kernel].code.element_counts
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
        kernels: Sequence[CompiledKernel],
        locations: Mapping[str, int],
        table: SizeTable,
    ) -> None:
        self.frame, self.f = frame, frame.f
        self.kernels, self.locations, self.table, self.counts = kernels, locations, table, segment.counts
        f = self.f
        variants = [variant for launch in segment.launches for variant in launch.variants]
        steps = [step for variant in variants for step in kernels[variant.kernel].code.steps]
        count = 2 + max((len(step.arguments) for step in steps), default=0)
        self.words = f.alloca("i64", count)
        self.pointers = f.alloca("i64", count)
        for offset in range(count):
            f.store(f.gep(self.words, offset, "i64"), f.gep(self.pointers, offset, "i64"), align=8)
        self.config = f.alloca("i8", _CONFIG_BYTES)
        for offset in range(0, _CONFIG_BYTES, 8):
            f.store(0, f.gep(self.config, offset), align=8)
        f.store(self._table(DEVICE_STREAM, "i64"), f.gep(self.config, _STREAM), align=8)
        devices = [device for variant in variants for _, device in kernels[variant.kernel].device]
        self.has_attribute = any(device.cooperative for device in devices)
        if self.has_attribute:
            attribute = f.alloca("i8", _ATTRIBUTE_BYTES)
            f.store(_COOPERATIVE, attribute, align=8)
            f.store(1, f.gep(attribute, _VALUE), align=8)
            f.store(attribute, f.gep(self.config, _ATTRIBUTES), align=8)
        self.driver_launch = self._table(DEVICE_LAUNCH, "ptr")

    def _table(self, index: int, type: str) -> Reg:
        return self.f.load(type, self.f.gep(self.frame.pool, index, "i64"), align=8)

    def run(self, launch: Launch, variant: Variant) -> Callable[[], None]:
        """What runs a variant; its sizes are computed here, where all that follows can see them."""
        kernel = self.kernels[variant.kernel]
        sizes = dict(zip(kernel.kernel.symbols, variant.sizes, strict=True))
        behind = self._programs_memory(launch, kernel.kernel, sizes)
        calls = [
            self._prepared(launch, step, device, sizes, behind)
            for step, device in zip(kernel.code.steps, kernel.device, strict=True)
        ]

        def run() -> None:
            for call in calls:
                call()

        return run

    def _programs_memory(self, launch: Launch, kernel: Kernel, sizes: Mapping[str, Dim]) -> Int:
        """Where programs have memory of their own, behind what the steps of a kernel share."""
        if launch.scratch is None or not kernel.schedule.program_bytes:
            return 0
        f, frame = self.f, self.frame
        end = f.add(frame.start(launch.scratch), frame.size(substitute(kernel.schedule.shared_bytes, sizes)))
        return f.gep(frame.arena, f.and_(f.add(end, PROGRAM_ALIGNMENT - 1), -PROGRAM_ALIGNMENT))

    def _prepared(
        self, launch: Launch, step: DeviceStep, device: tuple[int, DeviceKernel], sizes: Mapping[str, Dim], behind: Int
    ) -> Callable[[], None]:
        """One call of the driver, unless the grid is empty."""
        f, frame, (ordinal, kernel) = self.f, self.frame, device
        words = [self._word(argument, launch, sizes) for argument in step.arguments]
        grid = [frame.size(substitute(dim, sizes)) for dim in step.grid]

        def call() -> None:
            for index, word in enumerate([*words, behind if kernel.scratch_bytes else 0, 0]):
                f.store(word, f.gep(self.words, index, "i64"), align=8)
            for index, size in enumerate([*grid, WARP_THREADS * kernel.warps, 1, 1, kernel.shared_bytes]):
                f.store(f.convert("trunc", size, "i32"), f.gep(self.config, _GRID + 4 * index), align=4)
            if self.has_attribute:
                f.store(int(kernel.cooperative), f.gep(self.config, _ATTRIBUTE_COUNT), align=8)
            wanted = [f.icmp("sgt", size, 0) for size in grid]
            f.if_(reduce(f.and_, wanted), lambda: self._call(ordinal))

        return call

    def _call(self, ordinal: int) -> None:
        f = self.f
        function = self._table(DEVICE_FUNCTIONS + ordinal, "ptr")
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
                if launch.scratch is None:
                    # Of no bytes: what would share them is launched for no element.
                    return _NULL
                return self.f.gep(frame.address(launch.scratch), frame.size(substitute(argument.value, sizes)))
            case "location":
                return self.locations[str(launch.location or "")]
            case "count":
                symbol = lone_symbol(substitute(argument.value, sizes))
                return frame.address(next(buffer for name, buffer in self.counts if name == symbol))
            case "table":
                return self.table.entry(substitute(argument.value, sizes))
        return frame.size(substitute(argument.value, sizes))
