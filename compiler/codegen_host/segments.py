"""Segments as native functions: one call computes the sizes, and launches the kernels of a segment in order.

    i64 segment(ptr frame)

The frame is laid out in runtime/program.py. A kernel gets its arguments as 64-bit words on the stack: the status block,
its inputs, its outputs, its sizes; and its units of work go to the thread pool.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.codegen_host.llvm_ir import FunctionBuilder
from compiler.codegen_host.llvm_values import Int, Reg
from compiler.codegen_host.pool import call_parallel_for
from compiler.codegen_host.sizes import Known, emit_size
from compiler.ir.dims import Dim, substitute, symbols_of
from compiler.planning.kernel_plan import Buffer, Launch, Segment
from runtime.program import (
    FRAME_ARENA,
    FRAME_POOL,
    FRAME_STATUS,
    FRAME_SYMBOLS,
    FRAME_WEIGHTS,
    STATUS_CODE,
    STATUS_LOCATION,
)


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

    `locations` numbers the nodes that launches whose kernels report come from.
    """
    f = FunctionBuilder(name, [("ptr", "frame")], returns="i64")
    writer = _Writer(f, segment, kernels, weight_offsets, symbols, locations)
    for launch in segment.launches:
        writer.launch(launch)
    f.ret(0)
    return f


class _Writer:
    def __init__(
        self,
        f: FunctionBuilder,
        segment: Segment,
        kernels: Sequence[NativeKernel],
        weight_offsets: Sequence[int],
        symbols: Sequence[str],
        locations: Mapping[str, int],
    ) -> None:
        self.f, self.kernels, self.weight_offsets, self.locations = f, kernels, weight_offsets, locations
        self.frame = f.parameters[0]
        self.first_input = FRAME_SYMBOLS + len(symbols)
        self.first_output = self.first_input + len(segment.inputs)
        dims = [size for launch in segment.launches for size in launch.sizes]
        dims += [buffer.offset for launch in segment.launches for buffer in (*launch.inputs, *launch.outputs)]
        used = frozenset().union(*map(symbols_of, dims))
        self.symbols: Mapping[str, Int] = {
            name: self._word(FRAME_SYMBOLS + place, "i64") for place, name in enumerate(symbols) if name in used
        }
        self.pool, self.weights, self.arena, self.status = (
            self._word(place, "ptr") for place in (FRAME_POOL, FRAME_WEIGHTS, FRAME_ARENA, FRAME_STATUS)
        )
        arguments = ((*launch.inputs, *launch.outputs, *launch.sizes) for launch in segment.launches)
        self.known: Known = {}
        words = 1 + max(map(len, arguments), default=0)
        self.arguments = f.alloca("i64", words)

    def _word(self, place: int, type: str) -> Reg:
        return self.f.load(type, self.f.gep(self.frame, place, "i64"), align=8)

    def _size(self, dim: Dim) -> Int:
        return emit_size(dim, self.symbols, self.f, self.known)

    def launch(self, launch: Launch) -> None:
        """Stores the arguments of one kernel and runs all its units."""
        f, kernel = self.f, self.kernels[launch.kernel]
        pointers = [self.status, *(self._address(buffer) for buffer in (*launch.inputs, *launch.outputs))]
        sizes = [self._size(size) for size in launch.sizes]
        for place, word in enumerate([*pointers, *sizes]):
            f.store(word, f.gep(self.arguments, place, "i64"), align=8)
        own = dict(zip(kernel.symbols, launch.sizes, strict=True))
        if kernel.reports:
            self._tell_location(self.locations[str(launch.location or "")])
        units, grain = (self._size(substitute(size, own)) for size in (kernel.units, kernel.grain))
        call_parallel_for(f, self.pool, kernel.name, self.arguments, units, grain)

    def _tell_location(self, number: int) -> None:
        """Puts the node that runs next into the status block, unless one before it has failed."""
        f = self.f
        place = f.gep(self.status, STATUS_LOCATION, "i64")
        is_clear = f.icmp("eq", f.load("i64", f.gep(self.status, STATUS_CODE, "i64"), align=8), 0)
        f.store(f.select(is_clear, number, f.load("i64", place, align=8)), place, align=8)

    def _address(self, buffer: Buffer) -> Reg:
        f = self.f
        match buffer.place:
            case "input":
                return self._word(self.first_input + buffer.index, "ptr")
            case "output":
                return self._word(self.first_output + buffer.index, "ptr")
            case "weight":
                return f.gep(self.weights, self.weight_offsets[buffer.index])
        return f.gep(self.arena, self._size(buffer.offset))
