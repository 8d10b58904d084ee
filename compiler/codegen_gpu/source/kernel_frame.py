"""The frame that all kernels share: pointers to inputs and outputs, sizes, the status block, and flat tiles."""

from collections.abc import Callable, Iterator, Mapping

from onnxc.compiler.codegen_gpu.source.element_types import pointer_type
from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_source import Argument, DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import (
    MOST_ELEMENTS_I32,
    Expr,
    Int,
    SourceBuilder,
    is_multiple,
)
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import Joining, Warps
from onnxc.compiler.target import Target
from onnxc.runtime.records import record


@record
class KernelFrame:
    """A kernel being written."""

    kernel: Kernel
    target: Target
    b: SourceBuilder

    @property
    def root(self) -> Value:
        """The value that the kernel writes, the first where it writes several."""
        return self.kernel.block.results[0]

    def size(self, dim: Dim) -> Int:
        """A size as a number of this kernel."""
        return self.b.size(dim)

    def input(self, value: Value) -> Expr:
        """The buffer of a parameter of the block."""
        ordinal = self.kernel.block.parameters.index(value)
        return self.b.buffer("a", pointer_type(value.dtype), Argument("input", ordinal))

    def output(self, ordinal: int = 0) -> Expr:
        """The buffer of a result of the block."""
        dtype = self.kernel.block.results[ordinal].dtype
        return self.b.buffer("y", pointer_type(dtype), Argument("output", ordinal))

    def scratch(self, name: str, dtype: DType, offset: Dim = 0) -> Expr:
        """Memory that the steps of the kernel share, from a multiple of 16 bytes on."""
        return self.b.pointer(name, pointer_type(dtype), Argument("scratch", offset))

    def evaluator(self, lanes: Mapping[int, Expr] | None = None, masks: Mapping[int, Expr] | None = None) -> Evaluator:
        """A fresh evaluator over the inputs, for one block of statements."""
        return Evaluator(self.b, _Inputs(self), self._reports, dict(lanes or {}), dict(masks or {}))

    @property
    def warps(self) -> Warps:
        """The warps of the schedule."""
        workers = self.kernel.schedule.workers
        assert isinstance(workers, Warps), workers
        return workers

    @property
    def joining(self) -> Joining:
        """The second launch of the schedule."""
        assert self.kernel.schedule.joining is not None, self.kernel.schedule
        return self.kernel.schedule.joining

    def step(self, grid: tuple[Dim, ...], warps: Warps | None = None) -> DeviceStep:
        """The launch of what has been written, by as many programs as `grid` says, each of the schedule's warps."""
        workers = warps or self.warps
        source, arguments = self.b.finish(workers.count, workers.stages)
        padded = (*grid, 1, 1)
        return DeviceStep(source, (padded[0], padded[1], padded[2]), arguments)

    def code(self, grid: tuple[Dim, ...], warps: Warps | None = None) -> KernelCode:
        """A kernel of one launch."""
        return KernelCode((self.step(grid, warps),), element_counts(self.kernel))

    def flat(
        self, count: Dim, write: Callable[[Evaluator, Int], None], block: int, warps: Warps | None = None
    ) -> KernelCode:
        """A kernel of one launch that calls `write` with the indices below `count`, `block` of them at a time."""
        return KernelCode((self.flat_step(count, write, block, warps),), element_counts(self.kernel))

    def flat_step(
        self, count: Dim, write: Callable[[Evaluator, Int], None], block: int, warps: Warps | None = None
    ) -> DeviceStep:
        """The launch that calls `write` with the indices below `count`, `block` of them at a time.

        The lanes of a last tile that is not full are masked; the tiles before it are not, where that pays.
        """
        b, workers = self.b, warps or self.warps
        if count == 1:
            write(self.evaluator(), 0)
            return self.step((1,), workers)
        start, lanes = b.mul(b.program(), block), b.lanes(0, block)
        offset, stop = b.add(start, lanes), self.size(count)
        every = {0: lanes}
        if isinstance(count, int) and count % block == 0:
            write(self.evaluator(every), offset)
        elif is_multiple(count, 16) or count == 0 or (isinstance(count, int) and count < block):
            write(self.evaluator(every, {0: b.compare(offset, "<", stop)}), offset)
        else:
            with b.block(f"if {start} + {block} <= {stop}"):
                write(self.evaluator(every), offset)
            with b.block("else"):
                write(self.evaluator(every, {0: b.compare(offset, "<", stop)}), offset)
        return self.step((floordiv(count + block - 1, block),), workers)

    def _reports(self) -> tuple[Expr, Expr]:
        b = self.b
        return b.pointer("status", "*i64", Argument("status")), b.integer("location", Argument("location"))


class _Inputs(Mapping[Value, Expr]):
    """The buffers of a block's parameters, each a parameter of the source once it is asked for."""

    def __init__(self, frame: KernelFrame) -> None:
        self._frame = frame

    def __getitem__(self, value: Value) -> Expr:
        if value not in self._frame.kernel.block.parameters:
            raise KeyError(value)
        return self._frame.input(value)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._frame.kernel.block.parameters)

    def __len__(self) -> int:
        return len(self._frame.kernel.block.parameters)


def open_kernel(kernel: Kernel, target: Target, rank: int = 1) -> KernelFrame:
    """The frame of a kernel whose tiles have `rank` dimensions."""
    counts = [value.tensor.elements for value in _values(kernel)]
    wide = any(isinstance(count, int) and count >= MOST_ELEMENTS_I32 for count in counts)
    return KernelFrame(kernel, target, SourceBuilder(rank, wide))


def element_counts(kernel: Kernel) -> tuple[Dim, ...]:
    """The numbers of elements that only a call decides: indices are 32 bits wide, so they must not be too large."""
    counts = [product(value.shape) for value in _values(kernel)]
    return tuple(dict.fromkeys(count for count in counts if not isinstance(count, int)))


def _values(kernel: Kernel) -> list[Value]:
    results = [result for op in kernel.block.ops for result in op.results]
    return [*kernel.block.parameters, *results]
