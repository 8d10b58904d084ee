"""Contractions on a CPU: by panels of columns or lines along k, with which operand as rows, what is copied first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import PAIR
from onnxc.compiler.codegen_cpu.inner_loops.micro_kernels import ProductTypes
from onnxc.compiler.codegen_cpu.inner_loops.tile_kernels import TILE_ROWS, TILE_STEPS, has_bfloat_tiles
from onnxc.compiler.codegen_cpu.schedules.byte_products import byte_schedule, is_of_bytes
from onnxc.compiler.codegen_cpu.schedules.constant_panels import constant_panels, has_constant_panels
from onnxc.compiler.codegen_cpu.schedules.element_threads import element_threads
from onnxc.compiler.codegen_cpu.schedules.elements import CACHE_SETS, MOST_IN_A_SET, ROW_BLOCK
from onnxc.compiler.codegen_cpu.schedules.products import GRAIN_PRODUCTS, register_rows
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I16, I32, I64, U32, U64, DType
from onnxc.compiler.ir.module import Block
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.fusion.element_cost import element_cost
from onnxc.compiler.planning.loops.matrix_products import Problem, line_problem, panel_problem
from onnxc.compiler.planning.schedules import Arithmetic, ContractionSchedule, Packing, Schedule, Threads, Tile
from onnxc.compiler.target import Target
from onnxc.runtime.cpu import CACHE_LINE_BYTES

__all__ = [
    "BFLOAT_GROUP",
    "contraction_candidates",
    "contraction_measures",
    "contraction_problem",
    "product_types",
]

FLOATS = (F64, F32, F16, BF16)
"""What is multiplied in panels and lines: 16-bit floats are widened on the way."""

WORDS = (I32, U32, I64, U64)
"""Integers that are multiplied so too, where both sides and the sums are of one type: i32[768, 768] by a vector took
745 us by the general kernel, and 169 by lines."""

CHUNK_ROWS = 512
"""The most rows of A against one panel, which then comes from far memory once for all of them. Of 128x768x3072 chunks
of 96 took 8.4 ms and one of all 7.1; of 512x768x3072 on Zen 5 256 had 91 % of the peak, 512 had 93, 768 and 1024 92.
"""

LEAST_UNITS = 4
"""The units that a product has for threads to share, where its chunks then have the rows that are worth it."""

LEAST_CHUNK_ROWS = 96
"""Rows beside which reading their panel once more takes little time."""

GROUP_BLOCKS = 2
"""The blocks of rows in registers that are multiplied by the last of a panel before their results are written: these
are still in the first-level cache. 6 products of 1500x64x1500 took 44 ms with 2 of them and 49 ms with 16.
"""

SHORT_DEPTH = 96
"""Up to so much of k a unit has no more rows, where panels are not packed for it: results are most of what moves, and
are written along their rows. On Zen 1 with 12 and with 256 rows, thousands of cycles:
1200x32x512 3.3 and 3.8, 1200x64x2048 22.4 and 25.6, 1200x96x1000 16.3 and 16.8; 1200x128x1000 22.9 and 21.2.
"""

SHALLOW_DEPTH, SHALLOW_BYTES, SHALLOW_BLOCK_BYTES = 64, 1 << 20, 1 << 14
"""Up to so much of k, and of B, the sums of a tile go from registers to the result; a unit of rows has so much of B at
a time, which stays in the nearest cache.

