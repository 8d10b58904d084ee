"""Contractions and convolutions on a CPU: which have panels, how wide these are, and what keeps them from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Literal

from onnxc.compiler.codegen_cpu.integer_dots import FLIPPED_ZERO, GROUP, multiplied_type
from onnxc.compiler.codegen_cpu.micro_kernels import ProductTypes
from onnxc.compiler.codegen_cpu.schedules.cost_model import cost_model
from onnxc.compiler.codegen_cpu.schedules.elements import ROW_BLOCK, element_threads
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, I8, I32, U8, DType
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.ir.primitives.contractions import parse_equation
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
    "product_types",
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


FLOATS = (F64, F32, F16, BF16)
"""What is multiplied by panels: 16-bit floats are widened on the way."""


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
    panels = _integer_panels if found.dot.dtype() == I32 else _panels
    return tuple(panels(found, problem, vectors, target) for vectors in (4, 3, 2, 1))


def contraction_cost(schedule: ContractionSchedule, case: Case, target: Target) -> float:
    """The seconds of a launch by panels on one thread."""
    tile, rows, depth = schedule.tile, case.sizes["rows"], case.sizes["depth"]
    assert isinstance(schedule.workers, Threads), schedule
    vectors, panels = tile.columns // schedule.workers.lanes, -(-case.sizes["columns"] // tile.columns)
    # A step along k takes the time of one product more than it makes: loads of A and of the panel.
    steps = depth / (GROUP if schedule.arithmetic.sums == I32 else 1)
    products = float(panels) * (vectors + 1) * rows * steps
    item = schedule.arithmetic.sums.itemsize
    columns = case.sizes["columns"]
    return cost_model(target).seconds(products, item * (rows * depth + depth * columns + rows * columns))


def _no_panels(found: Problem | None, block: Block) -> str:
    """Why a contraction has no kernel of panels; nothing where it has one."""
    if found is None:
        return "the operands, or what is summed, do not lie in steps of one stride"
    dtypes = (found.a.base.dtype, found.b.base.dtype, found.dot.dtype())
    if not found.n:
        return "the last axis of the result is of both operands"
    if dtypes[2] == I32 and set(dtypes[:2]) <= {I8, U8}:
        return ""
    if not all(dtype in FLOATS for dtype in dtypes):
        return f"{dtypes[0]} by {dtypes[1]} to {dtypes[2]}: panels multiply floats, or 8 bits in sums of i32"
    return ""


def sums_dtype(found: Problem) -> DType:
    """What floats are summed in: f64 where one of them is."""
    return F64 if F64 in (found.a.base.dtype, found.b.base.dtype, found.dot.dtype()) else F32


def product_types(schedule: ContractionSchedule, found: Problem) -> ProductTypes:
    """What the micro-kernels of a schedule multiply: constant panels are widened as they are read."""
    sums = schedule.arithmetic.sums
    if sums == I32:
        rows = U8 if schedule.arithmetic.operands == str(U8) else I8
        return ProductTypes(rows, found.b.base.dtype, sums, GROUP)
    return ProductTypes(sums, found.b.base.dtype if schedule.packing is not None else sums, sums)


def _panels(found: Problem, problem: KernelProblem, vectors: int, target: Target) -> Schedule:
    dtype = sums_dtype(found)
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
        packs_rows=found.a.base.dtype != dtype,
        packing=Packing(parameter, _packed_panels(found, width)) if packed else None,
        why="B is packed when it is compiled" if packed else "B is packed panel by panel, on the way",
    )


def _integer_panels(found: Problem, problem: KernelProblem, vectors: int, target: Target) -> Schedule:
    """Panels of groups of bytes. `arithmetic` names the type of the rows as they are multiplied."""
    lanes, own = target.vector_bits // I32.bits, found.a.base.dtype
    rows = multiplied_type(own, found.b.base.dtype, target)
    parameter = problem.block.parameters.index(found.b.base)
    packed, width = problem.is_constant(parameter), vectors * lanes
    sums_by = 0 if rows == own else -FLIPPED_ZERO if rows == I8 else FLIPPED_ZERO
    panels = replace(_packed_panels(found, width), group=GROUP, sums_by=sums_by) if packed else None
    return ContractionSchedule(
        algorithm="panels",
        tile=Tile(CHUNK_ROWS, width, GROUP * (BLOCK_DEPTH if packed else PACK_DEPTH)),
        arithmetic=Arithmetic(str(rows), I32),
        registers=Tile(register_rows(vectors, target), width),
        workers=Threads(lanes, GROUP * GRAIN_PRODUCTS),
        packs_rows=rows != own or not _reads_groups(found),
        packing=None if panels is None else Packing(parameter, panels),
        why="B is packed when it is compiled" if packed else "B is packed panel by panel, on the way",
    )


def _reads_groups(found: Problem) -> bool:
    """Whether rows are whole groups side by side, so that they are read in place."""
    return isinstance(found.depth, int) and found.depth % GROUP == 0 and found.a_stride(found.k) == 1


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
    """Whether kernels read an operand as a view.

    Convolutions want theirs dense, products of bytes what they multiply in groups side by side; all others step through
    any view.
    """
    if anchor.name == "dot" and anchor.dtype() == I32 and view.base.dtype in (I8, U8):
        return _has_neighbours(anchor, ordinal, view)
    return anchor.name != "convolution" or is_dense(view)


def _has_neighbours(dot: Op, ordinal: int, view: View) -> bool:
    """Whether the last summed axis of an operand of a product is dense; of the one with the columns, or these are."""
    *terms, result = parse_equation(dot.attributes["equation"])
    letters, other = terms[ordinal], terms[1 - ordinal]
    dense = [letter for letter, stride in zip(letters, view.strides, strict=True) if stride == 1]
    has_columns = bool(result) and result[-1] in letters and result[-1] not in other
    wanted = [letter for letter in letters if letter not in result][-1:] + [result[-1]] * has_columns
    return any(letter in dense for letter in wanted)


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
