"""Products of bytes or bf16 by the tile registers of a processor: 16 rows by 16 columns, 64 bytes deep, at a time.

A panel is [step of k][width][4] of bytes or [step of k][width][2] of bf16, with whole tiles along k: either way a step
has as many bytes as the sums of a row. Signs of bytes are as they are: an instruction for each pair of them. Tiles are
set up by each call and given back, so that nothing else meets them.
"""

from functools import partial
from itertools import product

from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import GROUP
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import ProductTypes, library_function
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, constant, register, vector_type
from onnxc.compiler.ir.dtypes import BF16
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

__all__ = ["TILE_DEPTH", "TILE_ROWS", "TILE_STEPS", "TileKernel", "has_bfloat_tiles", "has_tiles"]

TILE_ROWS = 16
TILE_STEPS = 16
TILE_DEPTH = GROUP * TILE_STEPS
"""Rows of a tile of A or of sums; steps along k, the rows of a tile of a panel; and how many products these are."""

ROW_BYTES = 64
"""A row of any tile."""

PREFETCHED_TILES = 2
"""How far ahead a panel is fetched. 16 rows of bf16 by 768x3072 had 91, 112 and 120 GFLOP/s with 0, 1 and 2."""

# Registers: sums of two tiles of rows by two of columns, rows of A, columns of a panel.
_SUMS, _ROWS, _COLUMNS = (0, 1, 2, 3), (4, 5), (6, 7)


def has_tiles(target: Target) -> bool:
    """Whether a target has tile registers for bytes."""
    return target.has("amx-int8") and target.vector_bits == 8 * ROW_BYTES


def has_bfloat_tiles(target: Target) -> bool:
    """Whether a target has tile registers for bf16."""
    return target.has("amx-bf16") and target.vector_bits == 8 * ROW_BYTES


@record
class TileKernel:
    """A function of the library: any number of rows against a panel of so many tiles of columns."""

    types: ProductTypes
    tiles: int

    @property
    def name(self) -> str:
        return f"multiply_tiles_{self.types}_x{self.tiles}"

    def write(self, target: Target) -> FunctionBuilder:
        """void multiply(ptr a, i64 bytes of a row, ptr panel, ptr sums, i64 depth, i64 rows, i64 accumulate)

        sums[r][j] = (accumulate ? sums[r][j] : 0) + the sum over k of a[r][k] * panel[k][j]; `depth`
        counts tiles and is at least 1. Rows of A are read to the end of the last tile.
        """
        parameters = "ptr a, i64 row_stride, ptr panel, ptr sums, i64 depth, i64 rows, i64 accumulate"
        f = library_function(self.name, parameters, target)
        rows = f.parameters[5]
        shape = f.alloca("i8", ROW_BYTES)
        pairs = f.mul(f.sdiv(rows, 2 * TILE_ROWS), 2 * TILE_ROWS)
        _set_up(f, shape, TILE_ROWS)
        f.loop(0, pairs, 2 * TILE_ROWS, partial(self._blocks, f, 2))
        whole = f.mul(f.sdiv(rows, TILE_ROWS), TILE_ROWS)
        f.loop(pairs, whole, TILE_ROWS, partial(self._blocks, f, 1))

        def rest() -> None:
            _set_up(f, shape, f.sub(rows, whole))
            self._blocks(f, 1, whole)

        f.if_(f.icmp("slt", whole, rows), rest)
        f.call("llvm.x86.tilerelease", "void")
        f.ret()
        return f

    def _blocks(self, f: FunctionBuilder, high: int, row: Int) -> None:
        """`high` tiles of rows from one on against all columns, two tiles of these at a time."""
        for first in range(0, self.tiles, 2):
            self._block(f, (high, min(2, self.tiles - first)), row, first)

    def _block(self, f: FunctionBuilder, shape: tuple[int, int], row: Int, first: int) -> None:
        a, row_stride, panel, sums, depth, _, accumulate = f.parameters
        (high, wide), width = shape, self.tiles * TILE_ROWS
        a = f.gep(a, f.mul(row, row_stride))
        sums = f.gep(sums, f.add(f.mul(row, width), first * TILE_ROWS), "i32")
        panel = f.gep(panel, first * ROW_BYTES)
        tiles = [(i, j) for i in range(high) for j in range(wide)]

        def address(tile: tuple[int, int]) -> Reg:
            return f.gep(sums, tile[0] * TILE_ROWS * width + tile[1] * TILE_ROWS, "i32")

        def load() -> None:
            for tile in tiles:
                _load(f, _sum(tile), address(tile), GROUP * width)

        def clear() -> None:
            for tile in tiles:
                f.call("llvm.x86.tilezero", "void", constant("i8", _sum(tile)))

        f.if_(f.icmp("ne", accumulate, 0), load, clear)

        def step(k: Int) -> None:
            columns = f.gep(panel, f.mul(k, TILE_DEPTH * width))
            for j in range(wide):
                _load(f, _COLUMNS[j], f.gep(columns, j * ROW_BYTES), GROUP * width)
            for line, j in product(range(TILE_STEPS), range(wide)):
                ahead = PREFETCHED_TILES * TILE_DEPTH + line * GROUP
                f.prefetch(f.gep(columns, ahead * width + j * ROW_BYTES))
            for i in range(high):
                rows = f.gep(a, f.add(f.mul(row_stride, i * TILE_ROWS), f.mul(k, TILE_DEPTH)))
                _load(f, _ROWS[i], rows, row_stride)
            for tile in tiles:
                registers = (_sum(tile), _ROWS[tile[0]], _COLUMNS[tile[1]])
                f.call(self._instruction, "void", *(constant("i8", each) for each in registers))

        f.loop(0, depth, 1, step, at_least_once=True)
        for tile in tiles:
            stride = constant("i64", GROUP * width)
            f.call("llvm.x86.tilestored64", "void", constant("i8", _sum(tile)), address(tile), stride)

    @property
    def _instruction(self) -> str:
        if self.types.a == BF16:
            return "llvm.x86.tdpbf16ps"
        signs = ("s" if dtype.is_signed else "u" for dtype in (self.types.a, self.types.panel))
        return f"llvm.x86.tdpb{''.join(signs)}d"


def _sum(tile: tuple[int, int]) -> int:
    return _SUMS[2 * tile[0] + tile[1]]


def _load(f: FunctionBuilder, tile: int, address: Reg, stride: Int) -> None:
    f.call("llvm.x86.tileloadd64", "void", constant("i8", tile), address, stride)


def _set_up(f: FunctionBuilder, shape: Reg, rows: Int) -> None:
    """Tiles of sums and of A with so many rows, those of a panel with all, each row of 64 bytes."""
    heights = vector_type("i8", 8)
    count = f.splat(register(f.convert("trunc", rows, "i8")), 8) if isinstance(rows, Reg) else constant(heights, rows)
    is_column = constant(vector_type("i1", 8), [tile in _COLUMNS for tile in range(8)])
    # The layout of palette 1: its number, bytes of a row from 16 on, rows from 48 on.
    f.store(constant(vector_type("i8", ROW_BYTES), 0), shape, align=64)
    f.store(constant("i8", 1), shape)
    f.store(constant(vector_type("i16", 8), ROW_BYTES), f.gep(shape, 16), align=16)
    f.store(f.select(is_column, constant(heights, TILE_STEPS), count), f.gep(shape, 48), align=16)
    f.call("llvm.x86.ldtilecfg", "void", shape)