On Zen 5, us so and by panels: 4096 by 256 with k of 3 46 and 71, of 16 134 and 168, of 32 261 and 305, of 64 510 and
555, of 128 1045 and 1041; 100000 by 16 with 64 1214 and 2351, 20000 by 16 with 128 424 and 372.
"""

SHALLOW_ROWS, SHALLOW_VECTORS, SHALLOW_UNIT_ROWS = (12, 8, 6, 4), 16, 64
"""The rows that such a tile may have, the vectors of all of them at most, and the rows of a unit of work."""

SHALLOW_PACKED_ROWS = 16
"""Rows for which panels of few steps are worth packing."""

SHALLOW_FINISH = 40
"""The simple instructions for an element up to which what follows is written out for each vector of such a tile."""

BLOCK_DEPTH = 1536
"""How much of k is multiplied before the next block of a panel is read, or packed, which is in the second-level cache
then. On Zen 5 512x3072x768 and 1024x1024x1024 had 93 and 91 % of the peak with 512, and 95 and 94 with 1024 and with
1536, which is one block for more: 1500x1536x384 and 512x1280x320 took 0.993 and 0.985 of the time with it. Packed on
the way, 6 products of 1500x1500x64 took 26.4, 24.2 and 23.9 ms with 256, 512 and 1024."""

TILED_ROWS, TILED_DEPTH = 256, 512
"""Rows of a chunk, and of k, for tile registers: all of them may be copied first, and are finished together."""

BFLOAT_GROUP = 2
"""Neighbours along k that a tile register multiplies at once."""

TILE_WIDTH = 2 * TILE_ROWS
"""The columns of two tiles, whose sums with two tiles of rows are in registers."""

SWEEP_COLUMNS = 1024
"""Columns of a unit that goes over rows of B: their sums stay in the first-level cache, and a row is a page or so."""

BYTE_SWEEP_COLUMNS = 2048
"""The same of bytes, whose sums are wider than they are: half a page of a row. 1x768x3072 took 82, 77 and 73 us with
1024, 2048 and 4096, which leaves threads one unit."""

LINE_ROWS = 64
"""Rows of a unit that multiplies lines: their results are written as whole vectors."""

ONE = Typical(1, 0, 1)
FEW = Typical(4, 2, 16)
MANY = Typical(1024)
"""A size that only a call decides. Few rows, which models have left of a product, are not worth packing its other side;
one row reads it in order: 1x768x3072 took 1180 us by the panels that serve a few, and 560 by sweeps.
"""


def product_types(schedule: ContractionSchedule, gemm: Problem) -> ProductTypes:
    """What the micro-kernels of a schedule multiply: what is packed on the way has the type of the sums."""
    sums = schedule.arithmetic.sums
    if schedule.arithmetic.operands == str(BF16):
        return ProductTypes(BF16, BF16, F32, BFLOAT_GROUP)
    if schedule.arithmetic.operands == str(I16):
        return ProductTypes(gemm.a.base.dtype, gemm.b.base.dtype, sums, PAIR)
    return ProductTypes(
        sums if schedule.packs_rows else gemm.a.base.dtype,
        sums if schedule.packs_columns else gemm.b.base.dtype,
        sums,
    )


def contraction_problem(block: Block, schedule: ContractionSchedule) -> Problem:
    """The strided loops that a schedule is for."""
    gemm = (line_problem if schedule.algorithm == "lines" else panel_problem)(block, schedule.left)
    assert gemm is not None, schedule
    return gemm


def contraction_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """How many rows either operand has for the other, and how deep they are multiplied."""
    dot = next(op for op in problem.block.ops if op.name == "dot")
    left, right, result = parse_equation(dot.attributes["equation"])
    sizes = dict(zip(left + right, dot.operands[0].shape + dot.operands[1].shape, strict=True))
    lone = (product(sizes[x] for x in own if x not in other) for own, other in ((left, right), (right, left)))
    depth = product(sizes[letter] for letter in left if letter not in result)
    ranges = {"left": (ONE, FEW, MANY), "right": (MANY,)}
    rows = {name: Measure(size, ranges[name]) for name, size in zip(ranges, lone, strict=True)}
    return {**rows, "depth": Measure(depth, (MANY,))}


def contraction_candidates(problem: KernelProblem, case: Case, target: Target) -> Sequence[Schedule]:
    """Panels and lines with either operand as rows; for what these are not written for, the general kernel."""
    dot = next(op for op in problem.block.ops if op.name == "dot")
    in_bytes = _of_bytes(problem, case, target) if is_of_bytes(dot) else None
    if in_bytes is not None:
        return (in_bytes,)
    dtypes = (*(operand.dtype for operand in dot.operands), dot.dtype())
    sums = _sums(dtypes)
    if sums is None:
        why = f"{dtypes[0]} by {dtypes[1]} to {dtypes[2]}: panels multiply floats, or words of one type"
        return (_general(problem.block, target, why),)
    candidates = tuple(each for left in (0, 1) for each in _of_operand(problem, left, sums, case, target))
    return candidates or (_general(problem.block, target, "an operand does not lie in steps of strides"),)


def _of_bytes(problem: KernelProblem, case: Case, target: Target) -> ContractionSchedule | None:
    """The schedule of a contraction of bytes: one row reads B in order, where panels would be packed of it.

    1x768 by 768x3072 took 310 us by panels, and 77 by sweeps.
    """
    lanes = target.vector_bits // I32.bits
    for left, name in enumerate(("left", "right")):
        gemm = panel_problem(problem.block, left)
        if gemm is None or problem.is_constant(problem.block.parameters.index(gemm.a.base)):
            continue
        if (gemm.rows == 1 or case.most[name] == 1) and _is_by_sweeps(problem, gemm, lanes):
            return replace(_sweeps(gemm, I16, I32, target), tile=Tile(1, BYTE_SWEEP_COLUMNS, 1))
    return byte_schedule(problem, target)


def _sums(dtypes: Sequence[DType]) -> DType | None:
    """The type that panels and lines sum up in, for those of the operands and the result; None for others."""
    if all(dtype in FLOATS for dtype in dtypes):
        return F64 if F64 in dtypes else F32
    return dtypes[0] if dtypes[0] in WORDS and len(set(dtypes)) == 1 else None


def _of_operand(
    problem: KernelProblem, left: int, sums: DType, case: Case, target: Target
) -> Iterator[ContractionSchedule]:
    """The candidates with an operand as rows."""
    by_panels, by_lines = panel_problem(problem.block, left), line_problem(problem.block, left)
    if by_panels is not None:
        if _is_by_sweeps(problem, by_panels, target.vector_bits // sums.bits):
            yield _sweeps(by_panels, sums, sums, target)
        rows = by_panels.rows if isinstance(by_panels.rows, int) else case.sizes[("left", "right")[left]]
        if _is_shallow(problem, by_panels, rows, sums):
            yield _shallow(by_panels, problem, sums, target)
        if has_bfloat_tiles(target) and _is_by_tiles(problem, by_panels):
            yield _bfloat_tiles(by_panels, problem)
        for vectors in _widths(by_panels, target.vector_bits // sums.bits):
            for packs in _ways_to_read(problem, by_panels, sums):
                yield _panels(by_panels, problem, vectors, packs, sums, target)
    if by_lines is not None and _is_by_lines(by_lines):
        yield _lines(by_lines, sums, target)


def _widths(gemm: Problem, lanes: int) -> Sequence[int]:
    """The vectors that a panel may have: none beyond what all columns fill, which would be zeros."""
    most = -(-gemm.columns // lanes) if isinstance(gemm.columns, int) else 4
    return tuple(vectors for vectors in (4, 3, 2, 1) if vectors <= max(most, 1))


def _is_by_tiles(problem: KernelProblem, gemm: Problem) -> bool:
    """Whether bf16 along k is multiplied by constant panels of bf16, in one sum."""
    dtypes = {gemm.a.base.dtype, gemm.b.base.dtype}
    is_dense = gemm.a_stride(gemm.k) == 1 and not gemm.outer_k
    return dtypes == {BF16} and gemm.dot.dtype() != F64 and is_dense and has_constant_panels(problem, gemm)


def _is_by_sweeps(problem: KernelProblem, gemm: Problem, lanes: int) -> bool:
    """Whether what may be one row is multiplied by rows that are read in order, and are longer than a panel is wide."""
    is_long = not isinstance(gemm.columns, int) or gemm.columns > 4 * lanes
    is_lone = not isinstance(gemm.rows, int) or gemm.rows == 1
    return is_lone and gemm.b_strides[gemm.n] == 1 and is_long and not has_constant_panels(problem, gemm)


def _is_by_lines(gemm: Problem) -> bool:
    """Whether rows are dense along k, and B too, or a line of it for all rows can be copied."""
    return gemm.a_stride(gemm.k) == 1 and (gemm.b_stride(gemm.k) == 1 or gemm.b_stride(gemm.m) == 0)


def _is_shallow(problem: KernelProblem, gemm: Problem, rows: int, sums: DType) -> bool:
    """Whether rows take few steps with a small B, all of one type, and what follows is not much either."""
    dtypes = {gemm.a.base.dtype, gemm.b.base.dtype, gemm.dot.dtype(), sums}
    if not dtypes <= {F32, F64} or len(dtypes) > 1 or gemm.outer_k:
        return False
    if not isinstance(gemm.depth, int) or not 0 < gemm.depth <= SHALLOW_DEPTH:
        return False
    size = _bytes_of_columns(gemm, sums)
    is_small = size is None or size <= SHALLOW_BYTES
    is_read = has_constant_panels(problem, gemm) or 1 in (gemm.b_strides[gemm.n], gemm.b_stride(gemm.k))
    if _packs_shallow(problem, gemm, sums):
        has_rows = rows >= SHALLOW_PACKED_ROWS
    else:
        has_rows = not isinstance(gemm.rows, int) or rows >= SHALLOW_ROWS[-1]
    cost = sum(element_cost(op) for op in problem.block.ops if op is not gemm.dot)
    return is_small and is_read and has_rows and not _share_a_set(gemm) and cost <= SHALLOW_FINISH


def _packs_shallow(problem: KernelProblem, gemm: Problem, sums: DType) -> bool:
    """Whether panels of few steps are packed for the rows of a unit: of more columns than the nearest cache holds, and
    where columns do not lie side by side."""
    size = _bytes_of_columns(gemm, sums)
    is_far = size is None or size > SHALLOW_BLOCK_BYTES
    return not has_constant_panels(problem, gemm) and (is_far or gemm.b_strides[gemm.n] != 1)


def _bytes_of_columns(gemm: Problem, sums: DType) -> int | None:
    """Those of B, for one position of the outer letters; None where only a call knows."""
    elements = product((gemm.depth, gemm.columns))
    return elements * sums.itemsize if isinstance(elements, int) else None


def _share_a_set(gemm: Problem) -> bool:
    """Whether the elements of a row, each on a line that the next rows want too, share a set of the nearest cache.

    By 256 columns 4096 rows of 16, which lie along k, took 199 us by few rows at a time, and 175 by panels; 4080 rows,
    136 and 166.
    """
    stride = gemm.a_stride(gemm.k)
    shared = isinstance(stride, int) and stride * gemm.a.base.dtype.itemsize % (CACHE_SETS * CACHE_LINE_BYTES) == 0
    return shared and isinstance(gemm.depth, int) and gemm.depth > MOST_IN_A_SET


def _ways_to_read(problem: KernelProblem, gemm: Problem, sums: DType) -> Sequence[bool]:
    """Whether panels may be, or must be, packed on the way."""
    if has_constant_panels(problem, gemm):
        return (False,) if gemm.b.base.dtype == sums else (False, True)
    return (True, False) if gemm.b_strides[gemm.n] == 1 else (True,)


def _panels(
    gemm: Problem, problem: KernelProblem, vectors: int, packs: bool, sums: DType, target: Target
) -> ContractionSchedule:
    is_constant = has_constant_panels(problem, gemm)
    lanes = target.vector_bits // sums.bits
    width = vectors * lanes
    parameter = problem.block.parameters.index(gemm.b.base)
    way = "packed on the way" if packs else "packed when it is compiled" if is_constant else "read in place"
    is_short = not packs and isinstance(gemm.depth, int) and gemm.depth <= SHORT_DEPTH
    registers = register_rows(vectors, target)
    rows = GROUP_BLOCKS * registers if is_short else _chunk_rows(gemm, width, CHUNK_ROWS)
    return ContractionSchedule(
        algorithm="panels",
        tile=Tile(rows, width, BLOCK_DEPTH),
        arithmetic=Arithmetic(str(sums), sums),
        registers=Tile(registers, width),
        left=gemm.left,
        packs_rows=gemm.a.base.dtype != sums,
        packs_columns=packs,
        workers=Threads(lanes, GRAIN_PRODUCTS),
        packing=Packing(parameter, constant_panels(gemm, width)) if is_constant else None,
        why=f"B is {way}",
    )


def _shallow(gemm: Problem, problem: KernelProblem, sums: DType, target: Target) -> ContractionSchedule:
    lanes = target.vector_bits // sums.bits
    rows, vectors = _shallow_tile(gemm, lanes, target)
    width, parameter = vectors * lanes, problem.block.parameters.index(gemm.b.base)
    is_constant = has_constant_panels(problem, gemm)
    assert isinstance(gemm.depth, int), gemm
    packs = _packs_shallow(problem, gemm, sums)
    way = "packed when it is compiled" if is_constant else "packed on the way" if packs else "read in place"
    block = max(SHALLOW_BLOCK_BYTES // (gemm.depth * sums.itemsize * width), 1) * width
    if isinstance(gemm.columns, int):
        # In parts of about one size.
        block = -(-gemm.columns // (max(-(-gemm.columns // block), 1) * width)) * width
    return ContractionSchedule(
        algorithm="shallow",
        tile=Tile(SHALLOW_UNIT_ROWS, block, gemm.depth),
        arithmetic=Arithmetic(str(sums), sums),
        registers=Tile(rows, width),
        left=gemm.left,
        workers=Threads(lanes, GRAIN_PRODUCTS),
        packing=Packing(parameter, constant_panels(gemm, width)) if is_constant else None,
        packs_columns=packs,
        why=f"few steps along k, B is {way}",
    )


def _shallow_tile(gemm: Problem, lanes: int, target: Target) -> tuple[int, int]:
    """The rows of the widest panel, and its vectors, that are in registers with a step of the panel and an element."""
    return next(
        (rows, vectors)
        for vectors in _widths(gemm, lanes)
        for rows in SHALLOW_ROWS
        if rows * vectors <= SHALLOW_VECTORS and (rows + 1) * vectors < target.vector_registers
        if not isinstance(gemm.rows, int) or rows <= gemm.rows
    )


def _bfloat_tiles(gemm: Problem, problem: KernelProblem) -> ContractionSchedule:
    """Pairs along k, in tile registers; rows that do not end with a tile are copied, with zeros behind them."""
    width, parameter = TILE_WIDTH, problem.block.parameters.index(gemm.b.base)
    panels = constant_panels(gemm, width, group=BFLOAT_GROUP, whole=TILE_STEPS)
    return ContractionSchedule(
        algorithm="panels",
        tile=Tile(_chunk_rows(gemm, width, TILED_ROWS), width, TILED_DEPTH),
        arithmetic=Arithmetic(str(BF16), F32),
        registers=Tile(2 * TILE_ROWS, width),
        left=gemm.left,
        packs_rows=not isinstance(gemm.depth, int) or gemm.depth % (BFLOAT_GROUP * TILE_STEPS) != 0,
        workers=Threads(width // 2, GRAIN_PRODUCTS),
        packing=Packing(parameter, panels),
        why="tile registers multiply pairs of bf16",
    )


def _chunk_rows(gemm: Problem, width: int, most: int) -> int:
    """`most`, as a chunk may have, or all rows in chunks of one size; fewer where there are few units for threads."""
    panels = product(gemm.sizes[letter] for letter in gemm.outer) * floordiv(gemm.columns + width - 1, width)
    chunks = -(-LEAST_UNITS // panels) if isinstance(panels, int) and panels > 0 else 1
    if not isinstance(gemm.rows, int):
        return most if chunks == 1 else LEAST_CHUNK_ROWS
    most = min(most, max(LEAST_CHUNK_ROWS, -(-gemm.rows // chunks)))
    return max(1, -(-gemm.rows // max(1, -(-gemm.rows // most))))


def _sweeps(gemm: Problem, operands: DType, sums: DType, target: Target) -> ContractionSchedule:
    lanes = target.vector_bits // sums.bits
    return ContractionSchedule(
        algorithm="sweeps",
        tile=Tile(1, SWEEP_COLUMNS, 1),
        arithmetic=Arithmetic(str(operands), sums),
        left=gemm.left,
        workers=Threads(lanes, GRAIN_PRODUCTS),
        why="one row, and columns that are read in order",
    )


def _lines(gemm: Problem, sums: DType, target: Target) -> ContractionSchedule:
    lanes = target.vector_bits // sums.bits
    return ContractionSchedule(
        algorithm="lines",
        tile=Tile(LINE_ROWS, 1, BLOCK_DEPTH),
        arithmetic=Arithmetic(str(sums), sums),
        registers=Tile(min(8, lanes), lanes),
        left=gemm.left,
        packs_columns=gemm.b_stride(gemm.k) != 1,
        workers=Threads(lanes, GRAIN_PRODUCTS),
        why="rows and columns are dense along k",
    )


def _general(block: Block, target: Target, why: str) -> ContractionSchedule:
    dot = next(op for op in block.ops if op.name == "dot")
    return ContractionSchedule(
        algorithm="general",
        tile=Tile(1, ROW_BLOCK),
        arithmetic=Arithmetic(str(dot.dtype()), dot.dtype()),
        workers=element_threads(target),
        why=why,
    )
