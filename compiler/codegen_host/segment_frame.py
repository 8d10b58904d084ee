"""The frame of a segment function: where its sizes, buffers and weights are, as runtime/program.py lays them out."""

from collections.abc import Sequence

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.sizes import Known, emit_size
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.kernel_plan import Buffer, Segment
from onnxc.runtime.program import FRAME_ARENA, FRAME_POOL, FRAME_STATUS, FRAME_SYMBOLS, FRAME_WEIGHTS


class SegmentFrame:
    """Reads the frame of one call of `i64 segment(ptr frame)`; `symbols` are those of the program, in its order.

    `pool` is what launches go to, `status` where kernels report.
    """

    def __init__(
        self, f: FunctionBuilder, segment: Segment, weight_offsets: Sequence[int], symbols: Sequence[str]
    ) -> None:
        self.f, self.weight_offsets = f, weight_offsets
        self.frame = f.parameters[0]
        self.first_input = FRAME_SYMBOLS + len(symbols)
        self.first_output = self.first_input + len(segment.inputs)
        dims = [size for launch in segment.launches for size in launch.sizes]
        dims += [buffer.offset for launch in segment.launches for buffer in (*launch.inputs, *launch.outputs)]
        used = frozenset().union(*map(symbols_of, dims))
        self.symbols: dict[str, Int] = {
            name: self.word(FRAME_SYMBOLS + ordinal, "i64") for ordinal, name in enumerate(symbols) if name in used
        }
        self.pool, self.weights, self.arena, self.status = (
            self.word(ordinal, "ptr") for ordinal in (FRAME_POOL, FRAME_WEIGHTS, FRAME_ARENA, FRAME_STATUS)
        )
        self.known: Known = {}

    def word(self, ordinal: int, type: str) -> Reg:
        """Word `ordinal` of the frame."""
        return self.f.load(type, self.f.gep(self.frame, ordinal, "i64"), align=8)

    def size(self, dim: Dim) -> Int:
        """A size of the program; to be asked for where every later use can see it."""
        return emit_size(dim, self.symbols, self.f, self.known)

    def address(self, buffer: Buffer) -> Reg:
        """Where a launch reads or writes."""
        f = self.f
        match buffer.place:
            case "input":
                return self.word(self.first_input + buffer.index, "ptr")
            case "output":
                return self.word(self.first_output + buffer.index, "ptr")
            case "weight":
                return f.gep(self.weights, self.weight_offsets[buffer.index])
        return f.gep(self.arena, self.size(buffer.offset))
