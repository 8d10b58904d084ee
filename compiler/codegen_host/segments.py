"""Segments as native functions: one call computes the sizes, and launches the kernels of a segment in order.

    i64 segment(ptr frame)

The frame is laid out in runtime/program.py. A kernel gets its arguments as 64-bit words on the stack: the status block,
its inputs, its outputs, its sizes; and its units of work go to the thread pool.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.pool import call_parallel_for
from onnxc.compiler.codegen_host.segment_frame import SegmentFrame
from onnxc.compiler.ir.dim_symbols import substitute
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.kernel_plan import Launch, Segment
from onnxc.runtime.program import STATUS_CODE, STATUS_LOCATION


@dataclass(frozen=True)
class NativeKernel:
    """What a launch needs to know of a kernel: its function, its symbols, its work in units, and a chunk of them.

    One that `reports` may write to the status block.
    """

    name: str
    symbols: tuple[str, ...]
    units: Dim
    grain: Dim
    reports: bool


def segment_function(
    name: str,
    segment: Segment,
    kernels: Sequence[NativeKernel],
    weight_offsets: Sequence[int],
    symbols: Sequence[str],
    locations: Mapping[str, int],
) -> FunctionBuilder:
    """The function of a segment; `symbols` are those of the program, in the order of the frame.

    `locations` has the ordinals of the nodes that launches whose kernels report come from.
    """
    f = FunctionBuilder(name, [("ptr", "frame")], returns="i64")
    writer = _Writer(SegmentFrame(f, segment, weight_offsets, symbols), segment, kernels, locations)
    for launch in segment.launches:
        writer.launch(launch)
    f.ret(0)
    return f


class _Writer:
    def __init__(
        self, frame: SegmentFrame, segment: Segment, kernels: Sequence[NativeKernel], locations: Mapping[str, int]
    ) -> None:
        self.frame, self.f, self.kernels, self.locations = frame, frame.f, kernels, locations
        arguments = ((*launch.inputs, *launch.outputs, *launch.sizes) for launch in segment.launches)
        words = 1 + max(map(len, arguments), default=0)
        self.arguments = self.f.alloca("i64", words)

    def launch(self, launch: Launch) -> None:
        """Stores the arguments of one kernel and runs all its units."""
        f, frame, kernel = self.f, self.frame, self.kernels[launch.kernel]
        pointers = [frame.status, *(frame.address(buffer) for buffer in (*launch.inputs, *launch.outputs))]
        sizes = [frame.size(size) for size in launch.sizes]
        for ordinal, word in enumerate([*pointers, *sizes]):
            f.store(word, f.gep(self.arguments, ordinal, "i64"), align=8)
        own = dict(zip(kernel.symbols, launch.sizes, strict=True))
        if kernel.reports:
            self._store_location(self.locations[str(launch.location or "")])
        units, grain = (frame.size(substitute(size, own)) for size in (kernel.units, kernel.grain))
        call_parallel_for(f, frame.pool, kernel.name, self.arguments, units, grain)

    def _store_location(self, node: int) -> None:
        """Puts the node that runs next into the status block, unless one before it has failed."""
        f, status = self.f, self.frame.status
        address = f.gep(status, STATUS_LOCATION, "i64")
        is_clear = f.icmp("eq", f.load("i64", f.gep(status, STATUS_CODE, "i64"), align=8), 0)
        f.store(f.select(is_clear, node, f.load("i64", address, align=8)), address, align=8)
