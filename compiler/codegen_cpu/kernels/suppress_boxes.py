"""The suppression of boxes. A unit of work is one class of one image.

Its candidates go into a heap, the best at the root; taken from there one by one, each is compared with those that stay,
a vector of them at a time, until as many stay as may. What is never taken is never sorted.
"""

from functools import cached_property

from onnxc.compiler.codegen_cpu.heaps import Heap
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_cpu.schedules.boxes import COLUMNS, BoxMemory, box_memory
from onnxc.compiler.codegen_cpu.sorting import Ordering
from onnxc.compiler.codegen_host.llvm_ir import as_reg
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

# About how many times each candidate is looked at.
_LOOKS = 16


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a suppression of boxes."""
    frame = open_kernel(kernel, name, target)
    (op,) = (op for op in kernel.block.ops if op.name == "suppress_boxes")
    corners, scores, *limits = (operand_in_memory(frame, operand) for operand in op.operands)
    first = [frame.f.load("float", _at(frame, limit, ()), 4) for limit in limits]
    # The root of a heap is what comes last: the highest score, and of equals the greatest stored index.
    heap = Heap(f"{name}_sift", ("i32", "i64"))
    boxes = _Boxes(frame, op, heap, corners, scores, first[0], first[1] if len(first) > 1 else None)
    if frame.scratch is not None:  # there is none for no units
        frame.f.loop(frame.begin, frame.end, 1, boxes.unit)
    frame.f.ret()
    shape = op.operands[1].shape
    return KernelCode(name, (frame.f, heap.function()), product(shape[:2]), frame.grain(shape[2] * _LOOKS))


def _at(frame: KernelFrame, operand: tuple[Reg, View], index: tuple[Int, ...]) -> Reg:
    """The address of an element of an operand."""
    f, (base, view) = frame.f, operand
    offset = frame.size(view.offset)
    for coordinate, stride in zip(index, view.strides, strict=True):
        offset = f.add(offset, f.mul(coordinate, frame.size(stride)))
    return f.gep(base, offset, "float")


@record
class _Unit:
    """One class of one image: where the heap of its candidates, in keys of scores and indices, and what stays are."""

    image: Int
    category: Int
    heap: tuple[Reg, Reg]
    columns: tuple[Reg, ...]
    result: Reg


@record
class _Boxes:
    """One kernel; boxes whose score is not above `lowest` are no candidates."""

    frame: KernelFrame
    op: Op
    heap: Heap
    corners: tuple[Reg, View]
    scores: tuple[Reg, View]
    overlap: Reg
    lowest: Reg | None

    @cached_property
    def memory(self) -> BoxMemory:
        return box_memory(self.op, self.frame.lanes)

    @cached_property
    def boxes(self) -> Int:
        return self.frame.size(self.op.operands[1].shape[2])

    @cached_property
    def count(self) -> Int:
        return self.frame.size(self.op.dim("count"))

    @cached_property
    def vector(self) -> str:
        return vector_type("float", self.frame.lanes)

    def unit(self, ordinal: Reg) -> None:
        """The indices of one class of one image."""
        f, frame, memory = self.frame.f, self.frame, self.memory
        image, category = frame.split(ordinal, self.op.operands[1].shape[:2])
        assert frame.scratch is not None
        start = f.gep(frame.scratch, f.mul(ordinal, frame.size(memory.total)))
        indices = f.gep(start, frame.size(memory.scores))
        first = f.gep(indices, frame.size(memory.indices))
        columns = tuple(f.gep(first, f.mul(frame.size(memory.column), k)) for k in range(COLUMNS))
        result = f.gep(frame.output, f.mul(ordinal, self.count), "i64")
        unit = _Unit(image, category, (start, indices), columns, result)
        candidates = self._candidates(unit)
        f.loop(0, f.lshr(candidates, 1), 1, lambda k: self._settle(unit, k, candidates))
        stay = self._choose(unit, candidates)
        f.loop(stay, self.count, 1, lambda k: f.store(-1, f.gep(result, k, "i64"), 8))

    def _candidates(self, unit: _Unit) -> Reg:
        """Puts the candidates side by side; how many they are. Indices count from the end, so that the first wins."""
        f = self.frame.f

        def look(box: Reg, taken: Reg) -> tuple[Int]:
            score = f.load("float", _at(self.frame, self.scores, (unit.image, unit.category, box)), 4)
            ordered = f.select(f.fcmp("uno", score, score), float("-inf"), score)
            key = Ordering(F32, descending=False).key(register(f.convert("bitcast", ordered, "i32")), f)
            self.heap.store(f, unit.heap, taken, (key, f.sub(f.sub(self.boxes, 1), box)))
            if self.lowest is None:
                return (f.add(taken, 1),)
            return (f.add(taken, f.convert("zext", f.fcmp("olt", self.lowest, score), "i64")),)

        return f.loop(0, self.boxes, 1, look, carried=(0,))[0]

    def _settle(self, unit: _Unit, ordinal: Reg, candidates: Reg) -> None:
        f = self.frame.f
        hole = f.sub(f.sub(f.lshr(candidates, 1), 1), ordinal)
        self._sift(unit, hole, candidates, hole)

    def _sift(self, unit: _Unit, hole: Int, size: Int, moved: Int) -> None:
        """The candidate at `moved` finds its place in the heap below an empty hole."""
        f = self.frame.f
        self.heap.sift(f, unit.heap, 1, hole, size, self.heap.load(f, unit.heap, moved))

    def _choose(self, unit: _Unit, candidates: Reg) -> Reg:
        """Takes the best candidate again and again; how many stay."""
        f = self.frame.f

        def goes_on(left: Reg, stay: Reg) -> Reg:
            return as_reg(f.and_(f.icmp("sgt", left, 0), f.icmp("slt", stay, self.count)))

        def take(left: Reg, stay: Reg) -> tuple[Int, Int]:
            box = as_reg(f.sub(f.sub(self.boxes, 1), f.load("i64", unit.heap[1], 8)))
            last = f.sub(left, 1)
            self._sift(unit, 0, last, last)
            sides = [f.load("float", _at(self.frame, self.corners, (unit.image, box, k)), 4) for k in range(4)]
            values = [*sides, f.fmul(f.fsub(sides[2], sides[0]), f.fsub(sides[3], sides[1]))]

            def keep() -> tuple[Int]:
                for column, value in zip(unit.columns, values, strict=True):
                    f.store(value, f.gep(column, stay, "float"), 4)
                f.store(box, f.gep(unit.result, stay, "i64"), 8)
                return (f.add(stay, 1),)

            (stay_after,) = f.if_(self._is_suppressed(unit, values, stay), lambda: (stay,), keep)
            return last, stay_after

        return f.while_((candidates, 0), goes_on, take)[1]

    def _is_suppressed(self, unit: _Unit, values: list[Reg], stay: Reg) -> Reg:
        """Whether one that stays overlaps a box too much."""
        f, lanes = self.frame.f, self.frame.lanes
        wide = [f.splat(value, lanes) for value in values]

        def goes_on(start: Reg, suppressed: Reg) -> Reg:
            return as_reg(f.and_(f.icmp("slt", start, stay), f.xor(suppressed, 1)))

        def compare(start: Reg, _: Reg) -> tuple[Int, Int]:
            others = [f.load(self.vector, f.gep(column, start, "float"), 4) for column in unit.columns]
            hits = f.fcmp("olt", f.splat(self.overlap, lanes), self._overlaps(wide, others))
            hits = as_reg(f.and_(hits, f.tail_mask(lanes, f.sub(stay, start))))
            return f.add(start, lanes), f.reduce_lanes("or", hits)

        return f.while_((0, f.constant("i1", 0)), goes_on, compare)[1]

    def _overlaps(self, box: list[Reg], others: list[Reg]) -> Reg:
        """The intersections over the unions, of boxes that are (low, low, high, high, area); 0 of empty ones."""
        f = self.frame.f
        zero = f.constant(self.vector, 0.0)
        sides = []
        for axis in (0, 1):
            high = f.intrinsic("llvm.minimum.*", self.vector, box[2 + axis], others[2 + axis])
            low = f.intrinsic("llvm.maximum.*", self.vector, box[axis], others[axis])
            sides.append(f.intrinsic("llvm.maximum.*", self.vector, f.fsub(high, low), zero))
        common = f.fmul(sides[0], sides[1])
        union = f.fsub(f.fadd(box[4], others[4]), common)
        proper = f.fcmp("ogt", box[4], zero)
        for each in (others[4], union):
            proper = as_reg(f.and_(proper, f.fcmp("ogt", each, zero)))
        return f.select(proper, f.fdiv(common, union), zero)
