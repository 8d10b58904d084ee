"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: between floats and integers or narrow floats."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.linear_quantization import (
    dynamically_quantized,
    expect_same_shape,
    granular,
    is_zero,
    quantize,
    splits_blocks,
    with_blocks,
)
from onnxc.compiler.frontend.operator_helpers.precision import real_type
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F8E8M0, F32, I32, U8, DType
from onnxc.compiler.ir.module import Value

PER_AXIS_SINCE = 13


@operator("QuantizeLinear", since=(10, 13, 19, 21, 23, 24, 25, 28))
def quantize_linear(node: Node, ir: Builder) -> Value:
    """x: T1[...], y_scale: T2, y_zero_point: T3, of one element, per axis or blocked  ->  T3[...]

    The division is in the type `precision`, or in that of the scale. NaN becomes the least integer of the type, as in
    onnx's reference and ONNX Runtime; the text says nothing of it.
    Source: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
    """
    x, scale = node.inputs("x", "y_scale")
    zero_point = node.optional("y_zero_point")
    _expect_granularity(scale, zero_point, node, ir)
    dtype = _quantized_type(zero_point, node)
    precision = _division_type(x.dtype, scale.dtype, node)
    axis, block = _granularity(x, node)
    shape, split = x.shape, splits_blocks(x, axis, block)
    x = with_blocks(x, axis, block, ir) if split else x
    divisor = granular(ir.cast(scale, precision), shape, axis, block, node, ir, split=split)
    if zero_point is not None and dtype.is_integer and zero_point.shape in ((), (1,)) and is_zero(zero_point, ir):
        zero_point = None
    if zero_point is not None:
        zero_point = granular(zero_point, shape, axis, block, node, ir, split=split)
    scaled = ir.div(ir.cast(x, precision), divisor)
    return ir.reshape(quantize(scaled, zero_point, dtype, ir, saturate=node.flag("saturate", True)), shape)


def _expect_granularity(scale: Value, zero_point: Value | None, node: Node, ir: Builder) -> None:
    """Scale and zero point agree; before version 13 they are for the whole tensor."""
    if node.since < PER_AXIS_SINCE and any(isinstance(size, int) and size != 1 for size in scale.shape):
        message = f"the scale is {scale.type}, not a scalar"
        node.fail("quantization-granularity", message, rule=f"ONNX {node.operator}, scale")
    expect_same_shape(scale, zero_point, node, ir)


def _granularity(x: Value, node: Node) -> tuple[int, int]:
    """The axis, which one scale for all does not need, and the size of a block or 0."""
    block = node.int("block_size", 0)
    if block < 0:
        node.fail("attribute-range", f"block_size is {block}", rule=f"ONNX {node.operator}, attribute block_size")
    axis = node.int("axis", 1)
    if x.rank <= 1 and not block:
        return 0, 0
    return node.axes_list((axis,), x.rank, "axis")[0], block


def _element_type(name: str, node: Node) -> DType | None:
    """The type whose code an attribute gives; None where it is absent or 0."""
    return node.dtype(name) if node.int(name, 0) else None


def _quantized_type(zero_point: Value | None, node: Node) -> DType:
    given = _element_type("output_dtype", node)
    if zero_point is None:
        return given or U8
    if given not in (None, zero_point.dtype):
        message = f"output_dtype is {given}, y_zero_point is {zero_point.dtype}"
        node.fail("output-type", message, rule="ONNX QuantizeLinear, attribute output_dtype")
    return zero_point.dtype


def _division_type(x: DType, scale: DType, node: Node) -> DType:
    precision = _element_type("precision", node)
    if precision is not None:
        if not precision.is_float:
            message = f"precision is {precision}, not a float"
            node.fail("division-type", message, rule="ONNX QuantizeLinear, attribute precision")
        return precision
    if scale == F8E8M0:
        return x if x.is_float else F32
    return scale if scale.is_float else real_type(scale)


@operator("DequantizeLinear", since=(10, 13, 19, 21, 23, 24, 25, 28))
def dequantize_linear(node: Node, ir: Builder) -> Value:
    """x: T1[...], x_scale: T2, x_zero_point: T1, of one element, per axis or blocked  ->  T3[...], (x - zero) * scale

    Source: https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html
    """
    x, scale = node.inputs("x", "x_scale")
    zero_point = node.optional("x_zero_point")
    _expect_granularity(scale, zero_point, node, ir)
    dtype = _element_type("output_dtype", node) or scale.dtype
    if dtype == F8E8M0:
        message = f"output_dtype is absent and the scale is {scale.dtype}"
        node.fail("output-type", message, rule="ONNX DequantizeLinear, attribute output_dtype")
    axis, block = _granularity(x, node)
    # f32 holds every difference of integers up to 16 bits.
    difference = I32 if x.dtype == I32 else F32
    shape, split = x.shape, splits_blocks(x, axis, block)
    value = ir.cast(with_blocks(x, axis, block, ir) if split else x, difference)
    if zero_point is not None:
        zero = granular(ir.cast(zero_point, difference), shape, axis, block, node, ir, split=split)
        value = ir.sub(value, zero)
    factor = granular(ir.cast(scale, F32), shape, axis, block, node, ir, split=split)
    return ir.reshape(ir.cast(ir.mul(ir.cast(value, F32), factor), dtype), shape)


@operator("DynamicQuantizeLinear", since=(11,))
def dynamic_quantize_linear(node: Node, ir: Builder) -> tuple[Value, Value, Value]:
    """x: f32[...]  ->  y: u8[...], y_scale: f32[], y_zero_point: u8[], which make the most of the range of x and 0

    By the formulas a range of 0, of zeros alone or of nothing, has a scale of 0 and a zero point of NaN. As in onnx's
    reference it counts as 1 there, so that the scale is 1 / 255 and all is finite; in ONNX Runtime the scale is 1. All
    elements are 0 either way.
    Source: https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html
    """
    return dynamically_quantized(node.input("x"), ir)
