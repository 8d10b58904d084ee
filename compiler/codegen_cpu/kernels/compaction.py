"""Where elements are true, in order. A unit of work is a range of elements, of which 64 at a time are bits of a word.

Words without a bit are passed over. Of others each bit is taken, the lowest first, or, where there are many and vectors
can be put together, the positions of eight elements at once. What is true before its ranges a thread counts itself.
"""

from collections.abc import Callable, Sequence
from functools import reduce

from onnxc.compiler.codegen_cpu.evaluate import Index
from onnxc.compiler.codegen_cpu.kernel_function import KernelCode, KernelFrame, open_kernel
from onnxc.compiler.codegen_cpu.schedules.compactions import FEWEST_IN_VECTORS, WORD
from onnxc.compiler.codegen_host.llvm_masks import masked_store
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, register, vector_type
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import Kernel
from onnxc.compiler.planning.schedules import CompactionSchedule
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

POSITIONS = 8
"""The i64 of a vector of 512 bits."""

Step = Callable[[Reg, Int, Reg], Int]
"""From the bits of a word, its first element and how many were taken before to how many were taken by then."""


def emit(kernel: Kernel, name: str, target: Target) -> KernelCode:
    """The code of a search for what is true."""
    frame = open_kernel(kernel, name, target)
    (op,) = (op for op in kernel.block.ops if op.name == "true_positions")
    schedule = kernel.scheduled(CompactionSchedule)
    _Compaction(frame, op, schedule).emit()
    return KernelCode(name, (frame.f,), schedule.units, 1)


@record
class _Compaction:
    """One kernel, for some of its ranges."""

    frame: KernelFrame
    op: Op
    schedule: CompactionSchedule

    @property
    def count(self) -> Int:
        """How many positions there is room for."""
        return self.frame.size(self.op.dim("count"))

    def emit(self) -> None:
        """Writes the positions of the ranges; behind those of the last one, zeros."""
        frame, f = self.frame, self.frame.f
        size, units = (frame.size(dim) for dim in (self.op.operands[0].shape[0], self.schedule.units))
        words = f.udiv(f.add(size, WORD - 1), WORD)
        each = f.mul(f.udiv(f.add(words, f.sub(units, 1)), units), WORD)
        first, last = (f.smin(f.mul(bound, each), size) for bound in (frame.begin, frame.end))
        before = self._over(0, first, 0, lambda bits, _, taken: f.add(taken, self._set(bits)))
        taken = self._over(first, last, before, self._write_word)
        rest = f.select(f.icmp("eq", last, size), as_reg(self.count), taken)
        f.loop(taken, rest, 1, lambda position: self._store(as_reg(0), position))
        f.ret()

    def _over(self, start: Int, stop: Int, taken: Int, step: Step) -> Reg:
        """`step` over the words from `start` to `stop`, of which the last may have fewer elements."""
        f = self.frame.f
        whole = f.add(start, f.and_(f.sub(stop, start), -WORD))
        (taken,) = f.loop(start, whole, WORD, lambda column, taken: (step(self._word(column), column, taken),), [taken])

        def rest() -> Sequence[Int]:
            bits = self._short_word(whole, stop)
            return (step(bits, whole, taken),)

        return f.if_(f.icmp("slt", whole, stop), rest, lambda: (taken,))[0]

    def _word(self, column: Int) -> Reg:
        """The elements from `column` on as bits, the first as the lowest."""
        f, lanes = self.frame.f, self.frame.lanes
        parts = list[Int]()
        for start in range(0, WORD, lanes):
            index = (Index(f.add(column, start), 1),)
            hits = self.frame.evaluator().vector(self.op.operands[0], index)
            bits = f.convert("zext", f.convert("bitcast", hits, f"i{lanes}"), "i64")
            parts.append(f.shl(bits, start))
        return as_reg(reduce(f.or_, parts))

    def _short_word(self, column: Int, stop: Int) -> Reg:
        """As `_word`, of the elements before `stop`, of which there is one at least."""
        f = self.frame.f

        def element(position: Reg, bits: Reg) -> Sequence[Int]:
            hit = self.frame.evaluator(lanes=1).value(self.op.operands[0], (Index(position),))
            return (f.or_(bits, f.shl(f.convert("zext", hit, "i64"), f.sub(position, column))),)

        return f.loop(column, stop, 1, element, [0], at_least_once=True)[0]

    def _write_word(self, bits: Reg, column: Int, taken: Reg) -> Int:
        """Writes the positions of a word behind those that were taken before."""
        f = self.frame.f
        behind = f.add(taken, self._set(bits))
        stop = f.smin(behind, self.count)

        def one_by_one() -> None:
            def take(position: Reg, left: Reg) -> Sequence[Int]:
                self._store(f.add(column, f.intrinsic("llvm.cttz.*", "i64", left, f.constant("i1", 1))), position)
                return (f.and_(left, f.sub(left, 1)),)

            f.loop(taken, stop, 1, take, [bits])

        def together() -> None:
            are_many = f.icmp("sge", f.sub(behind, taken), FEWEST_IN_VECTORS)
            have_room = f.icmp("sle", behind, self.count)
            f.if_(as_reg(f.and_(are_many, have_room)), lambda: self._write_vectors(bits, column, taken), one_by_one)

        some = together if self.schedule.algorithm == "vectors" else one_by_one
        f.if_(f.icmp("ne", bits, 0), some)
        return stop

    def _write_vectors(self, bits: Reg, column: Int, taken: Reg) -> None:
        f, type = self.frame.f, vector_type("i64", POSITIONS)
        for start in range(0, WORD, POSITIONS):
            part = register(f.convert("trunc", f.lshr(bits, start), "i8"))
            chosen = register(f.convert("bitcast", part, vector_type("i1", POSITIONS)))
            positions = f.add(f.splat(as_reg(f.add(column, start)), POSITIONS), f.lane_ids(type))
            packed = f.intrinsic(
                "llvm.experimental.vector.compress.*", type, as_reg(positions), chosen, Reg("poison", type)
            )
            # What lies behind belongs to another range, or to nobody.
            count = f.convert("zext", f.intrinsic("llvm.ctpop.*", "i8", part), "i64")
            address = f.gep(self.frame.output, f.add(taken, self._set(f.and_(bits, (1 << start) - 1))), "i64")
            masked_store(f, packed, address, f.tail_mask(POSITIONS, count), 8)

    def _set(self, bits: Int) -> Int:
        """How many bits of a word are set."""
        return 0 if bits == 0 else self.frame.f.intrinsic("llvm.ctpop.*", "i64", as_reg(bits))

    def _store(self, value: Int, position: Int) -> None:
        f = self.frame.f
        f.store(as_reg(value), f.gep(self.frame.output, position, "i64"), 8)
