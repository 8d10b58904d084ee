"""The suppression of boxes. A unit of work is one class of one image.

Vectors of scores that have candidates are put side by side, and the best is taken again and again. Each is compared
with those that stay, a vector of them at a time, until as many stay as may. What is never taken is never sorted.
"""

from collections.abc import Sequence
from functools import cached_property

from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.operands import operand_in_memory
from onnxc.compiler.codegen_cpu.ranked_blocks import NO_KEY, Greatest, ranked_blocks
from onnxc.compiler.codegen_cpu.schedules.boxes import COLUMNS, BoxMemory, box_memory
from onnxc.compiler.codegen_cpu.sorting import Ordering
from onnxc.compiler.codegen_host.llvm_masks import masked_load, whole_store
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, register, vector_type
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
    boxes = _Boxes(frame, op, corners, scores, first[0], first[1] if len(first) > 1 else None)
    if frame.scratch is not None:  # there is none for no units
        frame.f.loop(frame.begin, frame.end, 1, boxes.unit)
    frame.f.ret()
    shape = op.operands[1].shape
    return KernelCode(name, (frame.f,), product(shape[:2]), frame.grain(shape[2] * _LOOKS))


def _at(frame: KernelFrame, operand: tuple[Reg, View], index: tuple[Int, ...]) -> Reg:
    """The address of an element of an operand."""
    f, (base, view) = frame.f, operand
    offset = frame.size(view.offset)
    for coordinate, stride in zip(index, view.strides, strict=True):
        offset = f.add(offset, f.mul(coordinate, frame.size(stride)))
    return f.gep(base, offset, "float")


@record
class _Unit:
    """One class of one image: memory for ranked keys, the ordinals of vectors, what stays, and the result."""

    image: Int
    category: Int
    keys: Reg
    tops: Reg
    positions: Reg
    ordinals: Reg
    columns: tuple[Reg, ...]
    result: Reg


