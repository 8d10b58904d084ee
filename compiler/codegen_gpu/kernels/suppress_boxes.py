"""The suppression of boxes: a program for each class of each image.

In each round it goes through all boxes once: those that overlap the box kept last are marked as out, and of the others
the one with the highest score is kept next. There are as many rounds as boxes that stay, and nothing is sorted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.source.evaluate import Evaluator
from onnxc.compiler.codegen_gpu.source.kernel_frame import KernelFrame, open_kernel
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.codegen_gpu.source.scalars import literal, table_of
from onnxc.compiler.codegen_gpu.source.source_builder import Expr, Int, dims_of, unravel
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import SuppressionSchedule
from onnxc.compiler.target import Target

_LANE = 0
_NONE = (1 << 31) - 1
"""The index of no box."""


def emit(kernel: Kernel, target: Target) -> KernelCode:
    """The code of a suppression of boxes."""
    frame = open_kernel(kernel, target)
    (op,) = (op for op in kernel.block.ops if op.name == "suppress_boxes")
    units = op.operands[1].shape[:2]
    image, category = unravel(frame.b, frame.b.program(), [frame.size(size) for size in units])
    _Unit(frame, op, kernel.scheduled(SuppressionSchedule).block, image, category).emit()
    return frame.code((product(units),))


@dataclass
class _Unit:
    """One class of one image, its boxes gone through `block` at a time."""

    frame: KernelFrame
    op: Op
    block: int
    image: Int
    category: Int

    def __post_init__(self) -> None:
        self.b = self.frame.b
        self.corners, self.scores, overlap, *lowest = self.op.operands
        scalars = self.frame.evaluator()
        self.overlap = scalars.value(overlap, ())
        self.lowest = scalars.value(lowest[0], ()) if lowest else None
        self.boxes = self.frame.size(self.scores.shape[2])
        self.alive = self.frame.scratch("alive", BOOL)
        self.first = self.b.mul(self.b.program(), self.boxes)

    def emit(self) -> None:
        """Marks the candidates, fills the result with -1, then keeps one box after another."""
        b, count = self.b, self.frame.size(self.op.dim("count"))
        self._start(count)
        kept, last = (b.variable(f"tl.full([], {value}, tl.int32)") for value in (0, -1))
        going = b.variable(f"tl.full([], 0, tl.int32) < {self.boxes}")
        with b.block(f"while ({kept} < {count}) & {going}"):
            # What threads have written is read by others.
            b.line("tl.debug_barrier()")
            best = b.variable(f"{literal(b, float('-inf'), F32)}")
            chosen = b.variable(f"tl.full([], {_NONE}, tl.int32)")
            self._round(last, best, chosen)
            b.assign(going, f"{chosen} < {_NONE}")
            with b.block(f"if {going}"):
                offset = self._offset(kept)
                b.line(f"tl.store({self.frame.output()} + {offset}, {chosen}.to(tl.int64))")
            b.assign(last, f"{chosen}")
            b.assign(kept, f"{kept} + 1")

    def _offset(self, kept: Int) -> Int:
        """Where the index of the box goes that is kept after so many."""
        shape = self.op.results[0].shape
        return self.frame.evaluator().strided((self.image, self.category, kept), row_major(shape))

    def _start(self, count: Int) -> None:
        """All boxes whose score is above the lowest are candidates, and none is kept."""
        b = self.b
        with b.loop(0, self.boxes, self.block, prefix="first") as first:
            e, box = self._lanes(first, self.boxes)
            alive = e.truth(True)
            if self.lowest is not None:
                alive = table_of(F32)["less"](b, F32, self.lowest, e.value(self.scores, self._at(box)))
            e.store(e.everywhere(alive), BOOL, self.alive, b.add(self.first, box))
        with b.loop(0, count, self.block, prefix="first") as first:
            e, position = self._lanes(first, count)
            e.store(literal(b, -1, I64), I64, self.frame.output(), self._offset(position))

    def _lanes(self, first: Int, stop: Int) -> tuple[Evaluator, Int]:
        """An evaluator of the next `block` places below `stop`, and these."""
        b = self.b
        lanes = b.lanes(_LANE, self.block)
        position = b.add(first, lanes)
        return self.frame.evaluator({_LANE: lanes}, {_LANE: b.compare(position, "<", stop)}), position

    def _at(self, box: Int) -> Sequence[Int]:
        return self.image, self.category, box

    def _round(self, last: Expr, best: Expr, chosen: Expr) -> None:
        """Leaves in `chosen` the best box that does not lose against the `last` one, the first of equals."""
        b = self.b
        known = b.let(f"tl.maximum({last}, 0)")
        keeper = self._sides(self.frame.evaluator(), known)
        with b.loop(0, self.boxes, self.block, prefix="first") as first:
            e, box = self._lanes(first, self.boxes)
            common = self._overlap(keeper, self._sides(e, box))
            loses = b.let(f"(({self.overlap} < {common}) | ({box} == {last})) & ({last} >= 0)", dims_of(common))
            before = e.load(BOOL, self.alive, b.add(self.first, box))
            alive = b.let(f"{before} & ({loses} == 0)", before.dims)
            e.store(alive, BOOL, self.alive, b.add(self.first, box))
            score = e.value(self.scores, self._at(box))
            lowest = literal(b, float("-inf"), F32)
            ranked = b.let(f"tl.where({alive} & ({score} == {score}), {score}, {lowest})", score.dims)
            top = b.let(f"tl.max({ranked}, {_LANE})")
            candidate = b.let(f"tl.min(tl.where({alive} & ({ranked} == {top}), {box}, {_NONE}), {_LANE})")
            # A box of score -inf is better than none.
            better = b.let(f"({candidate} < {_NONE}) & (({chosen} == {_NONE}) | ({top} > {best}))")
            b.assign(chosen, f"tl.where({better}, {candidate}, {chosen})")
            b.assign(best, f"tl.where({better}, {top}, {best})")

    def _sides(self, e: Evaluator, box: Int) -> Sequence[Expr]:
        """(low, low, high, high) of each box."""
        corners = [e.value(self.corners, (self.image, box, side)) for side in range(4)]
        return [table_of(F32)[kind](self.b, F32, corners[k], corners[2 + k]) for kind in ("min", "max") for k in (0, 1)]

    def _overlap(self, one: Sequence[Expr], other: Sequence[Expr]) -> Expr:
        """The intersection of two boxes over their union; 0 where one of them is empty."""
        b, ops = self.b, table_of(F32)
        zero = literal(b, 0, F32)
        lengths = []
        for low, high in ((0, 2), (1, 3)):
            end = ops["min"](b, F32, one[high], other[high])
            length = ops["sub"](b, F32, end, ops["max"](b, F32, one[low], other[low]))
            lengths.append(ops["max"](b, F32, length, zero))
        common = ops["mul"](b, F32, *lengths)
        areas = [self._area(box) for box in (one, other)]
        union = ops["sub"](b, F32, ops["add"](b, F32, *areas), common)
        share = ops["div"](b, F32, common, union)
        return b.let(f"tl.where(({areas[0]} > 0) & ({areas[1]} > 0) & ({union} > 0), {share}, 0.0)", share.dims)

    def _area(self, box: Sequence[Expr]) -> Expr:
        b, ops = self.b, table_of(F32)
        return ops["mul"](b, F32, *(ops["sub"](b, F32, box[side + 2], box[side]) for side in (0, 1)))
