"""Contractions of bytes on a CPU: which these are, how wide their panels are, and what is packed on the way."""

from onnxc.compiler.codegen_cpu.inner_loops.byte_panels import group_size, row_type, whole_steps
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import FLIPPED_ZERO, GROUP, PAIR
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import ProductTypes
from onnxc.compiler.codegen_cpu.inner_loops.tile_kernels import TILE_DEPTH, has_tiles
from onnxc.compiler.codegen_cpu.schedules.constant_panels import constant_panels, has_constant_panels
from onnxc.compiler.codegen_cpu.schedules.products import GRAIN_PRODUCTS, panel_vectors, register_rows
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I8, I16, I32, U8, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.loops.matrix_products import Problem, find_problem
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.planning.schedules import Arithmetic, ContractionSchedule, Packing, Threads, Tile
from onnxc.compiler.target import Target, without

__all__ = [
    "byte_schedule",
    "byte_types",
    "byte_vectors",
    "flipped_sums",
    "is_of_bytes",
    "multiplying_target",
    "reads_bytes",
]

CHUNK_ROWS = 256
"""The most rows of A against one panel, which then comes from far memory once for all of them."""

MOST_PACKED_BYTES = {32: 1 << 19, 16: 1 << 18}
"""The most that rows take that are packed for all panels, for 32 and for 16 vector registers: in the second-level
cache, beside a panel."""

LEAST_ROWS = 32
"""Chunks are of so many rows, which tile registers multiply at once, or of a multiple of it."""

ROWS_BESIDE = 96
"""Rows that are packed for each panel again, as their depth is not known, or too large."""

BLOCK_DEPTH = 2048
"""How much of k is multiplied before the next panel block is read: 128 KiB of a panel, in the second-level cache."""

PACK_DEPTH = 1024
"""The same for a B that is packed on the way, on the stack."""


def is_of_bytes(dot: Op) -> bool:
    """Whether a contraction sums products of 8 bits in i32."""
    return dot.dtype() == I32 and all(operand.dtype in (I8, U8) for operand in dot.operands)


def reads_bytes(dot: Op, ordinal: int, view: View) -> bool:
    """Whether groups along k are read of an operand side by side; or neighbouring columns, of the one that has them."""
    *terms, result = parse_equation(dot.attributes["equation"])
    letters, other = terms[ordinal], terms[1 - ordinal]
    dense = [letter for letter, stride in zip(letters, view.strides, strict=True) if stride == 1]
    has_columns = bool(result) and result[-1] in letters and result[-1] not in other
    wanted = [letter for letter in letters if letter not in result][-1:] + [result[-1]] * has_columns
    return any(letter in dense for letter in wanted)


def multiplying_target(gemm: Problem, is_constant: bool, target: Target) -> Target:
    """The target as a product uses it: without tile registers where it fills no tile of a B that is packed on the way.

    Both operands are packed for whole tiles: 144 products of 49 by 49 bytes with k of 32 took 194 us so, and take 97 by
    vectors; 96 with k of 49 for 32 columns 52 and 44.
    """
    is_shallow = isinstance(gemm.depth, int) and gemm.depth < TILE_DEPTH
    return without(target, "amx-int8") if is_shallow and not is_constant else target


def byte_schedule(problem: KernelProblem, target: Target) -> ContractionSchedule | None:
    """The schedule of a contraction of bytes; None where no axis is of one operand alone, or none is strided.

    `arithmetic` names the type of the rows as they are multiplied.
    """
    gemm = find_problem(problem.block)
    if gemm is None or not gemm.n:
        return None
    parameter = problem.block.parameters.index(gemm.b.base)
    is_constant = has_constant_panels(problem, gemm)
    target = multiplying_target(gemm, is_constant, target)
    lanes, own = target.vector_bits // I32.bits, gemm.a.base.dtype
    vectors = byte_vectors(gemm.columns, lanes, target)
    rows = row_type(own, gemm.b.base.dtype, target)
    width = vectors * lanes
    group, whole = group_size(target), whole_steps(target)
    shape = {"group": group, "sums_by": flipped_sums(rows, own), "whole": whole}
    panels = constant_panels(gemm, width, **shape) if is_constant else None
    is_read = rows == own and _reads_groups(gemm, group * whole) and not (has_tiles(target) and gemm.columns != width)
    chunk = _chunk_rows(gemm, None if is_read else rows, target)
    return ContractionSchedule(
        algorithm="bytes",
        tile=Tile(chunk or ROWS_BESIDE, width, BLOCK_DEPTH if is_constant else PACK_DEPTH),
        arithmetic=Arithmetic(str(rows), I32),
        registers=Tile(register_rows(vectors, target), width),
        workers=Threads(lanes, GROUP * GRAIN_PRODUCTS),
        left=gemm.left,
        packs_rows=not is_read,
        keeps_rows=not is_read and chunk is not None,
        packs_columns=not is_constant,
        packing=None if panels is None else Packing(parameter, panels),
        why=f"B is packed {'when it is compiled' if is_constant else 'on the way'}",
    )


def byte_types(arithmetic: Arithmetic, panel: DType) -> ProductTypes:
    """What the micro-kernels of a schedule multiply, with a panel of bytes of that type."""
    rows = next(dtype for dtype in (I8, U8, I16) if arithmetic.operands == str(dtype))
    return ProductTypes(rows, panel, I32, PAIR if rows == I16 else GROUP)


def flipped_sums(rows: DType, own: DType) -> int:
    """What the sums of a column are multiplied by for rows of `own` type whose top bits are flipped; 0 for others."""
    if rows in (own, I16):
        return 0
    return -FLIPPED_ZERO if rows == I8 else FLIPPED_ZERO


def _chunk_rows(gemm: Problem, packed: DType | None, target: Target) -> int | None:
    """The rows of a chunk, all chunks of about one size; None where no whole rows of so many can be packed.

    packed: the type that they are packed in, None where they are read in place.
    """
    most = CHUNK_ROWS
    if packed is not None:
        room = MOST_PACKED_BYTES[target.vector_registers] // packed.itemsize
        if not isinstance(gemm.depth, int) or gemm.depth * LEAST_ROWS > room:
            return None
        most = min(CHUNK_ROWS, room // max(gemm.depth, 1) // LEAST_ROWS * LEAST_ROWS)
    if not isinstance(gemm.rows, int):
        return most
    chunks = max(1, -(-gemm.rows // most))
    return max(1, -(-gemm.rows // (chunks * LEAST_ROWS)) * LEAST_ROWS)


def byte_vectors(columns: Dim, lanes: int, target: Target) -> int:
    """The width of panels. Tile registers hold the sums of two vectors: what wider panels read lies in half of the sets
    of the first cache."""
    return panel_vectors(columns, lanes, target, (2, 1) if has_tiles(target) else (4, 3, 2, 1))


def _reads_groups(gemm: Problem, whole: int) -> bool:
    """Whether rows are `whole` elements side by side, or a multiple of them, so that they are read in place."""
    is_whole = isinstance(gemm.depth, int) and gemm.depth % whole == 0
    return is_whole and gemm.a_stride(gemm.k) == 1
