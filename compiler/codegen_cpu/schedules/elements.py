"""Kernels of a CPU that are not products: what a unit of work is, and how many elements a thread claims at once."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Literal

from onnxc.compiler.codegen_cpu.schedules import transforms
from onnxc.compiler.codegen_cpu.schedules.boxes import box_memory
from onnxc.compiler.codegen_cpu.schedules.compactions import compaction_schedule
from onnxc.compiler.codegen_cpu.schedules.element_threads import GRAIN_ELEMENTS, TOGETHER_VECTORS, element_threads
from onnxc.compiler.codegen_cpu.schedules.orders import ordering_schedule
from onnxc.compiler.codegen_cpu.schedules.reductions import plain_block
from onnxc.compiler.codegen_cpu.schedules.trees import tree_schedule
from onnxc.compiler.codegen_cpu.schedules.windows import window_schedule
from onnxc.compiler.codegen_cpu.shuffles import LARGEST_SHUFFLED_STRIDE
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dim_symbols import lone_symbol
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.fusion.element_cost import element_cost
from onnxc.compiler.planning.kernel_plan import KernelKind
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.collapse_axes import collapse_axes
from onnxc.compiler.planning.loops.domain import (
    Domain,
    affine_domain,
    crossed_axis,
    forward_domain,
    merge_axes,
    substituted_domain,
)
from onnxc.compiler.planning.loops.indices import picks_rows
from onnxc.compiler.planning.loops.inner_columns import InnerColumns, inner_columns
from onnxc.compiler.planning.loops.merged_axes import merged_axes
from onnxc.compiler.planning.loops.views import stays
from onnxc.compiler.planning.schedules import (
    ConcatenateSchedule,
    FourierSchedule,
    NativeCallSchedule,
    PointwiseSchedule,
    ScanSchedule,
    ScatterSchedule,
    Schedule,
    SuppressionSchedule,
    Threads,
    Tile,
)
from onnxc.compiler.planning.sink_movements import sink_block
from onnxc.compiler.target import Target
from onnxc.runtime.cpu import CACHE_LINE_BYTES

__all__ = [
    "CACHE_SETS",
    "ELEMENT_CANDIDATES",
    "MOST_IN_A_SET",
    "ROW_BLOCK",
    "SMALLEST_CROSSED",
    "element_domain",
    "pointwise_measures",
    "pointwise_schedule",
    "scan_accumulator",
    "scan_registers",
    "tile_rows",
]

SQUARE_BYTES = 256
"""The side of a square of work: whole lines of memory on both sides, several of them for the prefetchers.

Of f32[512, 768] with sides of 16, 32, 64, 128 elements: 534, 400, 347, 435 us; of u8: 181, 147, 103, 84 us."""

CACHE_SETS = 64
"""Of the nearest cache, on all processors that were looked at: lines that are so many apart share one."""

MOST_IN_A_SET = 8
"""How many lines of a set are there at once: rows of which more share one are written whole, from a tile.

On one core with AVX2, straight to the result and by way of a tile: f32[1000, 1000] 147 and 261 us, 256 rows of 1000 43
and 63, 84 rows of 8400 163 and 246, 512 rows of 1024, of which eight share a set, 136 and 255, f32[1024, 1024], of
which all do, 556 and 480."""

ONE = Typical(1, 1, 1)
MANY = Typical(64)
"""A size that only a call decides: one element, as batches have, or columns of squares."""

SHORT_ROWS = 2048
"""How many rows shorter than a vector are in a unit of work, in which neighbours lie on one line of memory."""

FEWEST_SHORT_LANES = 8
"""Vectors of short rows have so many, in two registers of 128 bits: else none would have two pixels of three channels.

Pixels of [1, 3, 224, 224] with channels last, on one core with SSE4.2, row by row and so: u8 54 and 8.1 us, f32 44
and 12.7; of four channels u8 69 and 11.8; f32[50176, 3] times f32[50176, 1] 43 and 14.5."""

FEWEST_SHORT_ROWS = 4
"""Fewer rows side by side leave most lanes of a vector empty."""

LONGEST_SHORT_JOIN = 8
"""The elements behind the joined axis up to which a vector has one of each of several rows of the result."""

LEAST_JOINED_COST = 8
"""The simple instructions for an element from which that pays, as each of its vectors is scattered.

