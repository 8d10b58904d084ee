"""Convolutions on a CPU: which are computed by rows, how large their tiles are, and what keeps others from it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd, prod

from onnxc.compiler.codegen_cpu.schedules.byte_convolutions import (
    byte_convolution,
    convolves_bytes,
    packs_in_call,
    reads_bytes_of_image,
)
from onnxc.compiler.codegen_cpu.schedules.columns import column_sums, columns_schedule, reads_pixels, why_no_columns
from onnxc.compiler.codegen_cpu.schedules.cost_model import cost_model
from onnxc.compiler.codegen_cpu.schedules.depthwise import depthwise_schedule, is_depthwise
from onnxc.compiler.codegen_cpu.schedules.element_threads import element_threads
from onnxc.compiler.codegen_cpu.schedules.elements import ROW_BLOCK
from onnxc.compiler.codegen_cpu.schedules.planes import is_planar, planes_schedule, reads_plane, why_no_planes
from onnxc.compiler.codegen_cpu.schedules.products import GRAIN_PRODUCTS, panel_vectors, register_rows, split_vectors
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.compiler.planning.choose_schedules import Case, KernelProblem, Measure, Typical
from onnxc.compiler.planning.filter_layouts import FiltersInTwoForms, PackedFilters, PackedPhases, TransformedFilters
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.convolution_sums import find_sums
from onnxc.compiler.planning.loops.views import View, is_dense, operand_view, operand_views, whole
from onnxc.compiler.planning.schedules import Arithmetic, ConvolutionSchedule, Packing, Schedule, Threads, Tile
from onnxc.compiler.target import Target

__all__ = ["convolution_candidates", "convolution_measures", "convolves_as_floats", "reads_filters", "reads_image"]

SINGLE_CHANNELS = 8
"""Of fewer channels planes of a single filter take less."""

CHUNK_PIXELS = 96
"""Pixels against one panel: their results, 64 filters wide, stay in the first-level cache."""

MOST_PIXELS = 768
"""The same where the panel is packed for them: 3 x 3 taps of 3 channels, 32 filters and 55 x 55 pixels took 360 us with
96 of them, 289 with 192, 260 with 384 and 249 with 768."""

LEAST_UNITS = 8
"""How many units threads have to share then."""

GROUP_RESULTS = 1024
"""Results that are finished together, in 4 KB of the first-level cache, where a panel and what it is multiplied by push
those of a chunk out of it: 1024 pixels of 128 channels by 1024 filters take 1.02 ms so, 1.15 ms by the chunk."""

CHUNKS_OF_A_PANEL = 2
"""3 x 3 taps of 64 channels, 64 filters and 8 x 8 pixels take two threads 12.0 us so, 19.4 as one; one thread 19.1 and
19.4."""

SHALLOW_DEPTH = 32
"""Up to so many products of a sum all results of a chunk stay there: 8 images of 112x112 pixels of 16 channels by 96
filters take 1.93 ms by the chunk, and 2.16 by the group, for which the memory of results is asked for too late."""

FEW_PANELS = 6
"""So few units are uneven work for two threads: the layers of 7 x 7 pixels of mnasnet_100 that have 3 and 5 panels."""

BLOCK_DEPTH = 1024
"""How much is summed before the next block of a panel is read: 256 KiB of a panel, in the second-level cache. On Zen 5
xception, of 728 channels, takes 0.984 of the time with it that it took with 512; resnet50 1.003."""

PACK_DEPTH = 256
"""The same for filters that are packed on the way, on the stack."""

POINTERS = 8
"""The most rows that are read at once: more addresses would not fit the 16 integer registers beside the rest."""

LONG_RUN = 16
"""Runs of so many products hide what it takes to look up where they begin: a vector of addresses for 8 rows."""

TRANSFORMED_CHANNELS = 32
"""Of fewer channels or filters transforming takes longer than it saves: at 32, 112 x 112 pixels still take 0.75."""

TRANSFORMED_PIXELS = 100
"""Images of fewer pixels are bound by reading filters, 16 numbers in place of 9: 7 x 7 pixels take as long."""

CHUNK_TILES = {32: 60, 16: 30}
"""Tiles of a unit, for 32 and for 16 vector registers: 14 x 14 pixels, so that their filters are read once; 36 tiles
took 1.2 times as long. With 16, panels are narrower, and what is transformed is in a smaller cache."""

BLOCK_CHANNELS = {32: 32, 16: 128}
"""Channels that are transformed at a time: 60 tiles of them, and of 64 filters, take 360 KiB of the stack. With 16
registers 60, 60, 30 and 30 tiles by 32, 64, 64 and 128 channels had 149, 152, 162 and 165 GFLOP/s for 128 filters of
128 channels of 28 x 28 pixels: a step of 12 products is over so soon that what a call takes counts."""

CACHED_FILTERS = 1 / 2
"""The share of the second-level cache in which filters stay from chunk to chunk of an image: 704 filters of 704
channels, 2 MB, took 1.04 of the time at 19 x 19 pixels beside 2 MiB of cache."""

CACHED_IMAGE = 1
"""The share of it in which an image stays from panel to panel. Beside 2 MiB, with half of it, 728 channels of 19 x 19
pixels took 1.06 of the time, 2048 of 14 x 14 took 1.2; 1024 of 28 x 28, which are 3 MiB, take 0.98 where filters stay
instead. Beside 512 KiB 1024 filters of 1024 channels of 14 x 14, 0.8 MB, took 1.2 of the time with an image of 2 MiB.
"""


def convolution_measures(problem: KernelProblem) -> Mapping[str, Measure]:
    """The pixels of an image, where transforming is worth it for many alone."""
    op = _convolution(problem)
    if is_planar(op) or convolves_bytes(op) or _no_fast_convolution(op) or not _is_transformable(op, problem):
        return {}
    few = Typical(TRANSFORMED_PIXELS // 2, 0, TRANSFORMED_PIXELS - 1)
    return {"pixels": Measure(product(op.result.shape[-3:-1]), (few, Typical(TRANSFORMED_PIXELS, TRANSFORMED_PIXELS)))}


def _convolution(problem: KernelProblem) -> Op:
    return next(op for op in problem.block.ops if op.name == "convolution")


def _pixels(op: Op) -> Dim:
    """Those of an image of the result."""
    return product(op.result.shape[1:-1])


def convolution_candidates(problem: KernelProblem, case: Case, target: Target) -> Sequence[Schedule]:
    """By rows, or one filter for each channel; for what neither is written for, the general kernel."""
    op = _convolution(problem)
    if is_planar(op):
        return (_planes(op, problem, target),)
    in_bytes = byte_convolution(op, problem, target) if convolves_bytes(op) else None
    if in_bytes is not None:
        return (in_bytes,)
    reason = _no_fast_convolution(op)
    if reason:
        return (_general(op, target, reason),)
    if is_depthwise(op):
        return (depthwise_schedule(op, problem, target),)
    if not _is_transformable(op, problem):
        return (_rows(op, problem, target),)
    schedule = (_winograd if case.sizes["pixels"] >= TRANSFORMED_PIXELS else _rows)(op, problem, target)
    is_known = isinstance(product(op.result.shape[-3:-1]), int)
    return (schedule if is_known else _in_two_forms(op, problem, schedule, target),)


def reads_image(op: Op, view: View) -> bool:
    """Whether the fast kernels read the image as `view`: runs are long, or nearly as long as those of a dense one."""
    if is_planar(op):
        return reads_pixels(op, view) if max(op.ints("input_dilations")) > 1 else reads_plane(op, view)
    if convolves_bytes(op):
        return reads_bytes_of_image(view)
    if _unfit(op):
        return True
    if is_depthwise(op):
        return view.strides[-1] == 1
    sums, dense = find_sums(op, view), find_sums(op, whole(op.operands[0]))
    if sums is None or dense is None:
        return sums is not None
    return sums.run_length >= min(LONG_RUN, dense.run_length // 3)


def reads_filters(op: Op, view: View) -> bool:
    """Whether kernels read filters as `view`: bytes that they pack in the call lie as their kernel reads them."""
    return not packs_in_call(op) or is_dense(view)


def _unfit(op: Op) -> str:
    """What of the op itself keeps the fast kernels away."""
    x, w = op.operands
    dtypes: tuple[DType, ...] = (x.dtype, w.dtype, op.dtype())
    if len(set(dtypes)) > 1 or dtypes[0] not in (F32, F64):
        return f"{dtypes[0]} by {dtypes[1]} to {dtypes[2]}: panels multiply f32 or f64 alone"
    if op.text("dimensions") != channels_innermost(x.rank - 2):
        return f"the axes lie as {op.text('dimensions')}"
    inner = w.shape[1:]
    if not all(isinstance(size, int) for size in inner) or product(inner) == 0 or w.shape[0] == 0:
        return f"the filters are {w.type}"
    if not isinstance(w.shape[0], int) and op.int("groups") > 1:
        return "the number of filters of a group is not known"
    has_steps = any(min(row) > 1 for row in zip(op.ints("input_dilations"), op.ints("strides"), strict=True))
    return "the input is dilated, and windows have steps" if has_steps else ""


def _no_fast_convolution(op: Op) -> str:
    """Why a convolution has neither rows nor a depthwise kernel; nothing where it has one."""
    reason = _unfit(op)
    if reason:
        return reason
    x, w = (operand_view(operand) for operand in op.operands)
    if x is None or w is None:
        return "an operand does not lie in strides"
    if is_depthwise(op):
        return "" if x.strides[-1] == 1 else "the channels do not lie side by side"
    return "" if find_sums(op, x) is not None else "no two products of a sum lie side by side"


def _planes(op: Op, problem: KernelProblem, target: Target) -> Schedule:
    """Results with channels before pixels."""
    if max(op.ints("input_dilations")) > 1:
        reason = why_no_columns(op)
        return _general(op, target, reason) if reason else columns_schedule(op, target)
    reason = why_no_planes(op, problem)
    if not reason and _has_single_filters(op, problem):
        return columns_schedule(op, target)
    return _general(op, target, reason) if reason else planes_schedule(op, problem, target)


def _has_single_filters(op: Op, problem: KernelProblem) -> bool:
    """Whether each group has one filter of enough channels, which only a call knows, and pixels can be read as columns.

    A plane sums one tap at a time for it, and columns eight: 1 filter of 4 x 7 taps and 64 channels of 56 x 7 pixels
    for each of 4 groups took 125 us, and takes 37.
    """
    x, w = operand_views(op)
    if problem.is_constant(problem.block.parameters.index(w.base)) or why_no_columns(op) or not reads_pixels(op, x):
        return False
    sums = column_sums(op)
    # Columns multiply pixels by all taps, those that meet no result too.
    has_results = 2 * prod(axis.size for axis in sums.axes) >= prod(axis.image for axis in sums.axes)
    return sums.filters == 1 and sums.channels >= SINGLE_CHANNELS and has_results


def _rows(op: Op, problem: KernelProblem, target: Target) -> ConvolutionSchedule:
    lanes = target.vector_bits // op.dtype().bits
    x, w = operand_views(op)
    parameter = problem.block.parameters.index(w.base)
    packed = problem.is_constant(parameter) and is_dense(w)
    sums = find_sums(op, x, merges=packed)
    assert sums is not None
    vectors = split_vectors(_filters(op), lanes, target)
    packing = None
    if packed:
        layout = PackedFilters(vectors * lanes, op.int("groups"), known_sizes(w.shape), sums.order)
        packing = Packing(parameter, PackedPhases(layout, _tap_phases(op)) if sums.spread else layout)
    registers = Tile(pointer_rows(vectors, target), vectors * lanes)
    pixels = _chunk_pixels(op, registers.columns, packed)
    return ConvolutionSchedule(
        algorithm="rows",
        tile=Tile(pixels, registers.columns, BLOCK_DEPTH if packed else PACK_DEPTH),
        arithmetic=Arithmetic(str(op.dtype()), op.dtype()),
        registers=registers,
        group=pixels if sums.start_count * sums.run_length <= SHALLOW_DEPTH else _group_pixels(registers),
        workers=Threads(lanes, GRAIN_PRODUCTS),
        packing=packing,
        chunks=_least_chunks(op, registers.columns) if packed else 1,
        small_image=0 if _filters_stay(op, target) else int(CACHED_IMAGE * _cache_elements(op, target)),
        why="filters are packed when it is compiled" if packed else "filters are packed on the way",
    )


def _group_pixels(registers: Tile) -> int:
    """Pixels that are finished together: whole blocks of registers."""
    return max(GROUP_RESULTS // (registers.rows * registers.columns), 1) * registers.rows


def _chunk_pixels(op: Op, width: int, packed: bool) -> int:
    """Pixels of a unit: half as many where an image of one chunk has too few panels for threads to share evenly.

    Filters that are packed on the way are packed once for each chunk, so that it has as many pixels as leave threads
    some units to share.
    """
    pixels, groups = _pixels(op), op.int("groups")
    filters = op.operands[1].shape[0]
    panels = groups * -(-filters // (groups * width)) if isinstance(filters, int) else 1
    if not packed:
        shared = -(-pixels * panels // LEAST_UNITS) if isinstance(pixels, int) else MOST_PIXELS
        return max(CHUNK_PIXELS, min(shared, MOST_PIXELS))
    if not isinstance(pixels, int) or pixels > CHUNK_PIXELS:
        return CHUNK_PIXELS
    return CHUNK_PIXELS // 2 if panels <= FEW_PANELS else CHUNK_PIXELS


def _least_chunks(op: Op, width: int) -> int:
    """How many chunks there are at least of the pixels of one panel of filters, so that two threads share them."""
    panels = floordiv(_filters(op) + width - 1, width)
    units = panels * op.int("groups") * prod(op.ints("input_dilations"))
    return CHUNKS_OF_A_PANEL if units == 1 else 1


def _tap_phases(op: Op) -> tuple[int, ...]:
    """Of how many phases the taps along each spatial axis are."""
    rows = zip(op.ints("input_dilations"), op.ints("dilations"), strict=True)
    return tuple(spread // gcd(spread, dilation) for spread, dilation in rows)


def _filters_stay(op: Op, target: Target) -> bool:
    """Whether all filters stay in the cache from chunk to chunk."""
    elements = product(op.operands[1].shape)
    return isinstance(elements, int) and elements <= CACHED_FILTERS * _cache_elements(op, target)


def _cache_elements(op: Op, target: Target) -> float:
    """What the second-level cache holds."""
    return cost_model(target).machine.second_cache_bytes / op.dtype().itemsize


def _is_transformable(op: Op, problem: KernelProblem) -> bool:
    """Whether 3 x 3 constant taps are neighbours, and there are enough channels for what transforming takes."""
    x, w = operand_views(op)
    if not is_dense(w) or x.strides[-1] != 1 or not problem.is_constant(problem.block.parameters.index(w.base)):
        return False
    return _has_transform(op, w.shape)


def _has_transform(op: Op, filters: Sequence[Dim]) -> bool:
    """Whether filters [o, i, *taps] have 3 x 3 taps that are neighbours, and enough of both channels.

    Along axes before them there is one tap, and no padding.
    """
    before = len(filters) - 4
    if before < 0 or tuple(filters[2:]) != (*(1 for _ in range(before)), 3, 3) or op.int("groups") > 1:
        return False
    if any(size != 0 for size in (*op.dims("low")[:before], *op.dims("high")[:before])):
        return False
    if {*op.ints("strides"), *op.ints("dilations"), *op.ints("input_dilations")} != {1}:
        return False
    return all(isinstance(size, int) and size >= TRANSFORMED_CHANNELS for size in filters[:2])


def convolves_as_floats(op: Op) -> bool:
    """Whether a convolution of floats, channels first, takes so few products that bytes without dot products take more.

    On one core of Zen 1 resnet18 of 8 bits took 100 ms by integers, and takes 75 so, as in f32.
    """
    pixels = product(op.result.shape[2:])
    is_large = not isinstance(pixels, int) or pixels >= TRANSFORMED_PIXELS
    return is_large and _has_transform(op, op.operands[1].shape)


def _in_two_forms(op: Op, problem: KernelProblem, schedule: ConvolutionSchedule, target: Target) -> ConvolutionSchedule:
    """A schedule whose filters lie as both algorithms read them: a map of 1 x 1 pixels meets one tap of nine."""
    summed, transformed = (make(op, problem, target).packing for make in (_rows, _winograd))
    assert summed is not None
    assert transformed is not None
    assert isinstance(summed.layout, PackedFilters)
    assert isinstance(transformed.layout, TransformedFilters)
    packing = Packing(summed.parameter, FiltersInTwoForms(summed.layout, transformed.layout))
    return replace(schedule, packing=packing)


def _winograd(op: Op, problem: KernelProblem, target: Target) -> ConvolutionSchedule:
    lanes = target.vector_bits // op.dtype().bits
    filters, channels, *_ = known_sizes(op.operands[1].shape)
    vectors, (_, w) = panel_vectors(_filters(op), lanes, target), operand_views(op)
    parameter = problem.block.parameters.index(w.base)
    return ConvolutionSchedule(
        algorithm="winograd",
        tile=Tile(CHUNK_TILES[target.vector_registers], vectors * lanes, BLOCK_CHANNELS[target.vector_registers]),
        arithmetic=Arithmetic(str(op.dtype()), op.dtype()),
        registers=Tile(pointer_rows(vectors, target), vectors * lanes),
        workers=Threads(lanes, GRAIN_PRODUCTS),
        packing=Packing(parameter, TransformedFilters(vectors * lanes, filters, channels)),
        why="4 products for each result in place of 9",
    )


def _filters(op: Op) -> Dim:
    """Those of a group."""
    return floordiv(op.operands[1].shape[0], op.int("groups"))


def pointer_rows(vectors: int, target: Target) -> int:
    """How many pixels are multiplied at once by so many vectors of a panel."""
    return min(register_rows(vectors, target), POINTERS)


def _general(op: Op, target: Target, why: str) -> Schedule:
    """One element after the other, in vectors along the last axis."""
    return ConvolutionSchedule(
        algorithm="general",
        tile=Tile(1, ROW_BLOCK),
        arithmetic=Arithmetic(str(op.dtype()), op.dtype()),
        workers=element_threads(target),
        why=why,
    )
