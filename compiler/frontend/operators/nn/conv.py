"""Conv: convolution over any number of spatial axes."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.sliding_window import sliding_window
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, mod
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Value


@operator("Conv", since=(1, 11, 22))
def conv(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S], W: T[M, C/group, *K], B: T[M]  ->  T[N, M, *O]; 16-bit floats are summed in f32, rounded once.

    Source: https://onnx.ai/onnx/operators/onnx__Conv.html
    """
    x, w = node.inputs("X", "W")
    bias = node.optional("B")
    if bias is None:
        return convolve(node, ir, x, w, x.dtype)
    result = convolve(node, ir, x, w, wide_type(x.dtype))
    return ir.cast(ir.add(result, per_channel(bias, result, node, ir)), x.dtype)


def convolve(node: Node, ir: Builder, x: Value, w: Value, dtype: DType) -> Value:
    """The convolution that the attributes of the node describe, summed and left in `dtype`."""
    expect_ranks(x, w, node)
    groups = groups_of(node, ir, w.shape[0])
    w = with_kernel_shape(w, node, ir)
    window = sliding_window(node, ir, x.shape[2:], w.shape[2:])
    return ir.convolution(x, w, window.strides, window.low, window.high, window.dilations, groups=groups, dtype=dtype)


def expect_ranks(x: Value, w: Value, node: Node) -> None:
    """Raises ModelError unless both have the axes of batches, channels, and one or more of space."""
    if x.rank < 3 or x.rank != w.rank:
        node.fail("convolution-rank", f"X has {x.rank} axes and W {w.rank}", rule=f"ONNX {node.operator}")


def groups_of(node: Node, ir: Builder, split: Dim) -> int:
    """The attribute `group`, which must divide the size that the groups share out; guarded where only a call tells."""
    groups = node.int("group", 1)
    message = f"{split} channels cannot be split into {groups} groups"
    if groups < 1 or (isinstance(split, int) and split % groups):
        node.fail("convolution-groups", message, rule=f"ONNX {node.operator}")
    ir.require_equal(mod(split, groups), 0, message, "convolution-groups")
    return groups


def with_kernel_shape(w: Value, node: Node, ir: Builder) -> Value:
    """`w`, whose axes from 2 on are what `kernel_shape` says, if that is given."""
    kernel = node.ints("kernel_shape", ())
    if not kernel:
        return w
    if len(kernel) != w.rank - 2:
        message = f"kernel_shape has {len(kernel)} entries for {w.rank - 2} spatial axes"
        node.fail("attribute-length", message, rule=f"ONNX {node.operator}, attribute kernel_shape")
    sizes = [
        ir.require_equal(own, given, f"kernel_shape and axis {axis} of W differ", "kernel-shape")
        for axis, (own, given) in enumerate(zip(w.shape[2:], kernel, strict=True), start=2)
    ]
    return ir.with_shape(w, (*w.shape[:2], *sizes))


def per_channel(bias: Value, like: Value, node: Node, ir: Builder) -> Value:
    """One value per channel, which is axis 1, at the shape and type of `like`."""
    if bias.rank != 1:
        node.fail(
            "channel-parameter", f"a parameter is {bias.type}, not a vector", rule=f"ONNX {node.operator}, parameters"
        )
    message = "a parameter does not have one value per channel"
    size = ir.require_equal(bias.shape[0], like.shape[1], message, "channel-parameter")
    return ir.broadcast(ir.cast(ir.with_shape(bias, (size,)), like.dtype), (1,), like.shape)
