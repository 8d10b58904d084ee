"""Products with weights of few bits on a CPU: which have a kernel, how wide panels are, how many rows go at once."""

from collections.abc import Mapping

from onnxc.compiler.codegen_cpu.inner_loops.byte_block_kernels import SUMMED_BYTES
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import dotted_codes
from onnxc.compiler.codegen_cpu.schedules.products import GRAIN_PRODUCTS
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, I8, I32
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.planning.bit_layouts import PackedCodes, PackedGroups
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.layouts import PackedPanels, known_sizes
from onnxc.compiler.planning.loops.views import operand_view
from onnxc.compiler.planning.schedules import Arithmetic, BlockProductSchedule, Packing, Threads, Tile
from onnxc.compiler.target import Target

__all__ = ["block_schedule", "holds_weights", "is_native", "multiplies_bytes", "row_vectors"]

ROW_VECTORS: Mapping[int, Mapping[int, int]] = {
    32: {8: 2, 4: 4, 2: 4, 1: 4},
    16: {8: 1, 4: 2, 2: 2, 1: 2},
}
"""How many vectors of columns are multiplied by so many rows at once, for 32 and for 16 vector registers: their sums,
and what becomes floats for them, are in registers. One row has sums enough to hide the latency of a multiply-add.
"""

CHUNK_ROWS = 256
"""The most rows of a unit of work, for all of which the weights of a panel become floats once."""

MANY_ROWS = 48
"""The fewest rows of a unit for which weights are written out as floats, and multiplied as those of any product.

By 1024 x 2816 of 4 bits a row took 58 us in registers; written out 51 us, and 330 us for writing.
"""

MOST_STARTS = 1 << 13
"""How many blocks the rows of a chunk of bytes have in all, for each of which there is a word on the stack."""

MOST_BLOCKS = 1 << 12
"""The most of one row."""

MOST_SUMMED = 1 << 16
"""The longest blocks whose products of bytes, of less than 8 and 9 bits, are added up in 32."""

BLOCK_DEPTH = 512
"""How much of k is written out at a time: 128 KiB of a panel, in the second-level cache."""


def is_native(op: Op) -> bool:
    """Whether floats are f32 and the model holds the weights, so that they can be packed when it is compiled."""
    x, _, *spreads = op.operands
    return all(_is_constant(each) for each in op.operands[1:]) and {x.dtype, *(each.dtype for each in spreads)} == {F32}


def holds_weights(op: Op) -> bool:
    """Whether floats are f32 and the model holds the weights that bytes are multiplied with."""
    return op.result.dtype == F32 and all(map(_is_constant, op.operands[2:]))


def multiplies_bytes(op: Op, target: Target) -> bool:
    """Whether there are instructions for codes of so many bits, and blocks are of whole words, not too many or long."""
    columns, blocks = known_sizes(op.operands[3].shape)
    fits = op.result.dtype == F32 and columns > 0 and blocks <= MOST_BLOCKS and op.int("block") <= MOST_SUMMED
    return fits and op.int("block") % SUMMED_BYTES == 0 and op.int("bits") in dotted_codes(target)


def _is_constant(value: Value) -> bool:
    return value.op is not None and value.op.name == "constant"


def row_vectors(rows: int, vectors: int, target: Target) -> int:
    """How many of the vectors of a panel so many rows are multiplied by at once."""
    return min(ROW_VECTORS[target.vector_registers][rows], vectors)


def block_schedule(problem: KernelProblem, target: Target) -> BlockProductSchedule:
    """The one schedule of a product, for any number of rows."""
    op = next((op for op in problem.block.ops if op.name == "byte_block_product"), None)
    if op is not None:
        return _byte_schedule(op, problem, target)
    op = next(op for op in problem.block.ops if op.name == "block_product")
    _, codes, *spreads = op.operands
    columns, depth = known_sizes(codes.shape)
    lanes = target.vector_bits // F32.bits
    width = lanes * _vectors(columns, lanes, target)
    most = max(ROW_VECTORS[target.vector_registers])
    bits, block = op.int("bits"), op.int("block")
    tile = Tile(_chunk_rows(op.operands[0].shape), width, _unpacked_depth(depth, block))
    return BlockProductSchedule(
        algorithm="panels",
        tile=tile,
        arithmetic=Arithmetic(str(F32), F32),
        registers=Tile(most, lanes * row_vectors(most, width // lanes, target)),
        many_rows=MANY_ROWS if tile.rows >= MANY_ROWS and tile.depth > 0 else 0,
        workers=Threads(lanes, GRAIN_PRODUCTS),
        packing=Packing(_parameter(codes, problem), PackedCodes(width, columns, depth, bits, block)),
        spreads=tuple(_packed_spread(each, width, problem) for each in spreads),
        why=f"weights of {bits} bits are packed when it is compiled, and become floats in registers",
    )


def _byte_schedule(op: Op, problem: KernelProblem, target: Target) -> BlockProductSchedule:
    x, _, codes, *spreads = op.operands
    columns, depth = known_sizes(codes.shape)
    lanes, bits, block = target.vector_bits // F32.bits, op.int("bits"), op.int("block")
    width = lanes * _vectors(columns, lanes, target)
    most = max(ROW_VECTORS[target.vector_registers])
    return BlockProductSchedule(
        algorithm="panels",
        tile=Tile(min(_chunk_rows(x.shape), max(most, MOST_STARTS // (depth // block))), width, depth),
        arithmetic=Arithmetic(str(I8), I32),
        registers=Tile(most, lanes * row_vectors(most, width // lanes, target)),
        workers=Threads(lanes, GRAIN_PRODUCTS),
        packing=Packing(_parameter(codes, problem), PackedGroups(width, columns, depth, bits, block)),
        spreads=tuple(_packed_spread(each, width, problem) for each in spreads),
        why=f"weights of {bits} bits are packed when it is compiled, and become bytes in registers",
    )


def _vectors(columns: int, lanes: int, target: Target) -> int:
    """The vectors of a panel: a power of two, of which rows are multiplied by one, two or four at once."""
    most = ROW_VECTORS[target.vector_registers][1]
    return next((vectors for vectors in (1, 2) if columns <= vectors * lanes), most)


def _chunk_rows(shape: tuple[Dim, ...]) -> int:
    rows = 1
    for size in shape[:-1]:
        rows = rows * size if isinstance(size, int) else CHUNK_ROWS
    return max(1, min(rows, CHUNK_ROWS))


def _unpacked_depth(depth: int, block: int) -> int:
    """So much of k is written out at a time: whole blocks, or a part of one."""
    return min(depth, block * (BLOCK_DEPTH // block) or BLOCK_DEPTH)


def _packed_spread(value: Value, width: int, problem: KernelProblem) -> Packing:
    """Scales or zero points [N, blocks] in panels like those of the codes, a row for each block."""
    columns, blocks = known_sizes(value.shape)
    return Packing(_parameter(value, problem), PackedPanels(width, blocks, columns, 1, blocks))


def _parameter(value: Value, problem: KernelProblem) -> int:
    view = operand_view(value)
    assert view is not None, value
    return problem.block.parameters.index(view.base)
