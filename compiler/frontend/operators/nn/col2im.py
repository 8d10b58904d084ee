"""Col2Im: columns of blocks added up into the image that they were taken from."""

from collections.abc import Sequence
from functools import reduce

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import widened
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_vector, read_lengths, vector_input
from onnxc.compiler.frontend.operator_helpers.sliding_window import given_padding, per_axis
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, at_least, floordiv, product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

MOST_SHIFTS = 16
"""The longest axis of a block whose elements are added up as shifted images; those of longer ones are scattered, and
blocks that are shorter than their steps, between which most of the image is nothing.

Blocks of 3x3 of 16 channels of 58x58 took 594 us scattered, and 107 so; of 16x16 of 4 channels 2.5 and 2.0 ms. In steps
of 2: 7x7 of 16 channels of 112x112 1144 and 238 us, 3x3 of 32 channels of 56x56 109 and 40; 16x16 in steps of 8, of 4
channels of 128x128, 140 and 36; 2x2 in steps of 8 20 and 38."""


@operator("Col2Im", since=(18,))
def col2im(node: Node, ir: Builder) -> Value:
    """input: T[N, C * B, L], image_shape: i64[n], block_shape: i64[n]  ->  T[N, C, *image_shape]

    B is the number of elements of a block; L counts the positions of the block in the padded image, row-major.
    Source: https://onnx.ai/onnx/operators/onnx__Col2Im.html
    """
    x = node.input("input")
    if x.rank != 3:
        node.fail("col2im-rank", f"input has rank {x.rank}, not 3", rule="ONNX Col2Im, input")
    if x.dtype.is_string:
        node.fail("summed-texts", "blocks are added up, which texts cannot be", rule="ONNX Col2Im, input")
    if node.input("block_shape").rank != 1:
        message = f"block_shape is {node.input('block_shape').type}, not a vector"
        node.fail("not-a-vector", message, rule="ONNX Col2Im, block_shape")
    image = read_lengths(vector_input("image_shape", node, ir), "image_shape", node, ir)
    rank = len(image)
    given = as_vector(node.input("block_shape"), "block_shape", node, ir, rank, "col2im-blocks")
    block = read_lengths(given, "block_shape", node, ir)
    strides, dilations = (per_axis(node, name, rank, default=1, least=1) for name in ("strides", "dilations"))
    low, high = given_padding(node, rank)
    padded: Sequence[Dim] = [before + size + after for before, size, after in zip(low, image, high, strict=True)]
    counts: Sequence[Dim] = [
        floordiv(size - dilation * (length - 1) - 1, stride) + 1
        for size, dilation, length, stride in zip(padded, dilations, block, strides, strict=True)
    ]
    for axis, count in enumerate(counts):
        if not at_least(count, 0):
            ir.guard(count, 0, "at_least", f"the block is larger than the padded image along axis {axis}")
    padded, counts = ir.short(padded, "padded"), ir.short(counts, "blocks")
    columns = _columns(x, block, counts, ir)
    if dilations == (1,) * rank and tuple(block) == strides:
        summed = _side_by_side(columns, rank, ir)
    elif all(isinstance(b, int) and stride <= b <= MOST_SHIFTS for b, stride in zip(block, strides, strict=True)):
        wide = widened(columns, ir)
        for axis in reversed(range(rank)):
            wide = _shifted(wide, axis, strides[axis], dilations[axis], ir)
        summed = ir.cast(wide, x.dtype)
    else:
        summed = _scattered(columns, _offsets(block, counts, padded, strides, dilations, ir), padded, ir)
    return _cropped(summed, low, image, ir)


def _columns(x: Value, block: Sequence[Dim], counts: Sequence[Dim], ir: Builder) -> Value:
    """T[N, C, *block, *counts]"""
    N, rows, L = x.shape
    elements, count = product(block), product(counts)
    channels = floordiv(rows, elements)
    ir.require_equal(channels * elements, rows, "axis 1 of input does not hold whole blocks", "col2im-blocks")
    ir.require_equal(L, count, "axis 2 of input is not the number of blocks", "col2im-blocks")
    return ir.reshape(ir.with_shape(x, (N, channels * elements, count)), (N, channels, *block, *counts))