Of 8,400 rows: two parts of 1 and of 4 sigmoids 33 and 103 us so, and 126 and 186 row by row; copies 22 and 61 us, and
12 and 36 row by row."""

SMALLEST_CROSSED = 8
"""Axes of fewer elements are not worth a square."""

LARGEST_TURNED_BITS = 64
"""Wider elements, complex numbers of 128 bits, are copied one by one."""

ROW_BLOCK = 8192
"""The most elements of a row in one unit of work, so that one long row is shared by all threads."""

SCAN_VECTORS = 32
"""Vectors of lines that a scan takes along together, `scan_registers` at a time: memory is passed over in order.

Of f64[128, 768], f64[128, 1024], f64[2000, 100] along axis 0 with 4, all in registers: 79, 111, 205 us; with 32, whose
sums are on the stack: 64, 89, 131 us; with 64: 48, 83, 127 us, but fewer threads have some. On a busy machine. Lines
that are known to be so few that registers hold their sums go along there: i32[16, 128, 64] along axis 1 took 35 us on
the stack and takes 20 us so."""

SCAN_LINES = 4
"""Lines along the last axis that a scan takes along together, as each sum waits for the one before.

Sums of [128, 768] with AVX-512 with 1, 2, 4, 8: f16 76, 47, 36, 37 us, f32 50, 41, 37, 37, f64 48, 26, 18, 21, i64 27,
22, 19, 21, i32 27, 20, 18, 16; of f32[7, 4099] 20, 14, 14, 12.
"""

LARGEST_UNITS = 16
"""More ranges of a scatter would only pass over the updates more often."""

UNIT_ELEMENTS = 16384
"""The fewest elements that are worth a range of their own."""

COPIED_PER_SEEN = 4
"""How many elements a range copies at least for each update that it passes over."""


def _moving_threads(problem: KernelProblem, length: Dim, target: Target) -> Threads:
    """Threads for kernels that only move and compute elements, in rows of a length. Vectors hold more of narrow types.

    Loads and stores of bytes take masks in vectors of 512 bits; elsewhere only rows of whole vectors are moved so.
    """
    inner = inner_columns(problem.block.results[0])
    threads, values = element_threads(target), _row_values(problem.block.results, inner.pads if inner else ())
    if values is None:
        return threads
    is_computed = any(value.op is not None and PRIMITIVES[value.op.name].kind == "pointwise" for value in values)
    # 16-bit floats are computed in f32, but moved as they are.
    widest = max(F32.bits if value.dtype.is_float and is_computed else value.dtype.bits for value in values)
    lanes = target.vector_bits // min(max(widest, 8), F32.bits)
    if target.vector_bits < 512:
        while lanes > threads.lanes and not _fills_vectors(length, inner, lanes):
            lanes //= 2
    return Threads(lanes, GRAIN_ELEMENTS)


def _fills_vectors(length: Dim, inner: InnerColumns | None, lanes: int) -> bool:
    """Whether rows are known to be of whole vectors, those with paddings between these."""
    if inner is None:
        return isinstance(length, int) and length % lanes == 0
    return isinstance(inner.width, int) and inner.width >= lanes


def _row_values(results: Sequence[Value], pads: Collection[Op]) -> tuple[Value, ...] | None:
    """The values along the rows of a kernel, without indices that are one number for a row; None where others are.

    pads: the paddings of which whole vectors take no part.
    """
    values, pending = dict[Value, None](), list(results)
    while pending:
        value = pending.pop()
        if value in values:
            continue
        values[value] = None
        op = value.op
        if op is None or op.name == "constant":
            continue
        if picks_rows(op):
            pending.append(op.operands[0])
        elif (
            op in pads
            or op.name == "concatenate"
            or PRIMITIVES[op.name].is_view
            or PRIMITIVES[op.name].kind == "pointwise"
        ):
            pending += op.operands
        else:
            return None
    return tuple(values)


def pointwise_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """The last axis where it may have one element, and what is turned lies along an axis further in front.

    f32[N, 128, 12, 64] with the axes in the order 3, 2, 1, 0 takes 756 us in squares whose columns are N, where N is 1,
    and 39 us in squares of the axis before.
    """
    domain = element_domain(sink_block(plain_block(problem)))
    if domain is None or _turned_axis(problem.block, domain) in (None, len(domain.shape) - 2):
        return {}
    columns = domain.shape[-1]
    return {} if lone_symbol(columns) is None else {"columns": Measure(columns, (ONE, MANY))}


def pointwise_schedule(problem: KernelProblem, case: Case, target: Target) -> PointwiseSchedule:
    """How elements are computed along rows, in squares, or in rows that are shorter than a vector."""
    block = sink_block(plain_block(problem))
    ones = _symbols_of_ones(problem, case)
    return replace(_pointwise(problem, block, element_domain(block, ones), target), ones=ones)


def _symbols_of_ones(problem: KernelProblem, case: Case) -> tuple[str, ...]:
    """The symbols that are 1 in the calls of a case."""
    measures = pointwise_measures(problem)
    symbols = (lone_symbol(measure.size) for name, measure in measures.items() if case.most[name] == 1)
    return tuple(symbol for symbol in symbols if symbol is not None)


def _pointwise(problem: KernelProblem, block: Block, domain: Domain | None, target: Target) -> PointwiseSchedule:
    turned = None if domain is None else _turned_axis(problem.block, domain)
    if domain is not None and turned is not None:
        widest = _widest(problem.block, domain)
        lanes = target.vector_bits // max(widest, F32.bits)
        side = _side(domain, max(widest, 8), lanes)
        straight = list(domain.leaves) == [block.results[0]] and _may_be_straight(domain, turned, side, lanes)
        threads = Threads(lanes, GRAIN_ELEMENTS)
        return PointwiseSchedule(algorithm="squares", block=side, straight=straight, workers=threads)
    short = Threads(max(element_threads(target).lanes, FEWEST_SHORT_LANES), GRAIN_ELEMENTS)
    if domain is not None and _has_short_rows(domain, short.lanes):
        return PointwiseSchedule(algorithm="short", block=SHORT_ROWS, workers=short)
    threads = _moving_threads(problem, _row_length(block.results[0], domain), target)
    if domain is not None and _widest(problem.block, domain) <= F32.bits:
        threads = replace(threads, together=TOGETHER_VECTORS)
    return PointwiseSchedule(algorithm="rows", block=ROW_BLOCK, workers=threads)


def _side(domain: Domain, widest: int, lanes: int) -> int:
    """The side of squares of elements of so many bits; that of the whole of rows that would end in a narrow square.

    It would share lines of the cache with the one before, which then are written twice. f32[84, 8400] took 452 us in 64
    and 20 columns, and takes 363 in 84; [65, 10000] 433 and 290; [150, 5000] in 80 and 70 as long as in 64, 64 and 22.
    """
    side, columns = 8 * SQUARE_BYTES // widest, domain.shape[-1]
    if not isinstance(columns, int) or not side < columns < 2 * side or columns * widest % (8 * CACHE_LINE_BYTES) == 0:
        return side
    return -(-columns // lanes) * lanes


def _turned_axis(block: Block, domain: Domain) -> int | None:
    """The axis along which memory is crossed, of elements that are turned in squares; None where there is none."""
    is_turned = _widest(block, domain) <= LARGEST_TURNED_BITS
    return crossed_axis(domain, SMALLEST_CROSSED, LARGEST_SHUFFLED_STRIDE) if is_turned else None


def _widest(block: Block, domain: Domain) -> int:
    """The bits of the widest elements that a kernel reads or writes."""
    return max(value.dtype.bits for value in (block.results[0], *domain.leaves))


def _row_length(root: Value, domain: Domain | None) -> Dim:
    """How many elements a row has whose axes are gone through as one."""
    if domain is not None:
        return product(domain.shape[-1:])
    return product(root.shape[-merged_axes([root], 0) :]) if root.shape else 1


def element_domain(block: Block, ones: Iterable[str] = ()) -> Domain | None:
    """What a pointwise kernel loops over where some symbols are 1; None where operands do not lie in strides."""
    domain = affine_domain(block)
    if domain is None:
        return None
    known = substituted_domain(domain, dict.fromkeys(ones, 1))
    merged = merge_axes(known.shape, known.leaves, known.output)
    forward = forward_domain(merged)
    return merged if _turned_axis(block, forward) is None else forward


def _may_be_straight(domain: Domain, crossed: int, side: int, lanes: int) -> bool:
    """Whether rows may be of whole vectors, and as many as a tile has be spread over the sets of the cache.

    Where a call knows more, it looks at both.
    """
    columns, stride = domain.shape[-1], domain.output[crossed]
    if isinstance(columns, int) and columns < lanes:
        return False
    if not isinstance(stride, int):
        return True
    (dtype,) = (leaf.dtype for leaf in domain.leaves)
    rows = tile_rows(domain.shape[crossed], side, lanes, [dtype])
    bytes_before = (row * stride * dtype.itemsize for row in range(rows))
    sets = [before // CACHE_LINE_BYTES % CACHE_SETS for before in bytes_before]
    return max(map(sets.count, sets)) <= MOST_IN_A_SET


def tile_rows(rows: Dim, side: int, lanes: int, dtypes: Sequence[DType]) -> int:
    """The rows of a tile of squares: as many as the longest line of the cache has elements, if a side has.

    Of an axis that is known to have fewer `rows`, as many as are whole squares.
    """
    most = min(side, max(lanes, *(CACHE_LINE_BYTES // dtype.itemsize for dtype in dtypes)))
    return min(most, max(rows // lanes * lanes, lanes)) if isinstance(rows, int) else most


def _has_short_rows(domain: Domain, lanes: int) -> bool:
    """Whether a vector holds two rows or more, and there are some side by side."""
    if len(domain.shape) < 2:
        return False
    rows, columns = domain.shape[-2:]
    several = not isinstance(rows, int) or rows >= FEWEST_SHORT_ROWS
    return isinstance(columns, int) and 1 < columns <= lanes // 2 and several


def _concatenate(problem: KernelProblem, target: Target) -> Schedule:
    threads = _moving_threads(problem, problem.block.results[0].shape[-1], target)
    if _joins_short_rows(plain_block(problem), threads.lanes):
        return ConcatenateSchedule(algorithm="short", block=ROW_BLOCK, workers=threads)
    return ConcatenateSchedule(algorithm="rows", workers=threads)


def _joins_short_rows(block: Block, lanes: int) -> bool:
    """Whether rows are known to be short, costly and enough for a vector, and no part of them is there already."""
    op = block.results[0].op
    assert op is not None, block
    axis, shape = op.int("axis"), op.results[0].shape
    if axis == 0 or not all(isinstance(size, int) for operand in op.operands for size in operand.shape[axis:]):
        return False
    rows, length = shape[axis - 1], prod(known_sizes(shape[axis:]))
    enough = not isinstance(rows, int) or rows >= lanes
    cost = sum(map(element_cost, block.ops))
    is_there = any(stays(op, ordinal) for ordinal in range(len(op.operands)))
    return cost > LEAST_JOINED_COST and length <= LONGEST_SHORT_JOIN and enough and not is_there


def _scatter(problem: KernelProblem, target: Target) -> Schedule:
    """Few ranges where most of the work would be to pass over the updates."""
    op = next(op for op in problem.block.ops if op.name in ("scatter_along", "scatter_nd"))
    data, _, updates = op.operands
    seen = product(updates.shape[:-1] if updates_lines(op) else updates.shape)
    worth: Dim = floordiv(product(data.shape), maximum(COPIED_PER_SEEN * seen, UNIT_ELEMENTS))
    units = minimum(maximum(worth, 1), LARGEST_UNITS)
    return ScatterSchedule(algorithm="ranges", units=units, workers=element_threads(target))


def updates_lines(op: Op) -> bool:
    """Whether all elements of a row of updates of a scatter go to one line."""
    data, indices, _ = op.operands
    if op.name == "scatter_along":
        return op.int("axis") == data.rank - 1
    depth = indices.shape[-1]
    assert isinstance(depth, int), depth
    return depth < data.rank


def _scan(problem: KernelProblem, target: Target) -> Schedule:
    threads = element_threads(target)
    (op,) = (op for op in collapse_axes(problem.block).ops if op.name == "scan_axis")
    registers, axis, shape = scan_registers(target), op.int("axis"), op.results[0].shape
    beside = product(shape[axis + 1 :])
    if axis == len(shape) - 1:
        lines = product(shape[:axis])
        together = max(min(lines, SCAN_LINES), 1) if isinstance(lines, int) else SCAN_LINES
        return ScanSchedule(algorithm="lines", tile=Tile(together, 1), workers=threads)
    if isinstance(beside, int) and 1 < beside <= registers * threads.lanes:
        vectors = -(-beside // threads.lanes)
    else:
        vectors = registers if scan_accumulator(op) != op.results[0].dtype else SCAN_VECTORS
    return ScanSchedule(algorithm="lines", tile=Tile(vectors * threads.lanes, 1), workers=threads)


def scan_registers(target: Target) -> int:
    """How many vectors have their sums in registers: whole lines of memory at each step, sums in half the registers.

    It is all that sums of f32 take along: kept on the stack in f64 they took 30 us in place of 25 us for f32[128, 768].
    Of vectors of 512 bits, which have 32 registers, f32[2000, 100] along axis 0 took 55 us with 4 and 45 us with 8.
    """
    return 8 if target.vector_bits >= 512 else 4


def scan_accumulator(op: Op) -> DType:
    """The type in which a scan runs: sums of f32 in f64, as the primitive means them."""
    dtype = op.results[0].dtype
    return F64 if dtype == F32 and op.text("kind") == "sum" else dtype


def _suppression(problem: KernelProblem, target: Target) -> Schedule:
    """Scratch memory for each class of each image."""
    (op,) = (op for op in problem.block.ops if op.name == "suppress_boxes")
    threads = element_threads(target)
    units = product(op.operands[1].shape[:2])
    scratch = units * box_memory(op, threads.lanes).total
    return SuppressionSchedule(algorithm="blocks", workers=threads, shared_bytes=scratch)


def _fourier(problem: KernelProblem, target: Target) -> Schedule:
    """Two buffers for each unit of work."""
    (op,) = (op for op in problem.block.ops if op.name == "fourier")
    scratch = 2 * transforms.units(op, target) * transforms.buffer_bytes(op, target)
    return FourierSchedule(algorithm="passes", workers=element_threads(target), shared_bytes=scratch)


def _native_call(problem: KernelProblem, target: Target) -> Schedule:
    """As the caller's code steps through its tensors."""
    (op,) = (op for op in problem.block.ops if op.name == "native_call")
    access = _ACCESSES[op.text("access")]
    return NativeCallSchedule(algorithm=access, workers=element_threads(target))


_ACCESSES: Mapping[str, Literal["elements", "rows", "whole"]] = {
    "elements": "elements",
    "rows": "rows",
    "whole": "whole",
}


ELEMENT_CANDIDATES: Mapping[KernelKind, Callable[[KernelProblem, Target], Schedule]] = {
    "concatenate": _concatenate,
    "window": window_schedule,
    "scatter": _scatter,
    "scan": _scan,
    "ordering": ordering_schedule,
    "compaction": compaction_schedule,
    "suppress_boxes": _suppression,
    "tree_ensemble": tree_schedule,
    "fourier": _fourier,
    "native_call": _native_call,
}
"""The one way in which each of these kinds is computed."""
