"""Convolutions of bytes on a CPU: which have kernels, and how their pixels and filters lie for these."""

from math import prod

from onnxc.compiler.codegen_cpu.inner_loops.byte_panels import group_size, row_type, whole_steps
from onnxc.compiler.codegen_cpu.inner_loops.integer_dots import GROUP
from onnxc.compiler.codegen_cpu.schedules.byte_products import (
    CHUNK_ROWS,
    MOST_PACKED_BYTES,
    PACK_DEPTH,
    byte_vectors,
    flipped_sums,
)
from onnxc.compiler.codegen_cpu.schedules.depthwise import depthwise_schedule, is_depthwise
from onnxc.compiler.codegen_cpu.schedules.products import GRAIN_PRODUCTS, register_rows
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import I8, I32, U8
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import all_channels_innermost, channels_innermost, parse_dimensions
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.layouts import Batch, PackedPanels, Permuted, PermutedPanels, known_sizes
from onnxc.compiler.planning.loops.views import View, is_dense, operand_view
from onnxc.compiler.planning.schedules import Arithmetic, ConvolutionSchedule, Packing, Threads, Tile
from onnxc.compiler.target import Target

__all__ = ["byte_convolution", "convolves_bytes", "filter_sizes", "packs_in_call", "reads_bytes_of_image"]

CHUNK_PIXELS = 96
"""Pixels against one panel: their sums, 64 filters wide, stay in the first-level cache."""

BLOCK_DEPTH = 2048
"""How much of a window is multiplied before the next panel block is read: 128 KiB, in the second-level cache."""

MOST_EXACT_PRODUCTS = 2**24 // (255 * 255)
"""So many products of bytes are surely exact in a sum of f32."""


def convolves_bytes(op: Op) -> bool:
    """Whether a convolution sums products of 8 bits in i32."""
    return op.dtype() == I32 and all(operand.dtype in (I8, U8) for operand in op.operands)


def reads_bytes_of_image(view: View) -> bool:
    """Whether kernels read an image as a view: the channels of a pixel lie side by side."""
    return view.strides[-1] == 1 or view.shape[-1] == 1


def packs_in_call(op: Op) -> bool:
    """Whether it is a convolution of bytes whose filters lie as they are packed from in a call."""
    return convolves_bytes(op) and op.text("dimensions") == all_channels_innermost(op.result.rank - 2)


def filter_sizes(op: Op) -> tuple[Dim, int, tuple[int, ...]]:
    """The filters of a group, the channels that each reads, and the taps along each axis."""
    shape, axes = op.operands[1].shape, parse_dimensions(op.text("dimensions")).w
    channels, *taps = known_sizes([shape[axis] for axis in (axes.input, *axes.spatial)])
    return floordiv(shape[axes.output], op.int("groups")), channels, tuple(taps)


def byte_convolution(op: Op, problem: KernelProblem, target: Target) -> ConvolutionSchedule | None:
    """The schedule of a convolution of bytes; None where it has no kernel of bytes."""
    x, w = (operand_view(operand) for operand in op.operands)
    if x is None or w is None or not _lies_innermost(op) or not reads_bytes_of_image(x):
        return None
    is_packed = not packs_in_call(op)
    if is_packed and _is_exact_depthwise(op):
        return depthwise_schedule(op, problem, target)
    parameter = problem.block.parameters.index(w.base)
    if not set(op.ints("input_dilations")) <= {1} or not is_dense(w) or product(w.shape) == 0:
        return None
    if is_packed and not problem.is_constant(parameter):
        return None
    filters, channels, taps = filter_sizes(op)
    depth, lanes = prod(taps) * channels, target.vector_bits // I32.bits
    vectors = byte_vectors(filters, lanes, target)
    rows, whole = row_type(x.base.dtype, w.base.dtype, target), whole_steps(target)
    width, group = vectors * lanes, group_size(target)
    unrolls = rows != x.base.dtype or not _reads_pixels(op, x, group * whole)
    room = MOST_PACKED_BYTES[target.vector_registers] // rows.itemsize
    pixels = max(register_rows(vectors, target), min(CHUNK_PIXELS if is_packed else CHUNK_ROWS, room // depth))
    panels = _packed_filters(op, width, flipped_sums(rows, x.base.dtype), (group, whole)) if is_packed else None
    read = "windows are unrolled into rows of bytes" if unrolls else "pixels are rows"
    return ConvolutionSchedule(
        algorithm="bytes",
        tile=Tile(pixels, width, BLOCK_DEPTH if is_packed else PACK_DEPTH),
        arithmetic=Arithmetic(str(rows), I32),
        registers=Tile(register_rows(vectors, target), width),
        packs_rows=unrolls,
        workers=Threads(lanes, GROUP * GRAIN_PRODUCTS),
        packing=None if panels is None else Packing(parameter, panels),
        why=read if is_packed else f"{read}, filters are packed on the way",
    )


def _lies_innermost(op: Op) -> bool:
    """Whether channels of images are innermost, beside an axis at least."""
    rank = op.result.rank - 2
    return rank > 0 and op.text("dimensions") in (channels_innermost(rank), all_channels_innermost(rank))


def _is_exact_depthwise(op: Op) -> bool:
    """Whether each filter reads one channel, under so few taps that f32 holds all sums."""
    taps = op.operands[1].shape[2:]
    known = [size for size in taps if isinstance(size, int)]
    return is_depthwise(op) and len(known) == len(taps) and prod(known) <= MOST_EXACT_PRODUCTS


def _reads_pixels(op: Op, x: View, whole: int) -> bool:
    """Whether the pixels of the image are the rows of the product as they lie, of `whole` elements or a multiple."""
    _, channels, taps = filter_sizes(op)
    padding = {*op.dims("low"), *op.dims("high")}
    is_pointwise = {*taps, *op.ints("strides")} == {1} and padding == {0}
    return is_pointwise and is_dense(x) and channels % whole == 0


def _packed_filters(op: Op, width: int, sums_by: int, steps: tuple[int, int]) -> PermutedPanels:
    """Filters [o, i, *taps] in panels of a group, whose columns have channels innermost; steps: a group, whole ones."""
    sizes, (_, channels, taps), groups = known_sizes(op.operands[1].shape), filter_sizes(op), op.int("groups")
    filters, depth = sizes[0] // groups, channels * prod(taps)
    turned = Permuted((0, *range(2, len(sizes)), 1), sizes)
    group, whole = steps
    batches = (Batch(groups, filters * depth),) if groups > 1 else ()
    panels = PackedPanels(width, depth, filters, 1, depth, batches=batches, group=group, sums_by=sums_by, whole=whole)
    return PermutedPanels(turned, panels)
