"""The form that all kernels share: void kernel(ptr arguments, i64 begin, i64 end) over units of independent work.

The arguments are 64-bit words: the status block, the inputs, the outputs, scratch memory where the schedule asks for
some, then the values of the kernel's symbols.
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.codegen_cpu.evaluate import Evaluator
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import LibraryFunction
from onnxc.compiler.codegen_host.effort import stepping_effort
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg
from onnxc.compiler.codegen_host.sizes import emit_size
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import Threads
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

STEPPING_KINDS = frozenset({"attention", "convolution", "contraction", "suppress_boxes"})
"""Kernels whose loops step through memory as they are written, and are as fast where LLVM looks for nothing better.

On AVX2 convolutions take 0.90 to 0.99 of the time then, those of depthwise 0.86 to 0.94, attention 0.94 to 1.01; small
reductions would take up to 1.39. Arm processors, whose addresses have fewer forms, were not measured.
"""


@record
class KernelCode:
    """A compiled-to-IR kernel: `units` of work, claimed `grain` at a time.

    library: shared functions that it may call. modules: of LLVM IR, with functions that it calls.
    """

    name: str
    functions: tuple[FunctionBuilder, ...]
    units: Dim
    grain: Dim
    library: tuple[LibraryFunction, ...] = ()
    modules: tuple[str, ...] = ()


@record
class KernelFrame:
    """A kernel function being written, with its arguments unpacked."""

    kernel: Kernel
    target: Target
    f: FunctionBuilder
    status: Reg
    inputs: tuple[Reg, ...]
    outputs: tuple[Reg, ...]
    symbols: dict[str, Int]
    scratch: Reg | None = None

    @property
    def threads(self) -> Threads:
        """The vectors of the schedule, and what a thread claims at once."""
        workers = self.kernel.schedule.workers
        assert isinstance(workers, Threads), workers
        return workers

    @property
    def lanes(self) -> int:
        """How many elements are computed at once."""
        return self.threads.lanes

    def grain(self, work: Dim) -> Dim:
        """How many units of so much work a thread claims at once."""
        return maximum(floordiv(self.threads.grain, maximum(work, 1)), 1)

    @property
    def root(self) -> Value:
        """The value that the kernel writes, the first where it writes several."""
        return self.kernel.block.results[0]

    @property
    def output(self) -> Reg:
        """Where `root` is written."""
        return self.outputs[0]

    @property
    def begin(self) -> Reg:
        return self.f.parameters[1]

    @property
    def end(self) -> Reg:
        return self.f.parameters[2]

    def size(self, dim: Dim) -> Int:
        """A size as a number of this kernel."""
        with self.f.at_entry():
            return emit_size(dim, self.symbols, self.f)

    def evaluator(self, lanes: int | None = None, mask: Reg | None = None) -> Evaluator:
        """A fresh evaluator over the inputs."""
        pointers = dict(zip(self.kernel.block.parameters, self.inputs, strict=True))
        return Evaluator(self.f, lanes or self.lanes, self.symbols, pointers, self.status, mask=mask)

    def lanes_left(self, lanes: int, left: Int, write: Callable[[Reg | None], None]) -> None:
        """`write(None)` where `left` lanes fill a vector, `write(mask)` where they do not, nothing where it is 0."""
        f = self.f
        if isinstance(left, int):
            if left > 0:
                write(None if left >= lanes else f.tail_mask(lanes, left))
            return

        def rest() -> None:
            f.if_(f.icmp("sgt", left, 0), lambda: write(f.tail_mask(lanes, left)))

        f.if_(f.icmp("sge", left, lanes), lambda: write(None), rest)

    def panel_lanes(
        self, lanes: int, panel: tuple[Dim, int, Int], start: int, write: Callable[[Reg | None], None]
    ) -> None:
        """As `lanes_left` for the columns from `start` on of a panel; what is known of all panels is not tested.

        panel: of how many columns, how wide panels are, and how many columns are left from its first on.
        """
        (columns, width, left), f = panel, self.f
        if isinstance(columns, int):
            last = (columns - 1) % width + 1
            if start + lanes <= last:
                write(None)
                return
            if last % lanes == 0:
                f.if_(f.icmp("sgt", left, start), lambda: write(None))
                return
        self.lanes_left(lanes, f.sub(left, start), write)

    def split(self, ordinal: Int, sizes: Sequence[Dim]) -> tuple[Int, ...]:
        """`ordinal` as coordinates in a row-major box of `sizes`, which it is within; those of size 1 are known."""
        coordinates: list[Int] = []
        for size in reversed(sizes[1:]):
            if size == 1:
                coordinates.append(0)
                continue
            length = self.size(size)
            quotient = self.f.udiv(ordinal, length)
            coordinates.append(self.f.sub(ordinal, self.f.mul(quotient, length)))
            ordinal = quotient
        return (0 if sizes[0] == 1 else ordinal, *reversed(coordinates)) if sizes else ()

    def each_unit(self, sizes: Sequence[Dim], body: Callable[..., None]) -> None:
        """`body(*coordinates)` for the units of work of this call, which are a row-major box of `sizes`.

        Where only the call knows sizes the coordinates are counted, as to divide by these takes longer than to copy a
        short row; along the last axis in a loop of its own, so that what the others say is found once.
        """
        f, sizes = self.f, tuple(sizes)
        if all(isinstance(size, int) for size in sizes[1:]):
            f.loop(self.begin, self.end, 1, lambda ordinal: body(*self.split(ordinal, sizes)), at_least_once=True)
            return
        *outer, last = (axis for axis, size in enumerate(sizes) if size != 1)
        length = self.size(sizes[last])
        lengths = [self.size(sizes[axis]) for axis in outer]

        def line(ordinal: Reg, *counts: Reg) -> Sequence[Int]:
            coordinates: list[Int] = [0] * len(sizes)
            for axis, count in zip(outer, counts, strict=True):
                coordinates[axis] = count

            def unit(position: Reg) -> None:
                coordinates[last] = position
                body(*coordinates)

            before = f.mul(ordinal, length)
            first, stop = f.smax(f.sub(self.begin, before), 0), f.smin(f.sub(self.end, before), length)
            f.loop(first, stop, 1, unit, at_least_once=True)
            return self._following(counts, lengths)

        first = f.udiv(self.begin, length)
        stop = f.add(f.udiv(f.sub(self.end, 1), length), 1)
        f.loop(first, stop, 1, line, self.split(first, [sizes[axis] for axis in outer]), at_least_once=True)

    def _following(self, counts: Sequence[Int], lengths: Sequence[Int]) -> list[Int]:
        """The coordinates behind these: the last grows, and where one is at its end the one before it."""
        f, following = self.f, list[Int]()
        carry: Int = 1
        for count, length in zip(reversed(counts), reversed(lengths), strict=True):
            grown = as_reg(f.add(count, carry))
            is_over = f.icmp("eq", grown, length)
            following.append(f.select(is_over, as_reg(0), grown))
            carry = f.convert("zext", is_over, "i64")
        return following[::-1]


def open_kernel(kernel: Kernel, name: str, target: Target) -> KernelFrame:
    """The head of a kernel function."""
    parameters = [("ptr", "arguments"), ("i64", "begin"), ("i64", "end")]
    f = FunctionBuilder(
        name,
        parameters,
        features=target.features,
        vector_bytes=target.vector_bits // 8,
        vector_registers=target.vector_registers,
        effort=stepping_effort(target.arch) if kernel.kind in STEPPING_KINDS else "most",
    )
    arguments = f.parameters[0]

    def pointer(ordinal: int) -> Reg:
        return f.load("ptr", f.gep(arguments, ordinal, "i64"), align=8)

    has_scratch = kernel.schedule.scratch_bytes != 0
    first_output = 1 + len(kernel.block.parameters)
    first_behind = first_output + len(kernel.block.results)
    first_symbol = first_behind + has_scratch
    inputs, outputs = (
        tuple(pointer(ordinal) for ordinal in range(*span))
        for span in ((1, first_output), (first_output, first_behind))
    )
    symbols: dict[str, Int] = {
        symbol: f.load("i64", f.gep(arguments, ordinal, "i64"), align=8)
        for ordinal, symbol in enumerate(kernel.symbols, first_symbol)
    }
    scratch = pointer(first_behind) if has_scratch else None
    status = pointer(0)
    f.end_entry()
    return KernelFrame(kernel, target, f, status, inputs, outputs, symbols, scratch)
