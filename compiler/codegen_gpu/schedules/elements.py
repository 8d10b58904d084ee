"""Kernels of a GPU that are not products: tiles of elements, and the warps for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from onnxc.compiler.codegen_gpu.schedules.cards import WARP_THREADS
from onnxc.compiler.codegen_gpu.source.element_types import memory_type, register_type
from onnxc.compiler.codegen_gpu.source.source_builder import power_of_two
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import BOOL, F32, DType
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.kernel_plan import KernelKind
from onnxc.compiler.planning.loops.domain import affine_domain, crossed_axis
from onnxc.compiler.planning.schedules import (
    CompactionSchedule,
    ConcatenateSchedule,
    ContractionSchedule,
    ConvolutionSchedule,
    Joining,
    NativeCallSchedule,
    PointwiseSchedule,
    ReductionSchedule,
    ScanSchedule,
    ScatterSchedule,
    Schedule,
    SuppressionSchedule,
    Tile,
    Warps,
    WindowSchedule,
)
from onnxc.compiler.planning.sink_movements import sink_block

__all__ = [
    "BLOCK",
    "ELEMENT_SCHEDULES",
    "LANES_PER_WARP",
    "SMALLEST_CROSSED",
    "WINDOW_BLOCK",
    "accumulator_of",
    "flat_tile",
    "joining_of",
    "with_smaller_tiles",
]

BLOCK = 1024
"""Elements in a flat tile: 8 for each thread of 4 warps."""

LANES_PER_WARP = 256
"""Elements of a tile that one warp takes, 8 for each thread."""

MOST_SMALLER, FEWEST_OF_A_THREAD = 2, 2
"""How often a tile is halved where registers do not suffice, and the elements that a thread has then at least: it keeps
a few numbers for each beside those that it has once."""

WINDOW_BLOCK = 512
"""Elements in a flat tile where each lane goes through a window: half as many as elsewhere, for twice the programs."""

SQUARE = 64
"""The side of a square tile: rows of 128 bytes or more on both sides of a transposition."""

SMALLEST_CROSSED = 16
"""Axes of fewer elements are not worth a square tile."""

BOXES = 2048
"""Boxes that a program compares at a time, 8 for each thread of 8 warps."""

MOST_ROW_WARPS = 8
"""Warps of a program that has whole rows: the longest, of 8,192 elements, are 32 for each thread."""


def flat_tile(count: Dim, block: int) -> tuple[int, Warps]:
    """The elements of a program and its warps, for `count` elements in tiles of `block` at most."""
    if count == 1:
        return 1, Warps(1)
    if isinstance(count, int):
        block = min(block, power_of_two(count))
    return block, Warps(max(1, min(4, block // LANES_PER_WARP)))


_Tiled = TypeVar(
    "_Tiled",
    PointwiseSchedule,
    ConcatenateSchedule,
    WindowSchedule,
    ScatterSchedule,
    NativeCallSchedule,
    ConvolutionSchedule,
    ContractionSchedule,
)


def with_smaller_tiles(schedule: _Tiled) -> _Tiled:
    """A schedule whose fallbacks have half of the tile, and a quarter, for as many threads."""
    assert isinstance(schedule.workers, Warps), schedule
    threads, smaller = schedule.workers.count * WARP_THREADS, [schedule]
    while len(smaller) <= MOST_SMALLER:
        each = _halved(smaller[-1])
        if _elements(each) < FEWEST_OF_A_THREAD * threads:
            break
        smaller.append(each)
    return replace(schedule, fallbacks=tuple(smaller[1:]))


_Folded = TypeVar("_Folded", ReductionSchedule, ScanSchedule, CompactionSchedule)


def with_more_warps(schedule: _Folded) -> _Folded:
    """A schedule whose fallback has the same tile, which may be a whole row, in twice the warps.

    By Triton 3.6 for sm_90: the least and the greatest element of a row that many programs share and an index picks had
    16 bytes of stack in 4 warps, with 31 registers, and none in 8.
    """
    workers = schedule.workers
    assert isinstance(workers, Warps), schedule
    return replace(schedule, fallbacks=(replace(schedule, workers=replace(workers, count=2 * workers.count)),))


def _halved(schedule: _Tiled) -> _Tiled:
    """The same with half of the elements of a program, or half of the side of a square."""
    if isinstance(schedule, ConvolutionSchedule | ContractionSchedule):
        tile = schedule.tile
        if tile.rows > 1:
            return replace(schedule, tile=replace(tile, rows=tile.rows // 2))
        return replace(schedule, tile=replace(tile, columns=tile.columns // 2))
    return replace(schedule, block=schedule.block // 2)


def _elements(schedule: _Tiled) -> int:
    """How many elements a program has."""
    if isinstance(schedule, ConvolutionSchedule | ContractionSchedule):
        return schedule.tile.rows * schedule.tile.columns
    return schedule.block ** (2 if schedule.algorithm == "squares" else 1)


def joining_of(count: Dim) -> Joining:
    """The launch that adds up the parts of `count` elements."""
    block, warps = flat_tile(count, BLOCK)
    return Joining(Tile(1, block), warps)


def accumulator_of(op: Op) -> DType:
    """The type that products are summed in: that of the result, f32 for 16-bit floats."""
    dtype = op.dtype()
    return F32 if memory_type(dtype) != register_type(dtype) and dtype.is_float else dtype


def _pointwise(problem: KernelProblem) -> Schedule:
    domain = affine_domain(sink_block(problem.block))
    if domain is not None and crossed_axis(domain, SMALLEST_CROSSED) is not None:
        return with_smaller_tiles(PointwiseSchedule(algorithm="squares", block=SQUARE, workers=Warps(8)))
    block, warps = flat_tile(product(problem.block.results[0].shape), BLOCK)
    return with_smaller_tiles(PointwiseSchedule(algorithm="flat", block=block, workers=warps))


def _concatenate(problem: KernelProblem) -> Schedule:
    block, warps = flat_tile(product(problem.block.results[0].shape), BLOCK)
    return with_smaller_tiles(ConcatenateSchedule(algorithm="flat", block=block, workers=warps))


def _window(problem: KernelProblem) -> Schedule:
    op = next(op for op in problem.block.ops if op.name in ("reduce_window", "arg_reduce_window"))
    block, warps = flat_tile(product(op.results[0].shape), WINDOW_BLOCK)
    return with_smaller_tiles(WindowSchedule(algorithm="flat", block=block, workers=warps))


def _suppression(problem: KernelProblem) -> Schedule:
    """Scratch memory for a mark of each box of each class."""
    op = next(op for op in problem.block.ops if op.name == "suppress_boxes")
    marks = product(op.operands[1].shape) * BOOL.itemsize
    boxes = op.operands[1].shape[2]
    block = min(BOXES, max(1, power_of_two(boxes))) if isinstance(boxes, int) else BOXES
    return SuppressionSchedule(algorithm="rounds", block=block, shared_bytes=marks, workers=Warps(8))


def _native_call(problem: KernelProblem) -> Schedule:
    """A tile of elements, a tile of whole rows, or one program."""
    op = next(op for op in problem.block.ops if op.name == "native_call")
    tensors = (*op.operands, *op.results)
    match op.text("access"):
        case "elements":
            block, warps = flat_tile(product(op.results[0].shape), BLOCK)
            return with_smaller_tiles(NativeCallSchedule(algorithm="elements", block=block, workers=warps))
        case "rows":
            width = max(power_of_two(size) for tensor in tensors if isinstance(size := tensor.shape[-1], int))
            count = product(op.results[0].shape[:-1])
            most = max(1, power_of_two(count)) if isinstance(count, int) else BLOCK
            rows = max(1, min(BLOCK // width, most))
            warps = Warps(max(1, min(MOST_ROW_WARPS, rows * width // LANES_PER_WARP)))
            return NativeCallSchedule(algorithm="rows", block=rows, workers=warps)
    return NativeCallSchedule(algorithm="whole", block=1, workers=Warps(4))


ELEMENT_SCHEDULES: Mapping[KernelKind, Callable[[KernelProblem], Schedule]] = {
    "pointwise": _pointwise,
    "concatenate": _concatenate,
    "window": _window,
    "suppress_boxes": _suppression,
    "native_call": _native_call,
}
"""The one way in which each of these kinds is computed."""