@record
class _Boxes:
    """One kernel; boxes whose score is not above `lowest` are no candidates."""

    frame: KernelFrame
    op: Op
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
        keys = f.gep(frame.scratch, f.mul(ordinal, frame.size(memory.total)))
        tops = f.gep(keys, frame.size(memory.keys))
        positions = f.gep(tops, frame.size(memory.tops))
        ordinals = f.gep(positions, frame.size(memory.tops))
        first = f.gep(ordinals, frame.size(memory.ordinals))
        columns = tuple(f.gep(first, f.mul(frame.size(memory.column), k)) for k in range(COLUMNS))
        result = f.gep(frame.output, f.mul(ordinal, self.count), "i64")
        unit = _Unit(image, category, keys, tops, positions, ordinals, columns, result)
        stay = self._choose(unit, self._candidates(unit))
        f.loop(stay, self.count, 1, lambda k: f.store(-1, f.gep(result, k, "i64"), 8))

    def _candidates(self, unit: _Unit) -> Reg:
        """Puts the vectors that have candidates side by side, as keys and their ordinals; how many they are."""
        f, lanes = self.frame.f, self.frame.lanes
        order, keys_type = Ordering(F32, descending=False), vector_type("i32", lanes)
        lowest = None if self.lowest is None else f.splat(self.lowest, lanes)

        def look(start: Reg, taken: Reg) -> tuple[Int]:
            exists = f.tail_mask(lanes, f.sub(self.boxes, start))
            scores = self._scores(unit, start, exists)
            wanted = exists if lowest is None else as_reg(f.and_(exists, f.fcmp("olt", lowest, scores)))
            ranked = f.select(f.fcmp("uno", scores, scores), f.constant(self.vector, float("-inf")), scores)
            key = f.xor(order.key(register(f.convert("bitcast", ranked, keys_type)), f), 1 << 31)
            f.store(
                f.select(wanted, key, f.constant(keys_type, NO_KEY)), f.gep(unit.keys, f.mul(taken, lanes), "i32"), 4
            )
            f.store(f.udiv(start, lanes), f.gep(unit.ordinals, taken, "i64"), 8)
            return (f.add(taken, f.convert("zext", f.reduce_lanes("or", wanted), "i64")),)

        return f.loop(0, self.boxes, lanes, look, carried=(0,))[0]

    def _scores(self, unit: _Unit, start: Reg, exists: Reg) -> Reg:
        """The scores of as many boxes as there are lanes; 0 where there is no box."""
        f, lanes = self.frame.f, self.frame.lanes
        address = _at(self.frame, self.scores, (unit.image, unit.category, start))
        stride = self.scores[1].strides[2]
        zeros = f.constant(self.vector, 0.0)
        if stride == 1:
            return masked_load(f, self.vector, address, exists, 4, zeros)
        steps = f.splat(as_reg(self.frame.size(stride)), lanes)
        offsets = as_reg(f.mul(f.lane_ids(vector_type("i64", lanes)), steps))
        return f.gather(self.vector, address, offsets, exists, 4, zeros)

    def _choose(self, unit: _Unit, vectors: Reg) -> Reg:
        """Takes the best candidate again and again; how many stay."""
        f, lanes = self.frame.f, self.frame.lanes
        blocks = ranked_blocks(f, lanes, unit.keys, unit.tops, unit.positions, vectors)
        start = blocks.prepare()

        def goes_on(key: Reg, _: Reg, stay: Reg) -> Reg:
            return as_reg(f.and_(f.icmp("ne", key, NO_KEY), f.icmp("slt", stay, self.count)))

        def take(key: Reg, block: Reg, stay: Reg) -> tuple[Int, ...]:
            vector, lane, following = blocks.take(Greatest(key, block))
            box = as_reg(f.add(f.mul(f.load("i64", f.gep(unit.ordinals, vector, "i64"), 8), lanes), lane))
            values = self._columns(unit, box)
            suppressed = self._is_suppressed(unit, values, stay)
            # What does not stay is written as well, and overwritten: half of the branches could not be foreseen.
            self._add(unit, values, stay)
            f.store(box, f.gep(unit.result, stay, "i64"), 8)
            return following.key, following.block, f.add(stay, f.convert("zext", f.xor(suppressed, 1), "i64"))

        return f.while_((start.key, start.block, 0), goes_on, take)[2]

    def _columns(self, unit: _Unit, box: Reg) -> list[Reg]:
        """What is kept of a box: (low, low, high, high, area)."""
        f = self.frame.f
        sides = [f.load("float", _at(self.frame, self.corners, (unit.image, box, k)), 4) for k in range(4)]
        pairs = list(zip(sides[:2], sides[2:], strict=True))
        height, width = (f.intrinsic("llvm.fabs.*", "float", f.fsub(b, a)) for a, b in pairs)
        low, high = [self._lesser(a, b) for a, b in pairs], [self._greater(a, b) for a, b in pairs]
        return [*low, *high, f.fmul(height, width)]

    # Where a corner is NaN, the area is, and a box without an area overlaps none: which of two these give is no matter.

    def _lesser(self, a: Reg, b: Reg) -> Reg:
        return self.frame.f.select(self.frame.f.fcmp("olt", a, b), a, b)

    def _greater(self, a: Reg, b: Reg) -> Reg:
        return self.frame.f.select(self.frame.f.fcmp("ogt", a, b), a, b)

    def _add(self, unit: _Unit, values: Sequence[Reg], stay: Reg) -> None:
        """Puts one more behind those that stay, with whole vectors.

        The columns are read next, and a load of more than was just stored would wait until that is in the cache.
        """
        f, lanes = self.frame.f, self.frame.lanes
        ids = f.lane_ids(vector_type("i32", lanes))
        lane = register(f.convert("trunc", f.and_(stay, lanes - 1), "i32"))
        here, first = f.icmp("eq", ids, f.splat(lane, lanes)), f.and_(stay, -lanes)
        for column, value in zip(unit.columns, values, strict=True):
            address = f.gep(column, first, "float")
            whole_store(f, f.select(here, f.splat(value, lanes), f.load(self.vector, address, 4)), address, 4)

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
            high, low = self._lesser(box[2 + axis], others[2 + axis]), self._greater(box[axis], others[axis])
            sides.append(self._greater(f.fsub(high, low), zero))
        common = f.fmul(sides[0], sides[1])
        union = f.fsub(f.fadd(box[4], others[4]), common)
        proper = f.fcmp("ogt", box[4], zero)
        for each in (others[4], union):
            proper = as_reg(f.and_(proper, f.fcmp("ogt", each, zero)))
        return f.select(proper, f.fdiv(common, union), zero)
