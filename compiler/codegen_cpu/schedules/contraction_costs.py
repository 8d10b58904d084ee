"""What contractions cost on a CPU, counted in multiply-adds of vectors.

The constants are what micro-kernels and copies took beside one multiply-add, on the processor of machines.json.
"""

from onnxc.compiler.codegen_cpu.inner_loops.tile_kernels import TILE_ROWS
from onnxc.compiler.codegen_cpu.schedules.contractions import contraction_problem
from onnxc.compiler.codegen_cpu.schedules.cost_model import cost_model
from onnxc.compiler.codegen_cpu.schedules.products import register_rows
from onnxc.compiler.ir.dtypes import BF16, F32
from onnxc.compiler.ir.primitives.contractions import parse_equation
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem
from onnxc.compiler.planning.loops.matrix_products import Problem
from onnxc.compiler.planning.loops.views import row_major
from onnxc.compiler.planning.schedules import ContractionSchedule, Threads
from onnxc.compiler.target import Target
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.records import record

__all__ = ["contraction_cost"]

UNIT_PRODUCTS = 250.0
"""A unit of work takes about 60 ns besides its products."""

CONSTANT_UNIT_PRODUCTS = 100.0
"""One whose panel was packed when it was compiled: 20 ns. On Zen 1 a row by 32x128 takes 0.3 us so, by lines 0.6."""

COPY_PRODUCTS = {"in order": 2.0, "widened": 12.0, "turned": 8.0, "gathered": 40.0}
"""A vector that is packed: in order along the lanes; from a constant panel of 16 bits, which comes from far memory; in
squares that are turned in registers; element by element.
"""

TILE_PRODUCTS = 2.5
"""16 rows by two tiles of columns, for each element along k: two instructions of 16 cycles do 32 of them."""

PANEL_OF_TILES_PRODUCTS = 8.0
"""Reading such a panel from far memory: one row by 4096x4096 had 7.2 GFLOP/s so, and 8.1 by vectors."""

ROW_COPY_PRODUCTS = 3.0
"""A vector of A that is packed for a panel."""

SPLIT_PRODUCTS = 1.6
"""What a vector of a row takes more that lies in two lines of the cache. On Zen 5 50 products, each of the row before,
by 800 rows of 200 took 237 us by lines and 142 by panels, and by 300 of 300 132 and 87; where rows are whole lines, as
768 of 192, 120 and 122.
"""

LATENCY_PRODUCTS = 8.0
"""The multiply-adds that could be made until the sum of one is there: four cycles, of two each."""


@record
class _Sizes:
    """The typical sizes of strided loops, of one position of the letters that both operands share."""

    rows: int
    columns: int
    depth: int
    others: int
    """How often they are multiplied: positions of what only one operand has, outside of rows and columns."""


