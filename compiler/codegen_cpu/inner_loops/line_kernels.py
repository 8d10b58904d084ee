"""The innermost loops of products by lines: a few rows of A times a line of B, both dense along k.

The lanes of a vector are neighbours along k; what they sum up is added across at the end, always in the same order.
"""

from collections.abc import Sequence
from functools import partial

from onnxc.compiler.codegen_cpu.element_types import memory_type, register_type
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import (
    ProductTypes,
    add_product,
    by_steps,
    library_function,
    widened_from_memory,
)
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

SUMS = 8
"""Sums in vectors at once: the latency of a multiply-add in cycles, times how many begin in one."""


@record
class Lines:
    """Rows of A against lines of B, into sums side by side; strides count elements, and are those from row to row.

    b_stride: 0 where all rows are multiplied by one line.
    """

    a: Reg
    a_stride: Int
    b: Reg
    b_stride: Int
    sums: Reg
    depth: Int


def line_steps(most: int) -> tuple[int, ...]:
    """The numbers of rows that there is a function for, `most` being a power of two, falling."""
    return tuple(rows for rows in (8, 4, 2, 1) if rows <= most)


def multiply_lines(f: FunctionBuilder, lines: Lines, rows: Int, types: ProductTypes, most: int) -> None:
    """Adds all `rows` to their sums by the functions of the library, at most `most` at once."""

    def call(row: Int, step: int) -> None:
        a = f.gep(lines.a, f.mul(row, lines.a_stride), memory_type(types.a))
        b = f.gep(lines.b, f.mul(row, lines.b_stride), memory_type(types.panel))
        sums = f.gep(lines.sums, row, register_type(types.sums))
        name = LineKernel(types, step, lines.b_stride == 0).name
        f.call(name, "void", a, lines.a_stride, b, lines.b_stride, sums, lines.depth)

    by_steps(f, rows, line_steps(most), call)


@record
class LineKernel:
    """A function of the library: so many rows against one line, or each against a line of its own."""

    types: ProductTypes
    rows: int
    one_line: bool

    @property
    def name(self) -> str:
        return f"multiply_{'line' if self.one_line else 'lines'}_{self.types}_{self.rows}"

    def write(self, target: Target) -> FunctionBuilder:
        """void multiply(ptr a, i64 a stride, ptr b, i64 b stride, ptr sums, i64 k)

        sums[r] += sum over k of a[r * a stride + k] * b[r * b stride + k].
        """
        f = library_function(self.name, "ptr a, i64 a_stride, ptr b, i64 b_stride, ptr sums, i64 k", target)
        a, a_stride, b, b_stride, sums, depth = f.parameters
        element, lanes = register_type(self.types.sums), self.types.lanes(target)
        vector, repeats = vector_type(element, lanes), SUMS // self.rows

        def read(base: Reg, offset: Int, dtype: DType, mask: Reg | None) -> Reg:
            type, address = vector_type(memory_type(dtype), lanes), f.gep(base, offset, memory_type(dtype))
            if mask is None:
                return widened_from_memory(f.load(type, address, align=dtype.itemsize), dtype, self.types.sums, f)
            loaded = masked_load(f, type, address, mask, dtype.itemsize, f.constant(type, 0))
            return widened_from_memory(loaded, dtype, self.types.sums, f)

        def step(k: Int, *totals: Reg, mask: Reg | None = None, times: int = 1) -> list[Reg]:
            following = list(totals)
            for repeat in range(times):
                start = f.add(k, repeat * lanes)
                steps = (0,) if self.one_line else tuple(f.mul(b_stride, row) for row in range(self.rows))
                ys = [read(b, f.add(step, start), self.types.panel, mask) for step in steps]
                for row in range(self.rows):
                    x, y = read(a, f.add(f.mul(a_stride, row), start), self.types.a, mask), ys[row % len(ys)]
                    ordinal = repeat * self.rows + row
                    following[ordinal] = add_product(f, x, y, following[ordinal])
            return following

        totals = tuple(f.constant(vector, 0) for _ in range(SUMS))
        many, whole = (f.mul(f.sdiv(depth, size), size) for size in (repeats * lanes, lanes))
        totals = f.loop(0, many, repeats * lanes, partial(step, times=repeats), totals)
        totals = f.loop(many, whole, lanes, step, totals)
        tail = f.sub(depth, whole)
        totals = f.if_(
            f.icmp("sgt", tail, 0), lambda: step(whole, *totals, mask=f.tail_mask(lanes, tail)), lambda: totals
        )
        folded = _across(f, [self._joined(f, totals[row :: self.rows]) for row in range(self.rows)])
        align = self.types.sums.itemsize
        f.store(_add(f, folded, f.load(folded.type, sums, align=align)), sums, align=align)
        f.ret()
        return f

    def _joined(self, f: FunctionBuilder, totals: Sequence[Reg]) -> Reg:
        """The sums of one row, added up in pairs."""
        while len(totals) > 1:
            totals = [_add(f, x, y) for x, y in zip(totals[::2], totals[1::2], strict=True)]
        return totals[0]


def _add(f: FunctionBuilder, x: Reg, y: Reg) -> Reg:
    return f.fadd(x, y) if x.is_float else f.add(x, y)


def _across(f: FunctionBuilder, rows: Sequence[Reg]) -> Reg:
    """The sum of the lanes of each row, side by side."""
    lanes, count, distance = rows[0].lanes, len(rows), 1
    while distance < count:
        low = [lane if not lane & distance else lanes + (lane ^ distance) for lane in range(lanes)]
        high = [lane ^ distance if not lane & distance else lanes + lane for lane in range(lanes)]
        pairs = zip(rows[::2], rows[1::2], strict=True)
        rows, distance = [_add(f, f.shuffle(x, y, low), f.shuffle(x, y, high)) for x, y in pairs], distance * 2
    total = rows[0]
    while lanes > count:
        lanes //= 2
        halves = [f.shuffle(total, None, range(start, start + lanes)) for start in (0, lanes)]
        total = _add(f, halves[0], halves[1])
    return total
