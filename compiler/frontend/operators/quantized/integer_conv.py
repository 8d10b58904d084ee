"""ConvInteger and QLinearConv: convolution of quantised tensors."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.broadcasting import expect_spreads
from onnxc.compiler.frontend.operator_helpers.linear_quantization import quantize, shifted
from onnxc.compiler.frontend.operators.nn.conv import convolve, expect_ranks, per_channel
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, I32
from onnxc.compiler.ir.module import Value

CODE = "quantization-granularity"


@operator("ConvInteger", since=(10,))
def conv_integer(node: Node, ir: Builder) -> Value:
    """x: T1[N, C, *S], w: T2[M, C/group, *K], x_zero_point: T1[], w_zero_point: T2[] or T2[M]  ->  i32[N, M, *O]

    Source: https://onnx.ai/onnx/operators/onnx__ConvInteger.html
    """
    x, w = node.inputs("x", "w")
    expect_ranks(x, w, node)
    return _accumulated(x, node.optional("x_zero_point"), w, node.optional("w_zero_point"), node, ir)


@operator("QLinearConv", since=(10,))
def qlinear_conv(node: Node, ir: Builder) -> Value:
    """x: T1[N, C, *S], w: T2[M, C/group, *K], B: i32[M]  ->  T3[N, M, *O]; w_scale and w_zero_point may be per channel

    Source: https://onnx.ai/onnx/operators/onnx__QLinearConv.html
    """
    x, w = node.inputs("x", "w")
    expect_ranks(x, w, node)
    x_zero, w_zero, y_zero = node.inputs("x_zero_point", "w_zero_point", "y_zero_point")
    scales, bias = node.inputs("x_scale", "y_scale", "w_scale"), node.optional("B")
    total = _accumulated(x, x_zero, w, w_zero, node, ir)
    if bias is not None:
        total = ir.add(total, per_channel(bias, total, node, ir))
    x_scale, y_scale = (_single(*named, node, ir) for named in zip(scales[:2], ("x_scale", "y_scale"), strict=True))
    w_scale = _per_filter(scales[2], "w_scale", total.shape, 1, node, ir)
    factor = ir.div(ir.mul(w_scale, x_scale), y_scale)
    scaled = ir.mul(ir.cast(total, F32), factor)
    return quantize(scaled, _single(y_zero, "y_zero_point", node, ir), y_zero.dtype, ir)


def _single(value: Value, name: str, node: Node, ir: Builder) -> Value:
    """A scale or zero point for a whole tensor, as a scalar."""
    if any(isinstance(size, int) and size != 1 for size in value.shape):
        node.fail(CODE, f"{name} is {value.type}, not a scalar", rule=f"ONNX {node.operator}")
    return ir.reshape(value, ())


def _accumulated(x: Value, x_zero: Value | None, w: Value, w_zero: Value | None, node: Node, ir: Builder) -> Value:
    """The convolution of x - x_zero with w - w_zero, in i32."""
    if x_zero is not None:
        x_zero = _single(x_zero, "x_zero_point", node, ir)
    if w_zero is not None:
        w_zero = _per_filter(w_zero, "w_zero_point", w.shape, 0, node, ir)
    x, w = shifted(x, x_zero, ir), shifted(w, w_zero, ir)
    if I32 in (x.dtype, w.dtype):
        x, w = ir.cast(x, I32), ir.cast(w, I32)
    return convolve(node, ir, x, w, I32)


def _per_filter(value: Value, name: str, shape: Sequence[Dim], axis: int, node: Node, ir: Builder) -> Value:
    """A scale or zero point, one or one for each filter, ready to broadcast to `shape`, whose `axis` is the filters."""
    if all(size == 1 for size in value.shape):
        return ir.reshape(value, ())
    if value.rank != 1:
        node.fail(CODE, f"{name} is {value.type}", rule=f"ONNX {node.operator}")
    expect_spreads(value.shape[0], shape[axis], f"{name} does not have one value per filter", ir, CODE)
    return ir.broadcast(value, (axis,), shape)
