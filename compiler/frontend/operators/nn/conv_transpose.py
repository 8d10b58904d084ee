"""ConvTranspose: the transpose of a strided convolution, as a convolution over an input spread by zeros."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.sliding_window import (
    auto_pad,
    expect_one_padding,
    given_padding,
    per_axis,
)
from onnxc.compiler.frontend.operators.nn.conv import expect_ranks, groups_of, per_channel, with_kernel_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, at_least, floordiv
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record


@operator("ConvTranspose", since=(1, 11, 22))
def conv_transpose(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S], W: T[C, M/group, *K], B: T[M]  ->  T[N, M, *O]; 16-bit floats are summed in f32, rounded once.

    Source: https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
    """
    x, w = node.inputs("X", "W")
    bias = node.optional("B")
    result = _convolved(node, ir, x, w, x.dtype if bias is None else wide_type(x.dtype))
    if bias is None:
        return result
    return ir.cast(ir.add(result, per_channel(bias, result, node, ir)), x.dtype)


def _convolved(node: Node, ir: Builder, x: Value, w: Value, dtype: DType) -> Value:
    expect_ranks(x, w, node)
    channels = ir.require_equal(x.shape[1], w.shape[0], "the channels of X and W differ", "convolution-channels")
    groups = groups_of(node, ir, channels)
    w = with_kernel_shape(ir.with_shape(w, (channels, *w.shape[1:])), node, ir)
    axes = _axes(node, x, w)
    filters = _flipped(w, groups, ir)
    strides = [axis.stride for axis in axes]
    result = ir.convolution(
        ir.with_shape(x, (x.shape[0], channels, *x.shape[2:])),
        filters,
        strides=[1] * len(axes),
        low=[maximum(0, axis.low) for axis in axes],
        high=[maximum(0, axis.high) for axis in axes],
        dilations=[axis.dilation for axis in axes],
        groups=groups,
        input_dilations=strides,
        dtype=dtype,
    )
    # What padding crops beyond the reach of the kernel is cut from the result.
    starts = [0, 0, *(maximum(0, -axis.low) for axis in axes)]
    return ir.slice(result, starts, (*result.shape[:2], *(axis.size for axis in axes)))


@record
class _Axis:
    """One spatial axis: `low` and `high` pad the spread input, or crop the result where they are negative."""

    stride: int
    dilation: int
    low: Dim
    high: Dim
    size: Dim


def _axes(node: Node, x: Value, w: Value) -> list[_Axis]:
    count = x.rank - 2
    strides = per_axis(node, "strides", count, default=1, least=1)
    dilations = per_axis(node, "dilations", count, default=1, least=1)
    extra = per_axis(node, "output_padding", count, default=0, least=0)
    for padding, stride, dilation in zip(extra, strides, dilations, strict=True):
        if padding >= max(stride, dilation):
            message = f"output_padding has {padding}, where stride and dilation are {stride} and {dilation}"
            node.fail("output-padding", message, rule="ONNX ConvTranspose, attribute output_padding")
    reach = [(size - 1) * dilation for size, dilation in zip(w.shape[2:], dilations, strict=True)]
    whole = [(x.shape[2 + i] - 1) * strides[i] + extra[i] + reach[i] + 1 for i in range(count)]
    sizes, before = _sizes(node, x, strides, whole)
    axes = []
    for i in range(count):
        low = reach[i] - before[i]
        spread = (x.shape[2 + i] - 1) * strides[i] + 1
        axes.append(_Axis(strides[i], dilations[i], low, sizes[i] + reach[i] - low - spread, sizes[i]))
    return axes


def _sizes(node: Node, x: Value, strides: tuple[int, ...], whole: list[Dim]) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """The sizes of the result, and how much of the whole is cropped before it: less than nothing adds zeros."""
    mode, count = auto_pad(node), len(whole)
    sizes: tuple[Dim, ...]
    if node.has("output_shape"):
        sizes = _output_shape(node, x.rank)
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        expect_one_padding(node)
        sizes = tuple(size * stride for size, stride in zip(x.shape[2:], strides, strict=True))
    else:
        expect_one_padding(node)
        low, high = given_padding(node, count) if mode == "NOTSET" else ((0,) * count, (0,) * count)
        sizes = tuple(whole[i] - low[i] - high[i] for i in range(count))
        for axis, size in enumerate(sizes, start=2):
            if at_least(-1, size):
                message = f"the pads of axis {axis} crop {low[axis - 2] + high[axis - 2]} of {whole[axis - 2]} elements"
                node.fail("pads-beyond-size", message, rule="ONNX ConvTranspose, attribute pads")
        return sizes, low
    cropped = [total - size for total, size in zip(whole, sizes, strict=True)]
    halves = tuple(floordiv(total, 2) for total in cropped)
    if mode == "SAME_UPPER":
        return sizes, halves
    return sizes, tuple(total - half for total, half in zip(cropped, halves, strict=True))


def _output_shape(node: Node, rank: int) -> tuple[int, ...]:
    """The spatial sizes of `output_shape`, which some models give with the batch and the channels."""
    shape = node.ints("output_shape")
    if len(shape) not in (rank, rank - 2):
        message = f"output_shape has {len(shape)} entries for {rank - 2} spatial axes"
        node.fail("attribute-length", message, rule="ONNX ConvTranspose, attribute output_shape")
    spatial = shape[len(shape) - rank + 2 :]
    if min(spatial) < 0:
        message = f"output_shape is {list(shape)}, which has a negative size"
        node.fail("attribute-range", message, rule="ONNX ConvTranspose, attribute output_shape")
    return spatial


def _flipped(w: Value, groups: int, ir: Builder) -> Value:
    """T[C, M/group, *K] -> T[M, C/group, *K], backwards along each of K"""
    channels, filters, *kernel = w.shape
    for axis in range(2, w.rank):
        w = ir.reverse(w, axis) if w.shape[axis] != 1 else w
    grouped = ir.reshape(w, (groups, floordiv(channels, groups), filters, *kernel))
    swapped = ir.transpose(grouped, (0, 2, 1, *range(3, grouped.rank)))
    return ir.reshape(swapped, (filters * groups, floordiv(channels, groups), *kernel))
