"""Col2Im: columns of blocks added up into the image that they were taken from."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_vector, read_lengths, vector_input
from onnxc.compiler.frontend.operator_helpers.sliding_window import given_padding, per_axis
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least, floordiv, product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value


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
    offsets = _offsets(block, counts, padded, strides, dilations, ir)
    return _added(x, offsets, padded, product(block), product(counts), low, image, ir)


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


def _added(
    x: Value,
    offsets: Value,
    padded: Sequence[Dim],
    elements: Dim,
    count: Dim,
    low: Sequence[int],
    image: Sequence[Dim],
    ir: Builder,
) -> Value:
    """The blocks of `x` added at their offsets, without the padding."""
    N, rows, L = x.shape
    channels = floordiv(rows, elements)
    ir.require_equal(channels * elements, rows, "axis 1 of input does not hold whole blocks", "col2im-blocks")
    ir.require_equal(L, count, "axis 2 of input is not the number of blocks", "col2im-blocks")
    shape = (N, channels, elements * count)
    updates = ir.reshape(ir.with_shape(x, (N, channels * elements, count)), shape)
    flat = ir.broadcast(ir.reshape(offsets, (elements * count,)), (2,), shape)
    base = ir.full((N, channels, product(padded)), 0, x.dtype)
    summed = ir.scatter_along(base, flat, updates, 2, "add")
    return ir.slice(ir.reshape(summed, (N, channels, *padded)), (0, 0, *low), (N, channels, *image))
