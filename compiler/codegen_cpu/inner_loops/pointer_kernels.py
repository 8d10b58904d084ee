"""The innermost loops of convolutions: rows of an image, each behind a pointer for each tap, times a panel of filters.

They are shared by all kernels of an image. What is read lies in runs: for each tap a row has an address of its own,
behind which the products go side by side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import (
    WRITTEN_STEPS,
    LibraryFunction,
    by_steps,
    library_function,
    row_steps,
)
from onnxc.compiler.codegen_host.effort import stepping_effort
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.target import Target
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.records import record

__all__ = ["GatheredProduct", "PointerKernel", "multiply_gathered", "pointer_library"]


@record
class GatheredProduct:
    """Rows behind pointers against one panel, into one tile.

    pointers: [tap][row], `pointer_step` apart from tap to tap; `taps` of them, each with a run of `run` products. The
    panel has `panel_step` elements from tap to tap. zeros: the address of zeros; a tap for which all rows are there is
    left out. ahead: where a panel of this size lies that is read next; it gets into the second-level cache meanwhile.
    soon: what other rows read next, so many elements, which get there after it.
    """

    pointers: Reg
    pointer_step: Int
    taps: Int
    run: Int
    panel: Reg
    panel_step: Int
    tile: Reg
    zeros: Reg
    ahead: Reg
    soon: Reg
    soon_elements: Int = 0


def multiply_gathered(
    f: FunctionBuilder,
    product: GatheredProduct,
    rows: tuple[Int, Int],
    accumulate: Int,
    element: str,
    shape: tuple[int, int, int],
    prepare: Callable[[Int, Int], None] | None = None,
    width: int | None = None,
) -> None:
    """Rows of a product from the first of `rows` to before the second, by the functions of the library.

    `shape` is (vectors, lanes, most rows). The tile is that of these rows. prepare: is written for rows before they are
    multiplied, from the first to before the second. width: the vectors of the panel, of which the first are multiplied;
    all of them where none are given.
    """
    (first, stop), (vectors, lanes, most) = rows, shape
    width = width or vectors
    column_of_vectors = f.mul(f.mul(product.taps, product.run), lanes)
    fixed = (product.pointer_step, product.taps, product.run, product.panel, product.panel_step, width * lanes)

    def call(row: Int, behind: Int, name: str, *count: Int) -> None:
        if prepare is not None:
            prepare(row, behind)
        pointers = f.gep(product.pointers, row, "ptr")
        tile = f.gep(product.tile, f.mul(f.sub(row, first), vectors * lanes), element)
        # A step of a run asks for one vector, so that the panel ahead is there after as many full steps of rows.
        asked = f.udiv(row, most)
        part = f.gep(product.ahead, f.mul(asked, column_of_vectors), element)
        elements = f.mul(f.sub(asked, width), column_of_vectors)
        is_wanted = f.icmp("slt", elements, product.soon_elements)
        soon = f.select(is_wanted, f.gep(product.soon, elements, element), product.panel)
        ahead = f.select(f.icmp("slt", asked, width), part, soon)
        f.call(name, "void", pointers, *fixed, product.zeros, tile, accumulate, ahead, *count)

    whole = f.add(first, f.mul(f.udiv(f.sub(stop, first), most), most))
    kernel, rest = PointerKernel(element, most, vectors), PointerRest(element, most, vectors)
    f.loop(first, whole, most, lambda row: call(row, f.add(row, most), kernel.name))
    f.if_(f.icmp("slt", whole, stop), lambda: call(whole, stop, rest.name, f.sub(stop, whole)))


def pointer_library(element: str, shape: tuple[int, int, int]) -> tuple[LibraryFunction, ...]:
    """What `multiply_gathered` calls."""
    vectors, _, most = shape
    return PointerRest(element, most, vectors), *(PointerKernel(element, rows, vectors) for rows in row_steps(most))


_PARAMETERS = (
    "ptr pointers, i64 pointer_step, i64 taps, i64 run, ptr panel, i64 panel_step, i64 width, ptr zeros, ptr tile, "
    "i64 accumulate, ptr ahead"
)


@dataclass(frozen=True, order=True)
class PointerRest:
    """A function of the library: the rows that are left, fewer than `most`, in as few steps as there are functions."""

    element: str
    most: int
    vectors: int

    @property
    def name(self) -> str:
        return f"multiply_gathered_{self.element}_below_{self.most}x{self.vectors}"

    def write(self, target: Target) -> FunctionBuilder:
        """void (those of PointerKernel, i64 rows)"""
        f = library_function(self.name, f"{_PARAMETERS}, i64 rows", target, stepping_effort(target.arch))
        pointers, *fixed, tile, accumulate, ahead, rows = f.parameters

        def call(row: Int, step: int) -> None:
            begin = f.gep(pointers, row, "ptr")
            kernel = PointerKernel(self.element, step, self.vectors)
            part = f.gep(tile, f.mul(row, self.vectors * kernel.lanes(target)), self.element)
            f.call(kernel.name, "void", begin, *fixed, part, accumulate, ahead)

        by_steps(f, rows, row_steps(self.most)[1:], call)
        f.ret()
        return f


@dataclass(frozen=True, order=True)
class PointerKernel:
    """A function of the library: so many rows against the first vectors of a panel of any width."""

    element: str
    rows: int
    vectors: int

    @property
    def name(self) -> str:
        return f"multiply_gathered_{self.element}_{self.rows}x{self.vectors}"

    def lanes(self, target: Target) -> int:
        """The sums of a vector."""
        return target.vector_bits // (64 if self.element == "double" else 32)

    def write(self, target: Target) -> FunctionBuilder:
        """void (ptr pointers, i64 pointer step, i64 taps, i64 run, ptr panel, i64 panel step, i64 width, ptr zeros,
        ptr tile, i64 accumulate, ptr ahead)

        Lines of the panel have `width` elements:
        tile[r][j] = (accumulate ? tile[r][j] : 0) + sum over taps t and k < run of pointers[t][r][k] * panel[t][k][j].
        There is at least one tap and one product of each. What is multiplied by nothing but zeros is left out.
        Meanwhile `taps` by `run` vectors from `ahead` on, which may be of nobody, get into the second-level cache.
        """
        return _Writer(self, target).write()


class _Writer:
    """The one function of a kernel."""

    def __init__(self, kernel: PointerKernel, target: Target) -> None:
        self.kernel = kernel
        self.lanes = kernel.lanes(target)
        self.steps_of_line = max(1, CACHE_LINE_BYTES * 8 // target.vector_bits)
        self.vector = vector_type(kernel.element, self.lanes)
        self.f = library_function(kernel.name, _PARAMETERS, target, stepping_effort(target.arch))
        self.sums = [(row, column) for row in range(kernel.rows) for column in range(kernel.vectors)]

    def write(self) -> FunctionBuilder:
        f = self.f
        pointers, pointer_step, taps, run, panel, panel_step, width, zero_row, tile, accumulate, ahead = f.parameters
        addresses = [f.gep(tile, ordinal * self.lanes, self.kernel.element) for ordinal in range(len(self.sums))]

        def previous() -> list[Reg]:
            return [f.load(self.vector, address, align=64) for address in addresses]

        zeros = [f.constant(self.vector, 0.0)] * len(self.sums)
        start = f.if_(f.icmp("ne", accumulate, 0), previous, lambda: zeros)

        def tap(ordinal: Int, *totals: Reg) -> Sequence[Reg]:
            behind = f.gep(pointers, f.mul(ordinal, pointer_step), "ptr")
            rows = [f.load("ptr", f.gep(behind, row, "ptr"), align=8) for row in range(self.kernel.rows)]
            part = f.gep(panel, f.mul(ordinal, panel_step), self.kernel.element)

            def products() -> Sequence[Reg]:
                begins = part, f.gep(ahead, f.mul(f.mul(ordinal, run), self.lanes), self.kernel.element)
                step = partial(self._step, rows, width)
                return f.loop_in_steps(run, WRITTEN_STEPS, step, (*begins, *totals))[len(begins) :]

            return f.if_(self._are_all(rows, zero_row), lambda: totals, products)

        totals = f.loop(0, taps, 1, tap, start, at_least_once=True)
        for address, total in zip(addresses, totals, strict=True):
            f.store(total, address, align=64)
        f.ret()
        return f

    def _are_all(self, rows: Sequence[Reg], address: Reg) -> Reg:
        """Whether all rows are at one address; mostly the first is not."""
        f = self.f
        first, *others = (f.icmp("eq", row, address) for row in rows)
        return f.if_(first, lambda: [reduce(f.and_, others, first)], lambda: [f.constant("i1", 0)])[0]

    def _step(
        self, rows: Sequence[Reg], width: Reg, k: Int, place: int, line: Reg, ahead: Reg, *sums: Reg
    ) -> Sequence[Reg]:
        """The next line of the panel and of what lies ahead, and the sums with one more product each."""
        f, element = self.f, self.kernel.element
        b = [f.load(self.vector, f.gep(line, j * self.lanes, element), align=64) for j in range(self.kernel.vectors)]
        if place % self.steps_of_line == 0:
            f.prefetch(ahead, level=2)
        totals = list(sums)
        for row, pointer in enumerate(rows):
            x = f.splat(f.load(element, f.gep(pointer, k, element), align=1), self.lanes)
            for column, part in enumerate(b):
                ordinal = row * self.kernel.vectors + column
                totals[ordinal] = f.multiply_add(x, part, totals[ordinal])
        return f.gep(line, width, element), f.gep(ahead, self.lanes, element), *totals
