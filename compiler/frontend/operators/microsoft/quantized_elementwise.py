"""QLinear operators of com.microsoft: quantised tensors in and out, computed in f32 between.

T[...] with a scale f32[] and a zero point T[], 0 where it is left out; what is computed is rounded to even.
"""

from collections.abc import Callable

from onnxc.compiler.frontend.operator import Lowering, Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.linear_quantization import dequantized, quantize
from onnxc.compiler.frontend.operator_helpers.shape_inputs import only_element
from onnxc.compiler.frontend.operator_helpers.standard_nodes import first_result, standard_node
from onnxc.compiler.frontend.operators.math.softmax import ROWS_ALONG_AXIS, ROWS_OF_TRAILING_AXES
from onnxc.compiler.frontend.operators.microsoft.convolutions import channels_first, channels_last
from onnxc.compiler.frontend.operators.nn.pooling import average_pool, global_average_pool
from onnxc.compiler.frontend.operators.quantized.integer_conv import qlinear_conv
from onnxc.compiler.frontend.operators.tensor.concat import concat
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, F64, DType
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

# Softmax is of rows that the trailing axes make up before this opset.
SOFTMAX_ALONG_AXIS_SINCE = 13


def real(x: str, scale: str, zero_point: str, node: Node, ir: Builder) -> Value:
    """The inputs of these names, dequantised."""
    zero = node.optional(zero_point)
    return dequantized(
        node.input(x),
        only_element(node.input(scale), scale, node, ir),
        None if zero is None else only_element(zero, zero_point, node, ir),
        ir,
    )


def quantized(x: Value, dtype: DType, scale: str, zero_point: str, node: Node, ir: Builder) -> Value:
    """`x` quantised by the inputs of these names."""
    zero = node.optional(zero_point)
    divisor = only_element(node.input(scale), scale, node, ir)
    return quantize(ir.div(x, divisor), None if zero is None else only_element(zero, zero_point, node, ir), dtype, ir)


@record
class _Side:
    """An operand of two: its elements as they are, its scale, f32[], and its zero point, f32[]."""

    codes: Value
    scale: Value
    zero: Value


def _side(name: str, node: Node, ir: Builder) -> _Side:
    return _Side(node.input(name), *_scale_and_zero(name, node, ir))


def _scale_and_zero(name: str, node: Node, ir: Builder) -> tuple[Value, Value]:
    scale, zero = f"{name}_scale", node.optional(f"{name}_zero_point")
    shift = ir.scalar(0.0, F32) if zero is None else only_element(zero, f"{name}_zero_point", node, ir)
    return ir.cast(only_element(node.input(scale), scale, node, ir), F32), ir.cast(shift, F32)


@operator("QLinearAdd", since=(1,), domain=MICROSOFT)
def qlinear_add(node: Node, ir: Builder) -> Value:
    """A: T[...], B: T[...]  ->  C: T[...], broadcast

    C = A * a + (B * b + zero) with a = A_scale / C_scale, and so b; zero is what A and B do not say. Each sum of a
    product is rounded once, as ONNX Runtime does: its products are exact in f64.
    """
    left, right = _side("A", node, ir), _side("B", node, ir)
    scale, zero = _scale_and_zero("C", node, ir)
    a, b = ir.div(left.scale, scale), ir.div(right.scale, scale)
    zero = ir.sub(zero, _rounded_once(a, left.zero, ir.mul(b, right.zero), ir))
    codes, others = ir.broadcast_together(left.codes, right.codes)
    total = _rounded_once(codes, a, _rounded_once(others, b, zero, ir), ir)
    return quantize(total, None, left.codes.dtype, ir)


def _rounded_once(x: Value, factor: Value, term: Value, ir: Builder) -> Value:
    """x * factor + term in f32"""
    product = ir.mul(ir.cast(x, F64), ir.cast(factor, F64))
    return ir.cast(ir.add(product, ir.cast(term, F64)), F32)


@operator("QLinearMul", since=(1,), domain=MICROSOFT)
def qlinear_mul(node: Node, ir: Builder) -> Value:
    """A: T[...], B: T[...]  ->  C: T[...], broadcast; the zero point is added before rounding, which decides ties

    C = (A - zero) * (B - zero) * (A_scale * B_scale / C_scale) + zero, as ONNX Runtime rounds.
    """
    left, right = _side("A", node, ir), _side("B", node, ir)
    scale, zero = _scale_and_zero("C", node, ir)
    ratio = ir.div(ir.mul(left.scale, right.scale), scale)
    a, b = (ir.sub(ir.cast(side.codes, F32), side.zero) for side in (left, right))
    return quantize(ir.add(ir.mul(ir.mul(*ir.broadcast_together(a, b)), ratio), zero), None, left.codes.dtype, ir)


def _unary(compute: Callable[[Value, Node, Builder], Value]) -> Lowering:
    """X: T[...]  ->  Y: T[...]"""

    def lower(node: Node, ir: Builder) -> Value:
        y = compute(real("X", "X_scale", "X_zero_point", node, ir), node, ir)
        return quantized(y, node.input("X").dtype, "Y_scale", "Y_zero_point", node, ir)

    return lower


