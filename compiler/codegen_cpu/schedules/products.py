"""Contractions and convolutions on a CPU: which have panels, how wide these are, and what keeps them from it."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal

from onnxc.compiler.codegen_cpu.schedules.cost_model import cost_model
from onnxc.compiler.codegen_cpu.schedules.elements import ROW_BLOCK, element_threads
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.layouts import Batch, PackedPanels, known_sizes
from onnxc.compiler.planning.matrix_products import Problem, find_problem
from onnxc.compiler.planning.schedules import (
    Arithmetic,
    ContractionSchedule,
    ConvolutionSchedule,
    Packing,
    Schedule,
    Threads,
    Tile,
)
from onnxc.compiler.planning.views import View, is_dense
from onnxc.compiler.target import Target

__all__ = [
    "contraction_candidates",
    "contraction_cost",
    "contraction_measures",
    "convolution_candidates",
    "reads_view",
    "register_rows",
]

FULL_ROWS = {32: {4: 6, 3: 8, 2: 12, 1: 14}, 16: {4: 2, 3: 4, 2: 6, 1: 8}}
"""How many rows fit the registers beside the vectors of a panel, for 32 and for 16 vector registers."""

CHUNK_ROWS = 96
"""Rows of A against one panel: their results, 64 columns wide, stay in the first-level cache."""

BLOCK_DEPTH = 512
"""How much of k is multiplied before the next panel block is read: 128 KiB of a panel, in the second-level cache."""

PACK_DEPTH = 256
"""The same for a B that is packed on the way, on the stack."""

FILTERS = 512
"""The most filters in a unit: their tile of 64 pixels takes 128 KiB of the second-level cache."""

WINDOW_DEPTH = 384
"""About how many products of a window are summed per block: a panel of 96 KiB."""

GRAIN_PRODUCTS = 1 << 19
"""Multiplications worth claiming: a few microseconds, against 0.1 us to claim them."""

SPATIAL_RANKS = (1, 2)
"""How many spatial axes the fast convolutions are written for."""

TYPICAL_SIZE = 1024
"""What a size that only a call decides is taken for: wide enough that the last panel does not count."""


def register_rows(vectors: int, target: Target) -> int:
    """The most rows that are multiplied at once by so many vectors of a panel."""
    return FULL_ROWS[target.vector_registers][vectors]


# Contractions


def contraction_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """The sizes of a product; none of them is worth kernels of its own yet."""
    found = find_problem(problem.block)
    if found is None:
        return {}
    sizes = {"rows": found.rows, "columns": found.columns, "depth": found.depth}
    return {name: Measure(size, (Typical(TYPICAL_SIZE),)) for name, size in sizes.items()}


def contraction_candidates(problem: KernelProblem, case: Case, target: Target) -> Sequence[Schedule]:
    """Panels of four vectors or fewer; for what panels are not written for, the general kernel."""
    found = find_problem(problem.block)
    reason = _no_panels(found, problem.block)
    if found is None or reason:
        return (_general_contraction(problem.block, target, reason),)
    return tuple(_panels(found, problem, vectors, target) for vectors in (4, 3, 2, 1))


def contraction_cost(schedule: ContractionSchedule, case: Case, target: Target) -> float:
    """The seconds of a launch by panels on one thread."""
    tile, rows, depth = schedule.tile, case.sizes["rows"], case.sizes["depth"]
    assert isinstance(schedule.workers, Threads), schedule
    vectors, panels = tile.columns // schedule.workers.lanes, -(-case.sizes["columns"] // tile.columns)
    # A step along k takes the time of one product more than it makes: loads of A and of the panel.
    products = float(panels) * (vectors + 1) * rows * depth
    item = schedule.arithmetic.sums.itemsize
    columns = case.sizes["columns"]
    return cost_model(target).seconds(products, item * (rows * depth + depth * columns + rows * columns))


def _no_panels(found: Problem | None, block: Block) -> str:
    """Why a contraction has no kernel of panels; nothing where it has one."""
    if found is None:
        return "the operands, or what is summed, do not lie in steps of one stride"
    dtypes = (found.dot.operands[0].dtype, found.dot.operands[1].dtype, found.dot.dtype())
    if len(set(dtypes)) > 1 or dtypes[0] not in (F32, F64):
        return f"{dtypes[0]} by {dtypes[1]} to {dtypes[2]}: panels multiply f32 or f64 alone"
    return "" if found.n else "the last axis of the result is of both operands"


def _panels(found: Problem, problem: KernelProblem, vectors: int, target: Target) -> Schedule:
    dtype = found.dot.dtype()
    lanes = target.vector_bits // dtype.bits
    parameter = problem.block.parameters.index(found.b.base)
    packed = problem.is_constant(parameter)
    width, depth = vectors * lanes, BLOCK_DEPTH if packed else PACK_DEPTH
    return ContractionSchedule(
        algorithm="panels",
        tile=Tile(CHUNK_ROWS, width, depth),
        arithmetic=Arithmetic(str(dtype), dtype),
        registers=Tile(register_rows(vectors, target), width),
        workers=Threads(lanes, GRAIN_PRODUCTS),
        packing=Packing(parameter, _packed_panels(found, width)) if packed else None,
        why="B is packed when it is compiled" if packed else "B is packed panel by panel, on the way",
    )


def _packed_panels(found: Problem, width: int) -> PackedPanels:
    """Constant B in panels of so many columns."""
    outer = [letter for letter in found.outer if found.b_strides[letter] != 0]
    batches = (known_sizes((found.sizes[letter], found.b_strides[letter])) for letter in outer)
    strides = (found.b_stride(found.k), found.b_strides[found.n], found.b.offset)
    depth, columns, depth_stride, column_stride, offset = known_sizes((found.depth, found.columns, *strides))
    return PackedPanels(
        width, depth, columns, depth_stride, column_stride, offset, tuple(Batch(*batch) for batch in batches)
    )


def _general_contraction(block: Block, target: Target, why: str) -> Schedule:
    dot = next(op for op in block.ops if op.name == "dot")
    return ContractionSchedule(
        algorithm="general",
        tile=Tile(1, ROW_BLOCK),
        arithmetic=Arithmetic(str(dot.dtype()), dot.dtype()),
        workers=element_threads(target),
        why=why,
    )


# Convolutions


def reads_view(anchor: Op, ordinal: int, view: View) -> bool:
    """Whether kernels read an operand as a view: convolutions want theirs dense, all others step through any."""
    return anchor.name != "convolution" or is_dense(view)


def convolution_candidates(problem: KernelProblem, target: Target) -> Sequence[Schedule]:
    """Panels of pixels, or one filter for each channel; for what neither is written for, the general kernel."""
    op = next(op for op in problem.block.ops if op.name == "convolution")
    reason = _no_fast_convolution(op)
    if reason:
        return (_lone(op, "general", target, reason),)
    if op.operands[1].shape[1] == 1 and op.int("groups") > 1:
        return (_lone(op, "depthwise", target, "one filter for each channel"),)
    return (_pixel_panels(op, target),)


def _no_fast_convolution(op: Op) -> str:
    """Why a convolution has neither panels nor a depthwise kernel; nothing where it has one."""
    x, w = op.operands
    dtypes: tuple[DType, ...] = (x.dtype, w.dtype, op.dtype())
    if len(set(dtypes)) > 1 or dtypes[0] not in (F32, F64):
        return f"{dtypes[0]} by {dtypes[1]} to {dtypes[2]}: panels multiply f32 or f64 alone"
    if not all(isinstance(size, int) for size in w.shape) or product(w.shape) == 0:
        return f"the filters are {w.type}"
    if set(op.ints("input_dilations")) - {1}:
        return "the input is dilated"
    ranks = " or ".join(map(str, SPATIAL_RANKS))
    return "" if len(op.ints("strides")) in SPATIAL_RANKS else f"there are not {ranks} spatial axes"


def _pixel_panels(op: Op, target: Target) -> Schedule:
    lanes = target.vector_bits // op.dtype().bits
    filters, channels, *taps = known_sizes(op.operands[1].shape)
    pixels: Dim = product(op.results[0].shape[2:])
    vectors = max(1, min(-(-pixels // lanes), 4)) if isinstance(pixels, int) else 4
    block_channels = max(1, min(channels, WINDOW_DEPTH // prod(taps)))
    return ConvolutionSchedule(
        algorithm="panels",
        tile=Tile(min(filters // op.int("groups"), FILTERS), vectors * lanes, block_channels * prod(taps)),
        arithmetic=Arithmetic(str(op.dtype()), op.dtype()),
        registers=Tile(register_rows(vectors, target), vectors * lanes),
        workers=Threads(lanes, GRAIN_PRODUCTS),
        why="windows are unrolled into panels of pixels, on the way",
    )


def _lone(op: Op, algorithm: Literal["depthwise", "general"], target: Target, why: str) -> Schedule:
    """One element after the other, in vectors along the last axis."""
    threads = element_threads(target)
    if algorithm == "depthwise":
        threads = Threads(target.vector_bits // op.dtype().bits, threads.grain)
    return ConvolutionSchedule(
        algorithm=algorithm,
        tile=Tile(1, ROW_BLOCK),
        arithmetic=Arithmetic(str(op.dtype()), op.dtype()),
        workers=threads,
        why=why,
    )
