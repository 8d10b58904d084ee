"""The innermost loops of contractions: a few rows of A times a panel of B, accumulated in registers.

They are shared by all kernels of an image, keyed by the types that they multiply. Strides of A are arguments, so one
function serves every shape; a panel is [step of k][width][group], packed and zero-padded or in place with a stride
from step to step; the results go to a dense tile [rows][width] in memory that the caller owns.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from onnxc.compiler.codegen_cpu.conversions import emit_cast
from onnxc.compiler.codegen_cpu.element_types import from_memory, memory_type, register_type
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import GROUP, PAIR, add_dots, add_pairs
from onnxc.compiler.codegen_host.effort import Effort, stepping_effort
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, as_reg, register, vector_type
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.target import Target
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.records import record

PREFETCHED_BYTES = 8192
"""How far ahead a packed panel is fetched: one that no cache holds then streams. Weights of 113 MB, 768 by 3072 and
back, times 4, 6 and 12 rows took 3.27, 3.67 and 5.13 ms with 2048, and take 2.61, 2.71 and 4.02; with 4096 less was
gained, with 12288 as much and with 24576 less. With AVX2 4 rows take 0.70 of what they took.

A single row of words fetches nothing: it only waits for memory, and processors ask for the next lines of one stream
better by themselves. 48 weights of 1 MB took a Zen 5 1.06 ms with 2048, and take it 0.75; a step of gpt2 took a Zen 3
29 to 32 ms, and takes it 24 to 27. A row of bytes, whose groups are multiplied at once, takes 1.1 to 1.5 without.
"""

STRIDED_BYTES = 2048
"""The same of a panel that is read where it lies, whose lines are far apart."""

FETCHING_STEPS = 2
"""From so many steps of rows on the first ones fetch what is read behind all of them. With the same weights 12 and 18
rows take 3.70 and 4.63 ms so, and 4.02 and 5.59 where no fewer steps did than a panel has vectors."""

WIDE_ROWS, FINE_ROWS = 8, 5
"""The most rows that fit 32 registers beside a panel of three vectors, or 16 beside any; and the most that are left of
which every number is a step."""

LEAST_FETCHES = 8
"""How many times as many steps there are along k of rows that are read where they lie, for some to be fetched."""

WRITTEN_STEPS = 4
"""Steps along k that are written out where floats lie side by side along it, so that fewer instructions are beside the
multiply-adds. Where the other thread of a core is busy they count: of 384 by 384 channels the median of calls went from
69 to 84 GFLOP/s, on a quiet core from 91 to 92."""

MOST_POINTERS = 8
"""The most rows whose addresses are all in registers, of 16 that there are."""

POINTER_ROWS = 3
"""Of other rows the first of so many has its address in a register, and the next ones are strides behind it."""


class LibraryFunction(Protocol):
    """A function that kernels share, written once for each image."""

    @property
    def name(self) -> str: ...

    def write(self, target: Target) -> FunctionBuilder: ...


@record
class ProductTypes:
    """What a micro-kernel multiplies: elements of A and of a panel as they lie in memory; and the type of its sums.

    group: how many neighbours along k one instruction multiplies and adds up; A and panels have them side by side.
    """

    a: DType
    panel: DType
    sums: DType
    group: int = 1

    def __str__(self) -> str:
        return f"{self.a}_{self.panel}_{self.sums}" + (f"_by_{self.group}" if self.group > 1 else "")

    def lanes(self, target: Target) -> int:
        """The sums of a vector."""
        return target.vector_bits // self.sums.bits


def row_steps(full: int) -> tuple[int, ...]:
    """The numbers of rows that there is a function for, `full` being the most, falling; any number is a sum of them."""
    return (full, *(rows for rows in (8, 4, 2, 1) if rows < full))


def product_steps(full: int) -> tuple[int, ...]:
    """The same of products by panels, where nearly every number of rows that is left is one step.

    Each step reads the panel, for which few rows have no time: weights of 17 MB times 5, 11 and 23 rows took 0.29, 0.47
    and 0.93 ms in steps of 6, 4, 2 and 1, and take 0.20, 0.40 and 0.78. Panels that leave registers for many rows are
    narrow, and read in little time.
    """
    return row_steps(full) if full > WIDE_ROWS else (full, *range(min(full - 1, FINE_ROWS), 0, -1))


def by_steps(f: FunctionBuilder, rows: Int, steps: Sequence[int], call: Callable[[Int, int], None]) -> None:
    """call(first row, number of rows) for all `rows`, the largest number of `steps` as often as it fits, and so on."""
    done: Int = 0
    for step in steps:
        stop = f.add(done, f.mul(f.sdiv(f.sub(rows, done), step), step))
        f.loop(done, stop, step, lambda row, step=step: call(row, step))
        done = stop


@record
class Ahead:
    """A panel that is read when `all_rows` have been multiplied, of which the rows of a product are those from `first`
    on: it gets into the second-level cache meanwhile."""

    panel: Reg
    first: Int
    all_rows: Int


@record
class Product:
    """Rows of A against one panel, into one tile.

    Strides count elements: `row_stride` is that of a row of A, `k_stride` that of a step of k in A, of which there are
    `depth`: groups of neighbours. panel_stride: that of a step of k in the panel, None for a packed one. ahead: the
    panel of this size that is read next, if any.
    """

    a: Reg
    row_stride: Int
    k_stride: Int
    panel: Reg
    tile: Reg
    depth: Int
    panel_stride: Int | None = None
    ahead: Ahead | None = None


def multiply(
    f: FunctionBuilder, product: Product, rows: Int, accumulate: Int, types: ProductTypes, shape: tuple[int, int, int]
) -> None:
    """All `rows` of a product by the functions of the library; `shape` is (vectors, lanes, most rows)."""
    vectors, lanes, full = shape
    panel_stride = vectors * lanes * types.group if product.panel_stride is None else product.panel_stride

    def call(row: Int, name: str, *count: Int) -> None:
        a = f.gep(product.a, f.mul(row, product.row_stride), memory_type(types.a))
        tile = f.gep(product.tile, f.mul(row, vectors * lanes), register_type(types.sums))
        strides = (product.row_stride, product.k_stride)
        ahead = _part_ahead(f, product, row, types, shape)
        f.call(name, "void", a, *strides, product.panel, panel_stride, tile, product.depth, accumulate, ahead, *count)

    def step(row: Int, count: int) -> None:
        call(row, MicroKernel(types, count, vectors).name)

    whole = f.mul(f.udiv(rows, full), full)
    f.loop(0, whole, full, lambda row: step(row, full))
    if isinstance(rows, int) and isinstance(whole, int):
        by_steps(f, rows - whole, product_steps(full)[1:], lambda row, count: step(f.add(whole, row), count))
    elif full > 1:
        rest = MicroRest(types, full, vectors).name
        f.if_(f.icmp("slt", whole, rows), lambda: call(whole, rest, f.sub(rows, whole)))


def product_library(types: ProductTypes, vectors: int, full: int) -> "tuple[LibraryFunction, ...]":
    """What `multiply` calls."""
    kernels = (MicroKernel(types, rows, vectors) for rows in product_steps(full))
    return MicroRest(types, full, vectors), *kernels


def _part_ahead(
    f: FunctionBuilder, product: Product, row: Int, types: ProductTypes, shape: tuple[int, int, int]
) -> Reg:
    """What the product of the rows from `row` on fetches: a vector for each step of k, so that the panel ahead is there
    after as many full steps of rows as it has vectors. Of one step nothing: what it reads is what it waits for.
    """
    vectors, lanes, full = shape
    ahead = product.ahead
    if ahead is None or (isinstance(ahead.all_rows, int) and ahead.all_rows < FETCHING_STEPS * full):
        return product.panel
    step = f.udiv(f.add(ahead.first, row), full)
    part = f.mul(f.mul(step, product.depth), lanes * types.group)
    is_fetched = f.and_(f.icmp("sge", ahead.all_rows, FETCHING_STEPS * full), f.icmp("slt", step, vectors))
    return f.select(is_fetched, f.gep(ahead.panel, part, memory_type(types.panel)), product.panel)


_PARAMETERS = (
    "ptr a, i64 row_stride, i64 k_stride, ptr panel, i64 panel_stride, ptr tile, i64 k, i64 accumulate, ptr ahead"
)


@record
class MicroKernel:
    """A function of the library: so many rows against a panel of so many vectors."""

    types: ProductTypes
    rows: int
    vectors: int

    @property
    def name(self) -> str:
        return f"multiply_{self.types}_{self.rows}x{self.vectors}"

    def write(self, target: Target) -> FunctionBuilder:
        """void multiply(ptr a, i64 row stride, i64 k stride, ptr panel, i64 panel stride, ptr tile, i64 k,
        i64 accumulate, ptr ahead)

        tile[r][j] = (accumulate ? tile[r][j] : 0) + sum over k of a[r * row stride + k * k stride] * panel[k * panel
        stride + j], where a step of k is a group of neighbours. Strides count elements; k is at least 1. Meanwhile k
        vectors from `ahead` on, which may be of nobody, get into the second-level cache, unless a row of words is all.
        """
        return _Writer(self, target).write()


@record
class MicroRest:
    """A function of the library: what full steps leave of the rows of a product, in as few steps as there are."""

    types: ProductTypes
    full: int
    vectors: int

    @property
    def name(self) -> str:
        return f"multiply_{self.types}_below_{self.full}x{self.vectors}"

    def write(self, target: Target) -> FunctionBuilder:
        """void multiply(those of MicroKernel, i64 rows)"""
        f = library_function(self.name, f"{_PARAMETERS}, i64 rows", target, stepping_effort(target.arch))
        a, row_stride, k_stride, panel, panel_stride, tile, *rest, rows = f.parameters
        width = self.vectors * self.types.lanes(target)

        def call(row: Int, count: int) -> None:
            begin = f.gep(a, f.mul(row, row_stride), memory_type(self.types.a))
            part = f.gep(tile, f.mul(row, width), register_type(self.types.sums))
            name = MicroKernel(self.types, count, self.vectors).name
            f.call(name, "void", begin, row_stride, k_stride, panel, panel_stride, part, *rest)

        by_steps(f, rows, product_steps(self.full)[1:], call)
        f.ret()
        return f


@record
class Instructions:
    """How a vector of sums takes one step along k: what is loaded of A and of a panel, and what multiplies the two.

    spread: from the address of a group of A to a vector that has it in every lane. read: a vector of a panel.
    """

    spread: Callable[[FunctionBuilder, Reg, int], Reg]
    read: Callable[[FunctionBuilder, Reg, int], Reg]
    add_product: Callable[[FunctionBuilder, Reg, Reg, Reg], Reg]


def _elements(types: ProductTypes, target: Target) -> Instructions:
    """Both widened as they are read, a lane for each."""

    def spread(f: FunctionBuilder, address: Reg, lanes: int) -> Reg:
        return f.splat(widened_from_memory(f.load(memory_type(types.a), address), types.a, types.sums, f), lanes)

    def read(f: FunctionBuilder, address: Reg, lanes: int) -> Reg:
        loaded = f.load(vector_type(memory_type(types.panel), lanes), address, align=types.panel.itemsize)
        return widened_from_memory(loaded, types.panel, types.sums, f)

    return Instructions(spread, read, add_product)


def _groups_of_bytes(types: ProductTypes, target: Target) -> Instructions:
    """Groups of bytes as they lie in memory, a lane of 32 bits for each."""

    def spread(f: FunctionBuilder, address: Reg, lanes: int) -> Reg:
        return f.splat(f.load("i32", address), lanes)

    def read(f: FunctionBuilder, address: Reg, lanes: int) -> Reg:
        return f.load(vector_type("i32", lanes), address, align=4 * lanes)

    dtypes = (types.a, types.panel)
    return Instructions(spread, read, lambda f, x, y, total: add_dots(f, x, y, total, dtypes, target))


def _pairs_of_words(types: ProductTypes, target: Target) -> Instructions:
    """Pairs of i16 of A, and of bytes of a panel that are widened as they are read, a lane of 32 bits for each."""

    def spread(f: FunctionBuilder, address: Reg, lanes: int) -> Reg:
        return register(f.convert("bitcast", f.splat(f.load("i32", address), lanes), vector_type("i16", PAIR * lanes)))

    def read(f: FunctionBuilder, address: Reg, lanes: int) -> Reg:
        x = f.load(vector_type("i8", PAIR * lanes), address, align=PAIR * lanes)
        return emit_cast(x, types.panel, types.a, f)

    return Instructions(spread, read, lambda f, x, y, total: add_pairs(f, x, y, total, target))


_INSTRUCTIONS = {1: _elements, PAIR: _pairs_of_words, GROUP: _groups_of_bytes}
"""By how many neighbours along k are multiplied at once."""


def add_product(f: FunctionBuilder, x: Reg, y: Reg, total: Reg) -> Reg:
    """x * y + total: of floats rounded once, of integers modulo their width."""
    return f.multiply_add(x, y, total) if total.is_float else f.add(f.mul(x, y), total)


def widened_from_memory(x: Reg, source: DType, target: DType, f: FunctionBuilder) -> Reg:
    """Elements as they lie in memory, in the register of the sums that they are multiplied for."""
    return emit_cast(from_memory(x, source, f), source, target, f)


def library_function(name: str, parameters: str, target: Target, effort: Effort = "most") -> FunctionBuilder:
    """A function of an image that its kernels call, with parameters as in "ptr a, i64 depth"."""
    named = [(type, parameter) for type, parameter in (each.split() for each in parameters.split(", "))]
    features = target.features
    return FunctionBuilder(name, named, hidden=True, attributes="noinline nounwind", features=features, effort=effort)


class _Writer:
    """The one function of a kernel."""

    def __init__(self, kernel: MicroKernel, target: Target) -> None:
        self.types, self.rows, self.vectors = kernel.types, kernel.rows, kernel.vectors
        self.lanes = self.types.lanes(target)
        is_row = self.rows == 1 and self.types.group == 1
        self.fetched_bytes = 0 if is_row else PREFETCHED_BYTES
        self.instructions = _INSTRUCTIONS[self.types.group](self.types, target)
        self.f = library_function(kernel.name, _PARAMETERS, target, stepping_effort(target.arch))
        self.a, self.row_stride, self.k_stride, self.panel, self.panel_stride, *rest = self.f.parameters
        self.tile, self.depth, self.accumulate, self.ahead = rest
        self.vector_elements = self.lanes * self.types.group
        self.vector_bytes = self.vector_elements * self.types.panel.itemsize
        self.soon = self._soon()

    def _soon(self) -> Int:
        """How many bytes behind a step along k another is fetched.

        Behind a packed panel lies the next one, behind other rows nothing: a page that is not there takes 80 ns each
        time, as nothing remembers it, so that few steps fetch none.
        """
        f, step_bytes = self.f, self.vectors * self.vector_bytes
        steps = max(1, min(self.fetched_bytes, STRIDED_BYTES) // step_bytes)
        is_packed = f.icmp("eq", self.panel_stride, self.vectors * self.vector_elements)
        is_long = f.icmp("sge", self.depth, LEAST_FETCHES * steps)
        bytes_of_steps = f.select(is_long, f.mul(self.panel_stride, steps * self.types.panel.itemsize), 0)
        return f.select(is_packed, as_reg(self.fetched_bytes // step_bytes * step_bytes), bytes_of_steps)

    def write(self) -> FunctionBuilder:
        f, element = self.f, register_type(self.types.sums)
        vector, count = vector_type(element, self.lanes), self.rows * self.vectors
        addresses = [f.gep(self.tile, ordinal * self.lanes, element) for ordinal in range(count)]

        def previous() -> list[Reg]:
            return [f.load(vector, address, align=64) for address in addresses]

        start = f.if_(f.icmp("ne", self.accumulate, 0), previous, lambda: [f.constant(vector, 0)] * count)
        for address, total in zip(addresses, self._sums(start), strict=True):
            f.store(total, address, align=64)
        f.ret()
        return f

    def _sums(self, start: Sequence[Reg]) -> Sequence[Reg]:
        """The sums of all products. Rows of several steps are read where they are dense along k, which leaves few."""
        f = self.f
        if self.rows > MOST_POINTERS or (self.types.group == 1 and not self.types.sums.is_float):
            return self._by_strides(0, start)
        whole = f.and_(self.depth, -WRITTEN_STEPS)
        is_dense = f.and_(f.icmp("eq", self.k_stride, self.types.group), f.icmp("ne", whole, 0))
        first, *totals = f.if_(is_dense, lambda: (whole, *self._side_by_side(whole, start)), lambda: (0, *start))
        return f.if_(f.icmp("slt", first, self.depth), lambda: self._by_strides(first, totals), lambda: totals)

    def _by_strides(self, first: Int, start: Sequence[Reg]) -> Sequence[Reg]:
        """The sums of the steps from `first` on, of which there are some, of rows that lie in any strides."""
        f, element = self.f, memory_type(self.types.a)
        column = f.gep(self.a, f.mul(first, self.k_stride), element)
        strides = [f.mul(self.row_stride, apart) for apart in range(1, POINTER_ROWS + 1)]

        def step(k: Int, line: Reg, ahead: Reg, column: Reg, *totals: Reg) -> Sequence[Reg]:
            rows = [column]
            for row in range(1, self.rows):
                base = rows[(row - 1) // POINTER_ROWS * POINTER_ROWS]
                rows.append(f.gep(base, strides[(row - 1) % POINTER_ROWS], element))
            totals = self._step(rows, 0, line, ahead, totals)
            return *self._next(line, ahead), f.gep(column, self.k_stride, element), *totals

        begins = (*self._lines_from(first), column)
        return f.loop(first, self.depth, 1, step, (*begins, *start), at_least_once=True)[len(begins) :]

    def _side_by_side(self, whole: Int, start: Sequence[Reg]) -> Sequence[Reg]:
        """The sums of so many steps of rows that are dense along k, several steps written out."""
        f, element = self.f, memory_type(self.types.a)
        begins = [f.held(f.gep(self.a, f.mul(self.row_stride, row), element)) for row in range(self.rows)]

        def steps(k: Int, line: Reg, ahead: Reg, *totals: Reg) -> Sequence[Reg]:
            for place in range(WRITTEN_STEPS):
                rows = [f.gep(row, f.mul(f.add(k, place), self.types.group), element) for row in begins]
                totals = self._step(rows, place, line, ahead, totals)
                line, ahead = self._next(line, ahead)
            return line, ahead, *totals

        lines = self._lines_from(0)
        return f.loop(0, whole, WRITTEN_STEPS, steps, (*lines, *start), at_least_once=True)[len(lines) :]

    def _lines_from(self, k: Int) -> tuple[Reg, Reg]:
        """What a step of the panel is at, and what it fetches of the panel ahead."""
        f, element = self.f, memory_type(self.types.panel)
        line = f.gep(self.panel, f.mul(k, self.panel_stride), element)
        return line, f.gep(self.ahead, f.mul(k, self.vector_elements), element)

    def _next(self, line: Reg, ahead: Reg) -> tuple[Reg, Reg]:
        """The same for the next step."""
        f, element = self.f, memory_type(self.types.panel)
        return f.gep(line, self.panel_stride, element), f.gep(ahead, self.vector_elements, element)

    def _step(self, rows: Sequence[Reg], place: int, line: Reg, ahead: Reg, totals: Sequence[Reg]) -> tuple[Reg, ...]:
        """The sums with one more product each, of the groups at `rows`; place: of the step among those written out."""
        f, element, instructions = self.f, memory_type(self.types.panel), self.instructions
        columns = [f.gep(line, column * self.vector_elements, element) for column in range(self.vectors)]
        b = [instructions.read(f, column, self.lanes) for column in columns]
        self._fetch(line, ahead, place)
        sums = list(totals)
        for row, address in enumerate(rows):
            x = instructions.spread(f, address, self.lanes)
            for column, y in enumerate(b):
                ordinal = row * self.vectors + column
                sums[ordinal] = instructions.add_product(f, x, y, sums[ordinal])
        return tuple(sums)

    def _fetch(self, line: Reg, ahead: Reg, place: int) -> None:
        """Asks for what is read soon, and for what is read after all of it: each line of the cache once."""
        f, step_bytes = self.f, self.vectors * self.vector_bytes
        if self.fetched_bytes == 0:
            return
        for byte in range(-place * step_bytes % CACHE_LINE_BYTES, step_bytes, CACHE_LINE_BYTES):
            f.prefetch(f.gep(f.gep(line, self.soon), byte))
        if place * self.vector_bytes % CACHE_LINE_BYTES == 0:
            f.prefetch(ahead, level=2)
