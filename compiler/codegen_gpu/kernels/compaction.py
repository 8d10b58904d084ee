"""Where elements are true, in order: each program goes through a range of them, block by block.

Where programs share the elements, a first launch counts what is true in each range, and in a second one each program
writes from behind what the ranges before its own have. Nothing is written twice, and no program waits for another.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.schedules.compactions import compaction_of, count_type
from onnxc.compiler.codegen_gpu.source.element_types import register_type
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, element_counts, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int
from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import CompactionSchedule
from onnxc.compiler.target import Target

_LANES = frozenset((0,))


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a search for what is true."""
    schedule = kernel.scheduled(CompactionSchedule)
    assert isinstance(schedule.units, int), schedule
    counted, written = (_Ranges(open_kernel(kernel, target), schedule.units, schedule.block) for _ in range(2))
    steps = (written.write(),) if schedule.units == 1 else (counted.count(), written.write())
    return KernelCode(steps, element_counts(kernel))


@dataclass
class _Ranges:
    """One launch: a program goes through one of `ranges`, `block` elements at a time."""

    frame: KernelFrame
    ranges: int
    block: int

    def __post_init__(self) -> None:
        self.op = compaction_of(self.frame.kernel.block)
        self.length = self.op.operands[0].shape[0]
        self.dtype: DType = count_type(self.frame.kernel.block)
        self.type = register_type(self.dtype)
        self.range: Int = 0 if self.ranges == 1 else self.frame.b.program()
        # Without room for a position there is nothing to do.
        self.programs: Dim = self.ranges * minimum(self.op.dim("count"), 1)

    def count(self) -> DeviceStep:
        """The launch that counts what is true in each range."""
        frame, b = self.frame, self.frame.b
        taken = b.variable(f"tl.full([], 0, {self.type})")
        for _, hits in self._blocks():
            b.assign(taken, f"{taken} + tl.sum({hits}, 0)")
        frame.evaluator().store(taken, self.dtype, self._counts(), self.range)
        return frame.step((self.programs,))

    def write(self) -> DeviceStep:
        """The launch that writes the positions, and zeros behind the last one."""
        frame, b = self.frame, self.frame.b
        room = frame.size(self.op.dim("count"))
        taken, total = self._counted()
        for position, hits in self._blocks():
            target = b.let(f"{taken} + tl.cumsum({hits}, 0) - {hits}", _LANES)
            wanted = b.let(f"({hits} != 0) & ({target} < {room})", _LANES)
            e = frame.evaluator({0: b.lanes(0, self.block)})
            e.store(b.let(f"{position} + 0", _LANES), frame.root.dtype, frame.output(), target, wanted)
            b.assign(taken, f"{taken} + tl.sum({hits}, 0)")
        lanes = b.lanes(0, self.block)
        begin = b.add(taken if total is None else total, b.mul(self.range, self.block))
        with b.loop(begin, room, self.ranges * self.block, prefix="behind") as behind:
            position = b.add(behind, lanes)
            e = frame.evaluator({0: lanes}, {0: b.compare(position, "<", room)})
            e.store(b.let("tl.full([], 0, tl.int64)"), frame.root.dtype, frame.output(), position)
        return frame.step((self.programs,))

    def _blocks(self) -> Iterator[tuple[Int, Expr]]:
        """The positions of each block of the range, and 1 for each that is true; the last one may not be whole."""
        b, (first, stop) = self.frame.b, self._bounds()
        whole = b.add(first, b.mul(b.div(b.sub(stop, first), self.block), self.block))
        with b.loop(first, whole, self.block, prefix="first") as start:
            yield self._hits(start, is_whole=True)
        with b.loop(whole, stop, self.block, prefix="first") as start:
            yield self._hits(start, is_whole=False)

    def _bounds(self) -> tuple[Int, Int]:
        """The elements of the program's range; the second is not below the first, where there are none."""
        frame, b, stop = self.frame, self.frame.b, self.frame.size(self.length)
        if self.ranges == 1:
            return 0, stop
        whole = self.ranges * self.block
        each = frame.size(floordiv(self.length + whole - 1, whole) * self.block)
        first = b.mul(self.range, each)
        return first, b.let(f"tl.maximum({first}, {b.minimum(b.add(first, each), stop)})")

    def _hits(self, first: Expr, *, is_whole: bool) -> tuple[Int, Expr]:
        frame, b = self.frame, self.frame.b
        lanes = b.lanes(0, self.block)
        position = b.add(first, lanes)
        inside = None if is_whole else b.compare(position, "<", frame.size(self.length))
        e = frame.evaluator({0: lanes}, {} if inside is None else {0: inside})
        x = e.everywhere(e.value(self.op.operands[0], (position,)))
        wanted = b.both(x, inside)
        return position, b.let(f"{wanted}.to({self.type})", _LANES)

    def _counted(self) -> tuple[Expr, Expr | None]:
        """A variable for what is true before the range, and what is in all ranges; None where there is but one."""
        b = self.frame.b
        if self.ranges == 1:
            return b.variable(f"tl.full([], 0, {self.type})"), None
        ranges = b.lanes(0, self.ranges)
        counts = self.frame.evaluator({0: ranges}).load(self.dtype, self._counts(), ranges)
        before = b.variable(f"tl.sum(tl.where({ranges} < {self.range}, {counts}, 0), 0)")
        return before, b.let(f"tl.sum({counts}, 0)")

    def _counts(self) -> Expr:
        return self.frame.scratch("counts", self.dtype)
