"""A key that the best k elements of a line do not exceed, from how many keys fall into each of many ranges."""

from collections.abc import Sequence

from onnxc.compiler.codegen_cpu.sorting import Ordering
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, register, vector_type

RANGE_BITS = 10
RANGES = 1 << RANGE_BITS

TABLES = 4
"""Neighbours are counted in tables of their own: to count one key after an equal one waits for it, about 6 cycles."""


def limit_function(name: str, order: Ordering, lanes: int) -> FunctionBuilder:
    """key(source, length, count): no more than a few of the dense elements above are not among the best `count`.

    For lines of at least `count` elements, and of at least as many as there are lanes.
    """
    parameters = [("ptr", "source"), ("i64", "length"), ("i64", "count")]
    f = FunctionBuilder(name, parameters, returns=order.element, hidden=True)
    _Limit(f, order, lanes).write()
    return f


class _Limit:
    """The function while it is written: the keys from the least to the greatest are cut into RANGES of one width."""

    def __init__(self, f: FunctionBuilder, order: Ordering, lanes: int) -> None:
        self.f, self.order, self.lanes = f, order, lanes
        self.source, self.length, self.count = f.parameters
        self.tables = f.alloca("i32", RANGES * TABLES)

    def write(self) -> None:
        """The extremes of all keys, how many are in each range, and the end of the range of the last of the best."""
        f, element = self.f, self.order.element
        least, greatest = self._extremes()
        width = register(f.convert("zext", f.sub(greatest, least), "i64"))
        leading = f.intrinsic("llvm.ctlz.*", "i64", width, f.constant("i1", 0))
        shift = f.smax(f.sub(64 - RANGE_BITS, leading), 0)
        zeros = f.constant(vector_type("i32", self.lanes), 0)
        f.loop(0, RANGES * TABLES, self.lanes, lambda slot: f.store(zeros, f.gep(self.tables, slot, "i32")))
        whole = f.and_(self.length, -self.lanes)
        f.loop(0, whole, self.lanes, lambda start: self._count(start, self.lanes, least, shift))
        f.loop(whole, self.length, 1, lambda start: self._count(start, 1, least, shift))
        last = self._range_of_last()
        end = f.sub(f.shl(f.add(last, 1), shift), 1)
        limit = register(f.convert("trunc", f.umin(end, width), element))
        f.ret(f.add(limit, least))

    def _extremes(self) -> tuple[Reg, Reg]:
        """The least and the greatest key; the last vector of the line may begin before the one before it ends."""
        f, lanes, element = self.f, self.lanes, self.order.element
        type = vector_type(element, lanes)

        def vector(start: Int, *extremes: Reg) -> Sequence[Int]:
            at = f.smin(start, f.sub(self.length, lanes))
            keys = self.order.key(f.load(type, f.gep(self.source, at, element)), f)
            return f.umin(extremes[0], keys), f.umax(extremes[1], keys)

        initial = f.constant(type, -1), f.constant(type, 0)
        least, greatest = f.loop(0, self.length, lanes, vector, initial)
        return f.reduce_lanes("umin", least), f.reduce_lanes("umax", greatest)

    def _count(self, start: Int, lanes: int, least: Reg, shift: Int) -> None:
        """Counts the ranges of so many neighbours, which are found together."""
        f, element = self.f, self.order.element
        keys = self.order.key(f.load(vector_type(element, lanes), f.gep(self.source, start, element)), f)
        above = f.sub(keys, f.splat(least, lanes))
        bits = f.splat(register(f.convert("trunc", shift, element)), lanes)
        ordinals = as_reg(f.lshr(above, bits))
        for lane in range(lanes):
            ordinal = ordinals if lanes == 1 else f.extract(ordinals, lane)
            ordinal = f.add(register(f.convert("zext", ordinal, "i64")), lane % TABLES * RANGES)
            slot = f.gep(self.tables, ordinal, "i32")
            f.store(f.add(f.load("i32", slot), 1), slot)

    def _range_of_last(self) -> Int:
        """The range in which the last of the best is."""
        f = self.f

        def next_range(ordinal: Reg, total: Reg) -> Sequence[Int]:
            slots = [f.gep(self.tables, f.add(ordinal, table * RANGES), "i32") for table in range(TABLES)]
            for slot in slots:
                total = f.add(total, register(f.convert("zext", f.load("i32", slot), "i64")))
            return f.add(ordinal, 1), total

        after, _ = f.while_((0, 0), lambda _, total: f.icmp("slt", total, self.count), next_range)
        return f.sub(as_reg(after), 1)
