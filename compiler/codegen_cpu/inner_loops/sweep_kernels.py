"""The innermost loop of a row times rows of B that are dense along columns: a few rows of B are read side by side.

Memory is read in long runs, which panels of a B that is not packed do not: these take 256 bytes of each row at a time.
Of bytes two rows are interleaved in registers, so that one instruction multiplies and adds up a pair along k.
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.codegen_cpu.conversions import emit_cast
from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import PAIR, add_pairs
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import (
    ProductTypes,
    add_product,
    library_function,
    widened_from_memory,
)
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_type
from onnxc.compiler.ir.dtypes import I16
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

SWEEP_STEPS = (8, 1)
"""The steps along k that there is a function for; eight rows of B are read at once, and sums go through memory once."""


@record
class SweepKernel:
    """A function of the library: so many elements of a row of A against as many rows of B."""

    types: ProductTypes
    steps: int

    @property
    def name(self) -> str:
        return f"sweep_{self.types}_{self.steps}"

    def write(self, target: Target) -> FunctionBuilder:
        """void sweep(ptr a, i64 a stride, ptr b, i64 b stride, ptr sums, i64 columns)

        sums[j] += sum over the steps k of a[k * a stride] * b[k * b stride + j]; sums have room for whole vectors.
        """
        f = library_function(self.name, "ptr a, i64 a_stride, ptr b, i64 b_stride, ptr sums, i64 columns", target)
        a, a_stride, b, b_stride, sums, columns = f.parameters
        types, lanes = self.types, self.types.lanes(target)
        addresses = [f.gep(a, f.mul(a_stride, k), memory_type(types.a)) for k in range(self.steps)]
        loaded = [f.load(memory_type(types.a), address, align=types.a.itemsize) for address in addresses]
        rows = [f.gep(b, f.mul(b_stride, k), memory_type(types.panel)) for k in range(self.steps)]

        vector = (self._elements if types.group == 1 else self._pairs)(f, loaded, rows, sums, target)
        count = lanes * types.group
        whole = f.mul(f.sdiv(columns, count), count)
        f.loop(0, whole, count, lambda j: vector(j, None))
        left = f.sub(columns, whole)
        f.if_(f.icmp("sgt", left, 0), lambda: vector(whole, f.tail_mask(count, left)))
        f.ret()
        return f

    def _elements(
        self, f: FunctionBuilder, loaded: Sequence[Reg], rows: Sequence[Reg], sums: Reg, target: Target
    ) -> Callable[[Int, Reg | None], None]:
        """What adds to a vector of sums, element by element."""
        types, lanes, element = self.types, self.types.lanes(target), register_type(self.types.sums)
        xs = [f.splat(widened_from_memory(x, types.a, types.sums, f), lanes) for x in loaded]

        def vector(j: Int, mask: Reg | None) -> None:
            pointer = f.gep(sums, j, element)
            total = f.load(vector_type(element, lanes), pointer, align=types.sums.itemsize)
            for x, row in zip(xs, rows, strict=True):
                y = widened_from_memory(self._read(f, row, j, lanes, mask), types.panel, types.sums, f)
                total = add_product(f, x, y, total)
            f.store(total, pointer, align=types.sums.itemsize)

        return vector

    def _pairs(
        self, f: FunctionBuilder, loaded: Sequence[Reg], rows: Sequence[Reg], sums: Reg, target: Target
    ) -> Callable[[Int, Reg | None], None]:
        """What adds to two vectors of sums, pair by pair along k; zeros are beside the last of an odd number."""
        types, lanes, element = self.types, self.types.lanes(target), register_type(self.types.sums)
        words = vector_type("i16", PAIR * lanes)
        zero = f.constant(words, 0)
        xs = [emit_cast(x, types.a, I16, f) for x in loaded]
        firsts, seconds = xs[::PAIR], [*xs[1::PAIR], f.constant("i16", 0)]
        splats = [_spread_pair(f, *pair, lanes) for pair in zip(firsts, seconds, strict=False)]

        def vector(j: Int, mask: Reg | None) -> None:
            read = (self._read(f, row, j, PAIR * lanes, mask) for row in rows)
            ys = [emit_cast(y, types.panel, I16, f) for y in read]
            low = high = f.constant(vector_type(element, lanes), 0)
            for x, first, second in zip(splats, ys[::PAIR], [*ys[1::PAIR], zero], strict=False):
                low = add_pairs(f, x, _interleaved(f, first, second, upper=False), low, target)
                high = add_pairs(f, x, _interleaved(f, first, second, upper=True), high, target)
            for ordinal, part in enumerate(_in_order(f, low, high)):
                pointer = f.gep(sums, f.add(j, ordinal * lanes), element)
                total = f.load(part.type, pointer, align=types.sums.itemsize)
                f.store(f.add(total, part), pointer, align=types.sums.itemsize)

        return vector

    def _read(self, f: FunctionBuilder, row: Reg, j: Int, lanes: int, mask: Reg | None) -> Reg:
        """So many elements of a row of B, as they lie in memory."""
        dtype = self.types.panel
        type, address = vector_type(memory_type(dtype), lanes), f.gep(row, j, memory_type(dtype))
        if mask is None:
            return f.load(type, address, align=dtype.itemsize)
        return masked_load(f, type, address, mask, passthru=f.constant(type, 0))


WORDS_TOGETHER = 8
"""Shuffles of words stay within so many of them, which are 128 bits: across these they would take three cycles each."""


def _spread_pair(f: FunctionBuilder, first: Reg, second: Reg, lanes: int) -> Reg:
    """Two words side by side, again and again, for each lane of 32 bits."""
    low = f.and_(register(f.convert("zext", first, "i32")), 0xFFFF)
    both = register(f.or_(low, f.shl(register(f.convert("zext", second, "i32")), 16)))
    return register(f.convert("bitcast", f.splat(both, lanes), vector_type("i16", PAIR * lanes)))


def _interleaved(f: FunctionBuilder, first: Reg, second: Reg, *, upper: bool) -> Reg:
    """The words of one half of each 128 bits of two vectors in turns."""
    half, lanes = WORDS_TOGETHER // 2, first.lanes
    starts = range(half if upper else 0, lanes, WORDS_TOGETHER)
    picks = [start + word + lanes * side for start in starts for word in range(half) for side in range(PAIR)]
    return f.shuffle(first, second, picks)


def _in_order(f: FunctionBuilder, low: Reg, high: Reg) -> tuple[Reg, Reg]:
    """The sums of the lower and of the upper halves of 128 bits, in the order of the columns."""
    half, lanes = WORDS_TOGETHER // 2, low.lanes
    picks = [
        start + word + lanes * side for start in range(0, lanes, half) for side in range(2) for word in range(half)
    ]
    return f.shuffle(low, high, picks[:lanes]), f.shuffle(low, high, picks[lanes:])
