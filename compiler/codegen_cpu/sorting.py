"""Sorting lines of elements with their indices: order-preserving keys, and radix sort.

The least key comes first. Equal keys are ordered by their indices, so that every order is the stable one.
"""

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, DType
from onnxc.runtime.records import record

# An estimate: the counters of eight digits of 8 bits take 16 KiB and stay in the L1 cache, those of 11 bits would not.
DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS

# How many bits of a float are its mantissa.
_MANTISSA = {F64: 52, F32: 23, F16: 10, BF16: 7}


@record
class Ordering:
    """How elements of `dtype` are ordered: NaN after every number, -0.0 equal to 0.0, or all of it backwards."""

    dtype: DType
    descending: bool

    @property
    def key_bits(self) -> int:
        return self.dtype.itemsize * 8

    @property
    def element(self) -> str:
        """The type that elements are moved in: as integers, whatever they are."""
        return f"i{self.key_bits}"

    def key(self, x: Reg, f: FunctionBuilder) -> Reg:
        """Unsigned integers in whose order the elements `x` are, given by their bits."""
        key = x
        if self.dtype.is_float:
            key = self._float_key(x, f)
        elif self.dtype.is_signed:
            key = f.xor(x, 1 << (self.key_bits - 1))
        return f.xor(key, -1) if self.descending else key

    def _float_key(self, x: Reg, f: FunctionBuilder) -> Reg:
        """The sign bit flipped, or where it is set all bits."""
        sign = 1 << (self.key_bits - 1)
        infinity = sign - (1 << _MANTISSA[self.dtype])
        magnitude = f.and_(x, f.constant(x.type, sign - 1))
        x = f.select(f.icmp("eq", magnitude, 0), f.constant(x.type, 0), x)
        x = f.select(f.icmp("ugt", magnitude, infinity), f.constant(x.type, sign - 1), x)
        return f.xor(x, f.or_(f.ashr(x, self.key_bits - 1), sign))


def radix_function(name: str, order: Ordering, *, is_chosen: bool = False) -> FunctionBuilder:
    """void(source, stride, values, places, count): sorts a line of the source into two dense results.

    One digit after another, from the last to the first, which keeps what is equal in its order; until the end `places`
    holds two arrays of 32-bit indices. For a `count` from 1 to 2^32 - 1. is_chosen: some elements of the line are
    sorted alone, whose indices the first of these arrays has.
    """
    parameters = [("ptr", "source"), ("i64", "stride"), ("ptr", "values"), ("ptr", "places"), ("i64", "count")]
    return _Radix(FunctionBuilder(name, parameters, hidden=True), order, is_chosen=is_chosen).write()


class _Radix:
    """The function while it is written: `counts` has for each digit how many keys have each of its values."""

    def __init__(self, f: FunctionBuilder, order: Ordering, *, is_chosen: bool) -> None:
        self.f, self.order, self.element, self.is_chosen = f, order, order.element, is_chosen
        self.source, self.stride, self.values, self.indices, self.count = f.parameters
        self.digits = order.key_bits // DIGIT_BITS
        self.counts = f.alloca("i64", self.digits * DIGITS)

    def write(self) -> FunctionBuilder:
        """Counts all digits in one pass, then moves indices by one digit after another."""
        f, count, indices = self.f, self.count, self.indices
        f.loop(0, self.digits * DIGITS, 1, lambda slot_ordinal: f.store(0, f.gep(self.counts, slot_ordinal, "i64")))
        f.loop(0, count, 1, self._count_digits)
        behind = f.gep(indices, count, "i32")
        read, _ = f.loop(0, self.digits, 1, self._pass_over, (indices, behind))
        # Widened where they are: from the end where the indices are in the first half, from the start where in the
        # second.
        f.if_(
            f.icmp("eq", read, indices),
            lambda: f.loop(0, count, 1, lambda ordinal: self._finish(f.sub(f.sub(count, 1), ordinal), read)),
            lambda: f.loop(0, count, 1, lambda ordinal: self._finish(ordinal, read)),
        )
        f.ret()
        return f

    def _value(self, element_index: Reg) -> Reg:
        f = self.f
        return f.load(self.element, f.gep(self.source, f.mul(element_index, self.stride), self.element))

    def _digit(self, x: Reg, shift: Int) -> Reg:
        """The digit of a key that begins at bit `shift`, as an i64."""
        f = self.f
        wide = register(f.convert("zext", self.order.key(x, f), "i64"))
        return f.and_(f.lshr(wide, shift), f.constant("i64", DIGITS - 1))

    def _index_at(self, pointer: Reg, slot_ordinal: Int) -> Reg:
        f = self.f
        return register(f.convert("zext", f.load("i32", f.gep(pointer, slot_ordinal, "i32")), "i64"))

    def _store_index(self, pointer: Reg, slot_ordinal: Int, element_index: Reg) -> None:
        f = self.f
        f.store(register(f.convert("trunc", element_index, "i32")), f.gep(pointer, slot_ordinal, "i32"))

    def _count_digits(self, slot_ordinal: Reg) -> None:
        f = self.f
        if not self.is_chosen:
            self._store_index(self.indices, slot_ordinal, slot_ordinal)
        x = self._value(self._index_at(self.indices, slot_ordinal) if self.is_chosen else slot_ordinal)
        for digit_index in range(self.digits):
            counter = f.add(self._digit(x, digit_index * DIGIT_BITS), digit_index * DIGITS)
            slot = f.gep(self.counts, counter, "i64")
            f.store(f.add(f.load("i64", slot), 1), slot)

    def _pass_over(self, digit_ordinal: Reg, read: Reg, write: Reg) -> tuple[Reg, Reg]:
        """Moves all indices by one digit; where they are afterwards, and where there is room."""
        f = self.f
        shift = f.mul(digit_ordinal, f.constant("i64", DIGIT_BITS))
        own = f.gep(self.counts, f.mul(digit_ordinal, f.constant("i64", DIGITS)), "i64")
        first = f.load("i64", f.gep(own, self._digit(self._value(self._index_at(read, 0)), shift), "i64"))

        def distribute() -> tuple[Reg, Reg]:
            self._distribute(own, shift, read, write)
            return write, read

        # Nothing moves where all keys have one digit in common.
        read, write = f.if_(f.icmp("eq", first, self.count), lambda: (read, write), distribute)
        return read, write

    def _distribute(self, own: Reg, shift: Int, read: Reg, write: Reg) -> None:
        """Counts become where each digit begins, and each index goes there in turn."""
        f = self.f

        def start(digit_value: Reg, total: Reg) -> tuple[Reg]:
            slot = f.gep(own, digit_value, "i64")
            here = f.load("i64", slot)
            f.store(total, slot)
            return (f.add(total, here),)

        def move(slot_ordinal: Reg) -> None:
            element_index = self._index_at(read, slot_ordinal)
            slot = f.gep(own, self._digit(self._value(element_index), shift), "i64")
            target = f.load("i64", slot)
            f.store(f.add(target, 1), slot)
            self._store_index(write, target, element_index)

        f.loop(0, DIGITS, 1, start, (0,))
        f.loop(0, self.count, 1, move)

    def _finish(self, slot_ordinal: Reg, read: Reg) -> None:
        f = self.f
        element_index = self._index_at(read, slot_ordinal)
        f.store(self._value(element_index), f.gep(self.values, slot_ordinal, self.element))
        f.store(element_index, f.gep(self.indices, slot_ordinal, "i64"))
