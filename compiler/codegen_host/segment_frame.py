"""The frame of a segment function: where its sizes, buffers and weights are, as runtime/program.py lays them out."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg
from onnxc.compiler.codegen_host.sizes import Known, emit_size
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, constant_of
from onnxc.compiler.planning.kernel_plan import Buffer, Guard, Segment
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
        used = frozenset().union(*map(symbols_of, _sizes_of(segment)))
        self.symbols: dict[str, Int] = {
            name: self.word(FRAME_SYMBOLS + ordinal, "i64") for ordinal, name in enumerate(symbols) if name in used
        }
        self.pool, self.weights, self.arena, self.status = (
            self.word(ordinal, "ptr") for ordinal in (FRAME_POOL, FRAME_WEIGHTS, FRAME_ARENA, FRAME_STATUS)
        )
        self.slots = segment.slots
        self.starts: list[tuple[Int, int]] = [(0, 0)]
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
        match buffer.kind:
            case "input":
                return self.word(self.first_input + buffer.index, "ptr")
            case "output":
                return self.word(self.first_output + buffer.index, "ptr")
            case "weight":
                return f.gep(self.weights, self.weight_offsets[buffer.index])
        return f.gep(self.arena, self.start(buffer))

    def start(self, buffer: Buffer) -> Int:
        """Where a slot starts in the arena, in bytes; to be asked for where every later use can see it."""
        assert buffer.kind == "slot", buffer
        while len(self.starts) <= buffer.index:
            slot, (variable, constant) = self.slots[len(self.starts) - 1], self.starts[-1]
            own = constant_of(slot)
            self.starts.append((self.f.add(variable, self.size(slot - own)), constant + own))
        return self.f.add(*self.starts[buffer.index])

    def holds(self, guard: Guard) -> Reg | None:
        """Whether the conditions of a variant hold; None where there are none."""
        f = self.f
        tests: list[Reg] = []
        for condition in guard:
            size = self.size(condition.size)
            tests.append(f.icmp("sge", size, condition.low))
            if condition.high is not None:
                tests.append(f.icmp("sle", size, condition.high))
        return reduce(f.and_, tests) if tests else None


def _sizes_of(segment: Segment) -> Iterator[Dim]:
    """All sizes of the program that a segment computes with; of slots, those before the last that it uses."""
    last = 0
    for launch in segment.launches:
        for variant in launch.variants:
            yield from variant.sizes
            yield from (condition.size for condition in variant.guard)
        scratch = () if launch.scratch is None else (launch.scratch,)
        for buffer in (*launch.inputs, *launch.outputs, *scratch):
            last = max(last, buffer.index if buffer.kind == "slot" else 0)
    yield from segment.slots[:last]


def run_first(f: FunctionBuilder, runs: Sequence[tuple[Reg | None, Callable[[], None]]]) -> None:
    """Writes the first of `runs` whose condition holds; the last one has none."""
    (condition, run), *others = runs
    if condition is None:
        run()
    else:
        f.if_(condition, run, lambda: run_first(f, others))
