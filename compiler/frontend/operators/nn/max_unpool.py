"""MaxUnpool: values put back to the indices that MaxPool took them from."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import read_lengths
from onnxc.compiler.frontend.operator_helpers.sliding_window import given_padding, kernel_of, per_axis
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Value


@operator("MaxUnpool", since=(9, 11, 22))
def max_unpool(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S], I: i64[N, C, *S], output_shape: i64[r]  ->  T[N, C, *O], zeros but for X at the flat indices I

    The indices are counted in the sizes that the attributes give; `output_shape` then adds zeros at the end, or cuts.
    Source: https://onnx.ai/onnx/operators/onnx__MaxUnpool.html
    """
    x, indices = node.inputs("X", "I")
    if x.rank != indices.rank:
        node.fail("max-unpool-indices", f"X has {x.rank} axes and I {indices.rank}", rule="ONNX MaxUnpool")
    shape = [
        ir.require_equal(left, right, f"axis {axis} of X and I differs", "max-unpool-indices")
        for axis, (left, right) in enumerate(zip(x.shape, indices.shape, strict=True))
    ]
    natural = (*shape[:2], *_natural_sizes(node, shape))
    count = product(shape)
    flat = ir.scatter_along(
        ir.full((product(natural),), 0, x.dtype),
        ir.reshape(indices, (count,)),
        ir.reshape(x, (count,)),
        axis=0,
        kind="set",
    )
    unpooled = ir.reshape(flat, natural)
    wanted = node.optional("output_shape")
    return unpooled if wanted is None else _resized(unpooled, _sizes(wanted, x.rank, node, ir), ir)


def _natural_sizes(node: Node, shape: list[Dim]) -> list[Dim]:
    kernel = kernel_of(node, len(shape))
    strides = per_axis(node, "strides", len(kernel), default=1, least=1)
    low, high = given_padding(node, len(kernel))
    return [(size - 1) * strides[axis] + kernel[axis] - low[axis] - high[axis] for axis, size in enumerate(shape[2:])]


def _sizes(wanted: Value, rank: int, node: Node, ir: Builder) -> tuple[Dim, ...]:
    if wanted.rank != 1:
        node.fail("output-shape", f"output_shape is {wanted.type}, not a vector", rule="ONNX MaxUnpool")
    ir.require_equal(wanted.shape[0], rank, "output_shape does not have one size per axis", "output-shape")
    return read_lengths(ir.with_shape(wanted, (rank,)), "output_shape", node, ir, code="output-shape")


def _resized(x: Value, shape: tuple[Dim, ...], ir: Builder) -> Value:
    """`x` cut or filled up with zeros at the end of each axis."""
    cut = ir.slice(x, (0,) * x.rank, [minimum(old, new) for old, new in zip(x.shape, shape, strict=True)])
    more = [maximum(0, new - old) for old, new in zip(x.shape, shape, strict=True)]
    return ir.with_shape(ir.pad(cut, (0,) * x.rank, more), shape)