def _side_by_side(columns: Value, rank: int, ir: Builder) -> Value:
    """The image of blocks that do not overlap: nothing is added; T[N, C, *image]"""
    sizes, counts = columns.shape[2 : 2 + rank], columns.shape[2 + rank :]
    axes = [axis for k in range(rank) for axis in (2 + rank + k, 2 + k)]
    image = [size * count for size, count in zip(sizes, counts, strict=True)]
    return ir.reshape(ir.transpose(columns, (0, 1, *axes)), (*columns.shape[:2], *image))


def _shifted(columns: Value, axis: int, stride: int, dilation: int, ir: Builder) -> Value:
    """Blocks added up along the last axis that they have left, of this ordinal, as shifted images.

    T[N, C, b..., B, o..., O, image...]  ->  T[N, C, b..., o..., image of B and O, image...]

    Elements of a block that are a multiple of the stride apart meet in the image: of each such phase there is one
    image, and these lie between each other.
    """
    inside, across = 2 + axis, 2 + 2 * axis
    size = columns.shape[inside]
    assert isinstance(size, int), columns
    reach = (size - 1) * dilation // stride
    phases: list[list[Value]] = [[] for _ in range(stride)]
    for k in range(size):
        taken = ir.slice_axis(columns, inside, k, 1)
        image = ir.reshape(taken, (*columns.shape[:inside], *columns.shape[inside + 1 :]))
        low, high = [0] * image.rank, [0] * image.rank
        low[across] = k * dilation // stride
        high[across] = reach - low[across]
        phases[k * dilation % stride].append(ir.pad(image, low, high))
    nothing = ir.full(phases[0][0].shape, 0, columns.dtype)
    images = [reduce(ir.add, phase) if phase else nothing for phase in phases]
    together, rank = ir.concatenate([ir.unsqueeze(image, (0,)) for image in images], 0), images[0].rank
    between = ir.transpose(together, (*range(1, across + 2), 0, *range(across + 2, rank + 1)))
    shape = images[0].shape
    return ir.reshape(between, (*shape[:across], shape[across] * stride, *shape[across + 1 :]))


def _scattered(columns: Value, offsets: Value, padded: Sequence[Dim], ir: Builder) -> Value:
    """The elements of blocks added at their offsets in the flat image; T[N, C, *padded]"""
    (N, C), count = columns.shape[:2], product(offsets.shape)
    updates = ir.reshape(columns, (N, C, count))
    flat = ir.broadcast(ir.reshape(offsets, (count,)), (2,), (N, C, count))
    base = ir.full((N, C, product(padded)), 0, columns.dtype)
    return ir.reshape(ir.scatter_along(base, flat, updates, 2, "add"), (N, C, *padded))


def _cropped(summed: Value, low: Sequence[int], image: Sequence[Dim], ir: Builder) -> Value:
    """The image without its padding; zeros where no block reaches."""
    reached = [before + size for before, size in zip(low, image, strict=True)]
    lacking = [maximum(end - size, 0) for end, size in zip(reached, summed.shape[2:], strict=True)]
    whole = ir.pad(summed, (0,) * summed.rank, (0, 0, *lacking))
    return ir.slice(whole, (0, 0, *low), (*summed.shape[:2], *image))


def _offsets(
    block: Sequence[Dim],
    counts: Sequence[Dim],
    padded: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
    ir: Builder,
) -> Value:
    """i64[*block, *counts]: where in the flat padded image an element of a block lies."""
    shape, rank = (*block, *counts), len(block)
    flat = ir.full(shape, 0, I64)
    for axis, size in enumerate(padded):
        inside = ir.mul(ir.iota(shape, axis, I64), dilations[axis])
        start = ir.mul(ir.iota(shape, rank + axis, I64), strides[axis])
        flat = ir.add(ir.mul(flat, ir.size(size)), ir.add(inside, start))
    return flat