def _leaky_relu(x: Value, node: Node, ir: Builder) -> Value:
    return ir.select(ir.less(x, 0), ir.mul(x, node.float("alpha")), x)


operator("QLinearLeakyRelu", since=(1,), domain=MICROSOFT)(_unary(_leaky_relu))
operator("QLinearSigmoid", since=(1,), domain=MICROSOFT)(_unary(lambda x, node, ir: ir.sigmoid(x)))


@operator("QLinearSoftmax", since=(1,), domain=MICROSOFT)
def qlinear_softmax(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  Y: T[...]: Softmax as it is in the opset that the attribute names"""
    x = real("X", "X_scale", "x_zero_point", node, ir)
    along = node.int("opset") >= SOFTMAX_ALONG_AXIS_SINCE
    lowering, version = (ROWS_ALONG_AXIS["Softmax"], 13) if along else (ROWS_OF_TRAILING_AXES["Softmax"], 11)
    weights = first_result(lowering, standard_node(node, "Softmax", version, (x,)), ir)
    return quantized(weights, node.input("X").dtype, "y_scale", "y_zero_point", node, ir)


@operator("QLinearWhere", since=(1,), domain=MICROSOFT)
def qlinear_where(node: Node, ir: Builder) -> Value:
    """condition: bool[...], X: T[...], Y: T[...]  ->  Z: T[...], broadcast"""
    x = real("X", "x_scale", "x_zero_point", node, ir)
    y = real("Y", "y_scale", "y_zero_point", node, ir)
    condition, x, y = ir.broadcast_together(node.input("condition"), x, y)
    return quantized(ir.select(condition, x, y), node.input("X").dtype, "z_scale", "z_zero_point", node, ir)


@operator("QLinearConcat", since=(1,), domain=MICROSOFT)
def qlinear_concat(node: Node, ir: Builder) -> Value:
    """Y_scale, Y_zero_point, then X, its scale and its zero point for each part  ->  Y: T[...], along `axis`"""
    parts = [None if value is None else node.tensor_of(value) for value in node.operands[2:]]
    if not parts or len(parts) % 3:
        message = f"{len(parts)} inputs follow the zero point, which are not parts with scale and zero point each"
        node.fail("input-count", message, rule="ONNX Runtime QLinearConcat, inputs")
    values = []
    for x, scale, zero in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if x is None or scale is None:
            node.fail("missing-input", "a part or its scale is left out", rule="ONNX Runtime QLinearConcat, inputs")
        shift = None if zero is None else only_element(zero, "a zero point", node, ir)
        values.append(dequantized(x, only_element(scale, "a scale", node, ir), shift, ir))
    joined = first_result(concat, standard_node(node, "Concat", 13, values), ir)
    return quantized(joined, node.input("Y_zero_point").dtype, "Y_scale", "Y_zero_point", node, ir)


@operator("QLinearAveragePool", since=(1,), domain=MICROSOFT)
def qlinear_average_pool(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S], or T[N, *S, C] where channels_last is set  ->  Y, pooled as by AveragePool"""
    return _pooled("AveragePool", 11, average_pool, node, ir)


@operator("QLinearGlobalAveragePool", since=(1,), domain=MICROSOFT)
def qlinear_global_average_pool(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S], or T[N, *S, C] where channels_last is set  ->  Y with 1 for each size of S"""
    return _pooled("GlobalAveragePool", 1, global_average_pool, node, ir)


def _pooled(name: str, version: int, lowering: Lowering, node: Node, ir: Builder) -> Value:
    x, is_last = real("X", "x_scale", "x_zero_point", node, ir), node.flag("channels_last")
    images = channels_first(x, ir) if is_last and x.rank > 2 else x
    y = first_result(lowering, standard_node(node, name, version, (images,)), ir)
    y = channels_last(y, ir) if is_last else y
    return quantized(y, node.input("X").dtype, "y_scale", "y_zero_point", node, ir)


@operator("QLinearReduceMean", since=(1,), domain=MICROSOFT)
def qlinear_reduce_mean(node: Node, ir: Builder) -> Value:
    """data: T[...]  ->  reduced: T, the mean over `axes`"""
    x = real("data", "data_scale", "data_zero_point", node, ir)
    axes = node.axes_list(node.ints("axes"), x.rank)
    mean = ir.mean(x, axes or range(x.rank), keepdims=node.flag("keepdims"))
    return quantized(mean, node.input("data").dtype, "reduced_scale", "reduced_zero_point", node, ir)


@operator("QLinearConv", since=(1,), domain=MICROSOFT)
def qlinear_conv_with_channels_last(node: Node, ir: Builder) -> Value:
    """As QLinearConv of the standard; x and y have their channels last where channels_last is set, w never."""
    x, *others = node.operands
    assert x is not None
    image = node.tensor_of(x)
    if not node.flag("channels_last"):
        return first_result(qlinear_conv, standard_node(node, "QLinearConv", 10, node.operands), ir)
    if image.rank < 3:
        node.fail("convolution-rank", f"x is {image.type}, without spatial axes", rule="ONNX Runtime QLinearConv")
    plain = standard_node(node, "QLinearConv", 10, (channels_first(image, ir), *others))
    return channels_last(first_result(qlinear_conv, plain, ir), ir)
