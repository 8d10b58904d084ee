"""MatMulInteger and QLinearMatMul: products of quantised matrices."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.linear_quantization import onto, quantize, shifted
from onnxc.compiler.frontend.operator_helpers.open_ranks.matrix_rank import at_matrix_rank
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, I32
from onnxc.compiler.ir.module import Value


@operator("MatMulInteger", since=(10,))
@at_matrix_rank
def matmul_integer(node: Node, ir: Builder) -> Value:
    """A: T1[..., M, K], B: T2[..., K, N], zero points of one element, per row or per column  ->  i32[..., M, N]

    Source: https://onnx.ai/onnx/operators/onnx__MatMulInteger.html
    """
    a, b = node.inputs("A", "B")
    return shifted_product(a, node.optional("a_zero_point"), b, node.optional("b_zero_point"), node, ir)


@operator("QLinearMatMul", since=(10, 21))
@at_matrix_rank
def qlinear_matmul(node: Node, ir: Builder) -> Value:
    """a: T1[..., M, K], b: T2[..., K, N], scales, zero points of one element, per row or per column  ->  T3[..., M, N]

    The product of the scales is in f32, and so is what it scales.
    Source: https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html
    """
    a, b, a_zero, b_zero = node.inputs("a", "b", "a_zero_point", "b_zero_point")
    product = ir.cast(shifted_product(a, a_zero, b, b_zero, node, ir), F32)
    y_zero = node.input("y_zero_point")
    a_scale, b_scale, y_scale = (ir.cast(scale, F32) for scale in node.inputs("a_scale", "b_scale", "y_scale"))
    rows, columns = _per_row(a_scale, product.rank, ir), per_column(b_scale, product.rank, ir)
    factor = ir.div(ir.mul(rows, columns), _per_row(y_scale, product.rank, ir))
    scaled = ir.mul(product, onto(factor, product.shape, "a scale", node, ir, "matmul-scale"))
    zero_point = onto(_per_row(y_zero, product.rank, ir), product.shape, "y_zero_point", node, ir, "matmul-zero-point")
    return quantize(scaled, zero_point, y_zero.dtype, ir)


def shifted_product(a: Value, a_zero: Value | None, b: Value, b_zero: Value | None, node: Node, ir: Builder) -> Value:
    """(a - a_zero) @ (b - b_zero), in i32; of floats in f32."""
    if a.dtype.is_float or b.dtype.is_float:
        return ir.matmul(_float_shifted(a, a_zero, ir), _float_shifted(b, b_zero, ir))
    if a_zero is not None:
        a_zero = _fitted(_per_row(a_zero, a.rank, ir), a.shape, "a_zero_point", node, ir)
    if b_zero is not None:
        b_zero = _fitted(per_column(b_zero, b.rank, ir), b.shape, "b_zero_point", node, ir)
    left, right = shifted(a, a_zero, ir), shifted(b, b_zero, ir)
    if I32 in (left.dtype, right.dtype):
        left, right = ir.cast(left, I32), ir.cast(right, I32)
    return ir.matmul(left, right, I32)


def _float_shifted(x: Value, zero_point: Value | None, ir: Builder) -> Value:
    """An 8-bit float as f32; its zero point is 0."""
    wide = ir.cast(x, F32)
    return wide if zero_point is None else ir.sub(wide, ir.cast(ir.reshape(zero_point, ()), F32))


def _fitted(zero_point: Value, shape: Sequence[Dim], name: str, node: Node, ir: Builder) -> Value:
    """A zero point ready to broadcast to `shape`, of rank 0 where it is one element."""
    if all(size == 1 for size in zero_point.shape):
        return ir.reshape(zero_point, ())
    return onto(zero_point, shape, name, node, ir, "matmul-zero-point")


def _per_row(value: Value, rank: int, ir: Builder) -> Value:
    """A vector of one value per row, as a column."""
    return ir.unsqueeze(value, [1]) if value.rank == 1 and value.shape[0] != 1 and rank > 1 else value


def per_column(value: Value, rank: int, ir: Builder) -> Value:
    """One value per column needs no new axis; one element needs none at all."""
    return ir.reshape(value, ()) if value.rank > rank and value.shape == (1,) else value
