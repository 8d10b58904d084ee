"""Products of quantised matrices of com.microsoft, and QuantizeLinear and DequantizeLinear, which it had first."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.broadcasting import broadcast_onto
from onnxc.compiler.frontend.operator_helpers.linear_quantization import dynamically_quantized, onto, quantize, shifted
from onnxc.compiler.frontend.operator_helpers.shape_inputs import only_element
from onnxc.compiler.frontend.operator_helpers.standard_nodes import first_result, standard_node
from onnxc.compiler.frontend.operators.microsoft.activations import with_last_axis_bias
from onnxc.compiler.frontend.operators.quantized.integer_matmul import shifted_product
from onnxc.compiler.frontend.operators.quantized.quantize_linear import dequantize_linear, quantize_linear
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I32
from onnxc.compiler.ir.module import Value

SCALE_CODE, BIAS_CODE = "matmul-scale", "gemm-bias"


@operator("QGemm", since=(1,), domain=MICROSOFT)
def qgemm(node: Node, ir: Builder) -> Value:
    """A: TA[M, K], B: TB[K, N], either transposed, C: i32 to [M, N]  ->  Y: T[M, N], that of y_zero_point, else f32

    alpha * a_scale * b_scale * ((A - a_zero_point) (B - b_zero_point) + C) / y_scale; that of B may be one per column.
    """
    a, b = node.inputs("A", "B")
    if (a.rank, b.rank) != (2, 2):
        node.fail("gemm-rank", f"the ranks of A and B are {a.rank} and {b.rank}, not 2", rule="ONNX Runtime QGemm")
    a = ir.transpose(a, (1, 0)) if node.flag("transA") else a
    b = ir.transpose(b, (1, 0)) if node.flag("transB") else b
    total = shifted_product(a, node.optional("a_zero_point"), b, node.optional("b_zero_point"), node, ir)
    addend = node.optional("C")
    if addend is not None:
        total = ir.add(total, broadcast_onto(addend, total.shape, "C", node, ir, BIAS_CODE))
    a_scale = ir.mul(only_element(node.input("a_scale"), "a_scale", node, ir), node.float("alpha"))
    factor = ir.mul(a_scale, node.input("b_scale"))
    y_scale, y_zero = node.optional("y_scale"), node.optional("y_zero_point")
    if y_scale is not None:
        factor = ir.div(factor, only_element(y_scale, "y_scale", node, ir))
    scaled = ir.mul(ir.cast(total, F32), onto(factor, total.shape, "b_scale", node, ir, SCALE_CODE))
    if y_zero is None:
        return scaled
    return quantize(scaled, only_element(y_zero, "y_zero_point", node, ir), y_zero.dtype, ir)


@operator("MatMulIntegerToFloat", since=(1,), domain=MICROSOFT)
def matmul_integer_to_float(node: Node, ir: Builder) -> Value:
    """A: T1[..., M, K], B: T2[..., K, N], b_scale and b_zero_point of one element or T[N], bias: T3[N]  ->  T3

    a_scale * b_scale * (A - a_zero_point) (B - b_zero_point) + bias
    """
    a, b = node.inputs("A", "B")
    a_zero, b_zero = node.optional("a_zero_point"), node.optional("b_zero_point")
    scale = only_element(node.input("a_scale"), "a_scale", node, ir)
    return _scaled_product(a, scale, a_zero, b, b_zero, node, ir)


@operator("DynamicQuantizeMatMul", since=(1,), domain=MICROSOFT)
def dynamic_quantize_matmul(node: Node, ir: Builder) -> Value:
    """A: f32[..., M, K], which is quantised first, then as MatMulIntegerToFloat"""
    a, scale, zero = dynamically_quantized(node.input("A"), ir)
    return _scaled_product(a, scale, zero, node.input("B"), node.optional("b_zero_point"), node, ir)


def _scaled_product(
    a: Value, a_scale: Value, a_zero: Value | None, b: Value, b_zero: Value | None, node: Node, ir: Builder
) -> Value:
    b_scale = node.input("b_scale")
    total = ir.cast(shifted_product(a, a_zero, b, b_zero, node, ir), F32)
    factor = ir.mul(ir.cast(a_scale, F32), ir.cast(b_scale, F32))
    product = ir.mul(total, onto(factor, total.shape, "b_scale", node, ir, SCALE_CODE))
    return ir.cast(with_last_axis_bias(product, "bias", node, ir), b_scale.dtype)


@operator("MatMulInteger16", since=(1,), domain=MICROSOFT)
def matmul_integer_16(node: Node, ir: Builder) -> Value:
    """A: i16[..., M, K], B: i16[..., K, N]  ->  i32[..., M, N]"""
    a, b = node.inputs("A", "B")
    return ir.matmul(ir.cast(a, I32), ir.cast(b, I32), I32)


@operator("MulInteger", since=(1,), domain=MICROSOFT)
def mul_integer(node: Node, ir: Builder) -> Value:
    """A: T[...], B: T[...]  ->  i32[...]: (A - A_zero_point) * (B - B_zero_point), broadcast"""
    sides = []
    for name in ("A", "B"):
        zero = node.optional(f"{name}_zero_point")
        shift = None if zero is None else only_element(zero, f"{name}_zero_point", node, ir)
        sides.append(ir.cast(shifted(node.input(name), shift, ir), I32))
    return ir.mul(*ir.broadcast_together(*sides))


@operator("ReduceSumInteger", since=(1,), domain=MICROSOFT)
def reduce_sum_integer(node: Node, ir: Builder) -> Value:
    """data: i8 or u8  ->  the sum over `axes`, in 32 bits"""
    x = node.input("data")
    axes = node.axes_list(node.ints("axes"), x.rank)
    return ir.reduce(ir.cast(x, I32), "sum", axes or range(x.rank), keepdims=node.flag("keepdims"))


@operator("QuantizeLinear", since=(1,), domain=MICROSOFT)
def microsoft_quantize_linear(node: Node, ir: Builder) -> Value:
    """As QuantizeLinear of the standard, which has these types since opset 21."""
    return first_result(quantize_linear, standard_node(node, "QuantizeLinear", 21, node.operands), ir)


@operator("DequantizeLinear", since=(1,), domain=MICROSOFT)
def microsoft_dequantize_linear(node: Node, ir: Builder) -> Value:
    """As DequantizeLinear of the standard, which has these types since opset 21."""
    return first_result(dequantize_linear, standard_node(node, "DequantizeLinear", 21, node.operands), ir)
