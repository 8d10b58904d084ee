"""The innermost loops of contractions: a few rows of A times a panel of B, accumulated in registers.

They are shared by all kernels of an image. Strides of A are arguments, so one function serves every shape; a panel is
[k][width] dense and zero-padded; the results go to a dense tile [rows][width] in memory that the caller owns.
"""

from dataclasses import dataclass
from functools import partial

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type
from onnxc.compiler.target import Target


def row_steps(full: int) -> tuple[int, ...]:
    """The numbers of rows that there is a function for, `full` being the most, falling; any number is a sum of them."""
    return (full, *(rows for rows in (8, 4, 2, 1) if rows < full))


@dataclass(frozen=True)
class Product:
    """Rows of A against one panel, into one tile. Strides count elements; `row_stride` is that of a row of A."""

    a: Reg
    row_stride: Int
    k_stride: Int
    panel: Reg
    tile: Reg
    depth: Int


def multiply(
    f: FunctionBuilder, product: Product, rows: Int, accumulate: Int, element: str, shape: tuple[int, int, int]
) -> None:
    """All `rows` of a product by the functions of the library; `shape` is (vectors, lanes, most rows)."""
    vectors, lanes, full = shape

    def call(row: Int, step: int) -> None:
        a = f.gep(product.a, f.mul(row, product.row_stride), element)
        tile = f.gep(product.tile, f.mul(row, vectors * lanes), element)
        name = MicroKernel(element, step, vectors).name
        strides = (product.row_stride, product.k_stride)
        f.call(name, "void", a, *strides, product.panel, tile, product.depth, accumulate)

    done: Int = 0
    for step in row_steps(full):
        stop = f.add(done, f.mul(f.sdiv(f.sub(rows, done), step), step))
        f.loop(done, stop, step, partial(call, step=step))
        done = stop


@dataclass(frozen=True, order=True)
class MicroKernel:
    """A function of the library: so many rows against a panel of so many vectors."""

    element: str
    rows: int
    vectors: int

    @property
    def name(self) -> str:
        return f"multiply_{self.element}_{self.rows}x{self.vectors}"


def write_micro_kernel(kernel: MicroKernel, target: Target) -> FunctionBuilder:
    """void multiply(ptr a, i64 row stride, i64 k stride, ptr panel, ptr tile, i64 k, i64 accumulate)

    tile[r][j] = (accumulate ? tile[r][j] : 0) + sum over k of a[r * row stride + k * k stride] * panel[k][j]. Strides
    count elements; k is at least 1.
    """
    element, rows, vectors = kernel.element, kernel.rows, kernel.vectors
    lanes = target.vector_bits // (64 if element == "double" else 32)
    parameters = ["ptr a", "i64 row_stride", "i64 k_stride", "ptr panel", "ptr tile", "i64 k", "i64 accumulate"]
    f = FunctionBuilder(
        kernel.name,
        [(type, name) for type, name in (parameter.split() for parameter in parameters)],
        hidden=True,
        attributes="noinline nounwind",
    )
    a, row_stride, k_stride, panel, tile, depth, accumulate = f.parameters
    vector, width = vector_type(element, lanes), vectors * lanes

    def tile_place(row: int, column: int) -> Reg:
        return f.gep(tile, row * width + column * lanes, element)

    places = [(row, column) for row in range(rows) for column in range(vectors)]

    def previous() -> list[Reg]:
        return [f.load(vector, tile_place(row, column), align=64) for row, column in places]

    start = f.if_(f.icmp("ne", accumulate, 0), previous, lambda: [f.constant(vector, 0.0)] * len(places))

    def step(k: Int, *totals: Reg) -> list[Reg]:
        row_of_b = f.gep(panel, f.mul(k, width), element)
        b = [f.load(vector, f.gep(row_of_b, column * lanes, element), align=64) for column in range(vectors)]
        column_of_a = f.gep(a, f.mul(k, k_stride), element)
        sums = list(totals)
        for row in range(rows):
            x = f.splat(f.load(element, f.gep(column_of_a, f.mul(row_stride, row), element), align=1), lanes)
            for column in range(vectors):
                place = row * vectors + column
                sums[place] = f.fma(x, b[column], sums[place])
        return sums

    totals = f.loop(0, depth, 1, step, start, at_least_once=True)
    for (row, column), total in zip(places, totals, strict=True):
        f.store(total, tile_place(row, column), align=64)
    f.ret()
    return f