def _sizes(gemm: Problem, case: Case) -> _Sizes:
    left, right = (case.sizes[name] for name in (("left", "right") if gemm.left == 0 else ("right", "left")))
    rows = gemm.rows if isinstance(gemm.rows, int) else left
    columns = gemm.columns if isinstance(gemm.columns, int) else right
    return _Sizes(rows, columns, case.sizes["depth"], max(1, left * right // max(rows * columns, 1)))


def contraction_cost(problem: KernelProblem, schedule: ContractionSchedule, case: Case, target: Target) -> float:
    """The seconds of a launch on one thread."""
    gemm = contraction_problem(problem.block, schedule)
    sizes = _sizes(gemm, case)
    products = sizes.others * _COSTS[schedule.algorithm](gemm, schedule, sizes, target)
    item, elements = schedule.arithmetic.sums.itemsize, case.sizes["left"] * case.sizes["right"]
    memory = item * ((case.sizes["left"] + case.sizes["right"]) * sizes.depth + elements)
    return cost_model(target).seconds(products, memory)


def _panel_products(gemm: Problem, schedule: ContractionSchedule, sizes: _Sizes, target: Target) -> float:
    """Multiply-adds, and what takes as long as so many of them; the last panel is as narrow as its columns are."""
    assert isinstance(schedule.workers, Threads), schedule
    lanes, vectors = schedule.workers.lanes, schedule.tile.columns // schedule.workers.lanes
    chunks = -(-sizes.rows // schedule.tile.rows)
    panels, rest = divmod(-(-sizes.columns // lanes), vectors)
    unit = UNIT_PRODUCTS if schedule.packing is None else CONSTANT_UNIT_PRODUCTS
    products = chunks * (panels + bool(rest)) * unit + sizes.rows * _finish(gemm, sizes.columns, lanes)
    for width, count in ((vectors, panels), (rest, bool(rest))):
        if count:
            products += count * sizes.depth * _panel_step(gemm, schedule, sizes.rows, width, chunks, target)
    return products


def _panel_step(
    gemm: Problem, schedule: ContractionSchedule, rows: int, vectors: int, chunks: int, target: Target
) -> float:
    """What all rows take for a step along k of one panel."""
    full = register_rows(vectors, target)
    if schedule.arithmetic.operands == str(BF16):
        copies = rows * ROW_COPY_PRODUCTS / (2 * TILE_ROWS) if schedule.packs_rows else 0.0
        return PANEL_OF_TILES_PRODUCTS + TILE_PRODUCTS * -(-rows // TILE_ROWS) + copies
    blocks, rest = divmod(rows, full)
    products = blocks * _step(full, vectors, target) + (_step(rest, vectors, target) if rest else 0.0)
    if schedule.packs_columns:
        products += chunks * vectors * COPY_PRODUCTS[_panel_copy(gemm, schedule)]
    elif schedule.packing is None or gemm.b.base.dtype != schedule.arithmetic.sums:
        # Rows that are far apart in memory, and elements that are widened: 32 and 64 rows of 768x3072 in f16 had 63 and
        # 65 GFLOP/s so, and 57 and 67 where panels were widened first.
        products += 1.6 * vectors * (blocks + bool(rest))
    return products + (rows * ROW_COPY_PRODUCTS * F32.bits / target.vector_bits if schedule.packs_rows else 0.0)


def _step(rows: int, vectors: int, target: Target) -> float:
    """A step along k of a micro-kernel, in the time of multiply-adds.

    Of 16 registers the multiply-adds, what is loaded and fetched, or the latency of one is the longest: on an EPYC of
    Zen 3 2x4, 4x3, 6x2 and 8x1 took 9.5, 12, 12 and 10.6, and 1x1 7.7.
    """
    if target.vector_registers == 16:
        lines = -(-vectors * target.vector_bits // (8 * CACHE_LINE_BYTES))
        return max(rows * vectors, rows + vectors + lines + 1, LATENCY_PRODUCTS)
    # 6x4, 8x3, 12x2 and 14x1 took 31, 32, 36 and 28, and 1x4 12.
    return vectors * (rows + 2) + rows * (4 - vectors) * 0.3


def _shallow_products(gemm: Problem, schedule: ContractionSchedule, sizes: _Sizes, target: Target) -> float:
    """Multiply-adds; loads of B for each block of rows; and vectors of the result, which are only stored."""
    assert isinstance(schedule.workers, Threads), schedule
    assert schedule.registers is not None, schedule
    vectors, units = -(-sizes.columns // schedule.workers.lanes), -(-sizes.rows // schedule.tile.rows)
    panels = -(-sizes.columns // schedule.registers.columns)
    blocks, rest = divmod(sizes.rows, schedule.registers.rows)
    products = sizes.rows * (vectors + panels) + (blocks + rest) * vectors / 2
    if schedule.packs_columns:
        products += units * vectors * COPY_PRODUCTS[_panel_copy(gemm, schedule)]
    stored = sizes.rows * _finish(gemm, sizes.columns, schedule.workers.lanes) / 2
    return units * CONSTANT_UNIT_PRODUCTS + sizes.depth * products + stored


def _panel_copy(gemm: Problem, schedule: ContractionSchedule) -> str:
    if schedule.packing is not None:
        return "widened"
    if gemm.b_strides[gemm.n] == 1:
        return "in order"
    return "turned" if gemm.b_stride(gemm.k) == 1 else "gathered"


def _finish(gemm: Problem, columns: int, lanes: int) -> float:
    """A row of the result: vectors are loaded and stored, or their elements one by one where these are far apart.

    Of 128x768 elements 6 KiB apart each took more than 20 products.
    """
    result = parse_equation(gemm.dot.attributes["equation"])[2]
    stride = row_major(gemm.dot.results[0].shape)[result.index(gemm.n)]
    return -(-columns // lanes) * (4.0 if stride == 1 else 20.0 * lanes)


def _line_products(gemm: Problem, schedule: ContractionSchedule, sizes: _Sizes, target: Target) -> float:
    """Multiply-adds along the lanes, each with a load of A, and the sums of lanes."""
    assert isinstance(schedule.workers, Threads), schedule
    lanes = schedule.workers.lanes
    split = SPLIT_PRODUCTS * target.vector_bits / (8 * CACHE_LINE_BYTES) if _splits_lines(gemm) else 0.0
    # Rows that are read again and again come from the second-level cache: 10 lines against 1000x512 took 620 us.
    row = -(-sizes.depth // lanes) * (1.3 + split if sizes.others == 1 else 8.0) + 6.0
    packed = sizes.depth / lanes * COPY_PRODUCTS["gathered"] if schedule.packs_columns else 0.0
    units = -(-sizes.rows // schedule.tile.rows)
    return sizes.rows * row + units * (packed + UNIT_PRODUCTS)


def _splits_lines(gemm: Problem) -> bool:
    """Whether most rows of A are known to begin within a line of the cache."""
    stride = gemm.a_stride(gemm.m)
    return isinstance(stride, int) and stride * gemm.a.base.dtype.itemsize % CACHE_LINE_BYTES != 0


def _sweep_products(gemm: Problem, schedule: ContractionSchedule, sizes: _Sizes, target: Target) -> float:
    """Multiply-adds, each with a load of B, which further rows read from a farther cache.

    8x512x1000 took 536 us so, and 294 by panels that are read in place.
    """
    assert isinstance(schedule.workers, Threads), schedule
    units, vectors = -(-sizes.columns // schedule.tile.columns), -(-sizes.columns // schedule.workers.lanes)
    loads = 1.5 + 3.0 * (sizes.rows - 1)
    return loads * vectors * sizes.depth + sizes.rows * units * UNIT_PRODUCTS


_COSTS = {"panels": _panel_products, "shallow": _shallow_products, "lines": _line_products, "sweeps": _sweep_products}
