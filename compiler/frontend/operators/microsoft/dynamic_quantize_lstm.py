"""DynamicQuantizeLSTM of com.microsoft: an LSTM with quantised weights."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.frontend.operator_helpers.standard_nodes import standard_node
from onnxc.compiler.frontend.operators.recurrent.lstm import lstm
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value

CODE = "recurrent-shape"
OTHERS = ("B", "sequence_lens", "initial_h", "initial_c", "P")


@operator("DynamicQuantizeLSTM", since=(1,), domain=MICROSOFT)
def dynamic_quantize_lstm(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """X: f32[L, B, I], W: T2[D, I, 4 H], R: T2[D, H, 4 H], scales and zero points: [D] or [D, 4 H], as LSTM from there

    ONNX Runtime quantises what the weights are multiplied with in every step; here it stays f32, which is what that
    stands for.
    """
    weights = [_real(name, node, ir) for name in ("W", "R")]
    operands = (node.input("X"), *weights, *(node.optional(name) for name in OTHERS))
    results = lstm(standard_node(node, "LSTM", 7, operands), ir)
    return results if isinstance(results, tuple) else (results,)


def _real(name: str, node: Node, ir: Builder) -> Value:
    """f32[D, 4 H, I]: the weights, dequantised, with the axes that LSTM has"""
    weights = of_shape(node.input(name), (None, None, None), name, node, ir, CODE)
    scale, zero = (_per_column(f"{name}_{part}", weights, node, ir) for part in ("scale", "zero_point"))
    return ir.transpose(ir.mul(ir.sub(ir.cast(weights, F32), zero), scale), (0, 2, 1))


def _per_column(name: str, weights: Value, node: Node, ir: Builder) -> Value:
    """f32[D, 1, 1] or f32[D, 1, 4 H]"""
    value = ir.cast(node.input(name), F32)
    if value.rank == 2:
        return ir.unsqueeze(of_shape(value, (weights.shape[0], weights.shape[2]), name, node, ir, CODE), (1,))
    return ir.unsqueeze(of_shape(value, (weights.shape[0],), name, node, ir, CODE), (1, 2))
