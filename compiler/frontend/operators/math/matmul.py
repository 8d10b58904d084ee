"""MatMul: numpy.matmul."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.matrix_rank import at_matrix_rank
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value


@operator("MatMul", since=(1, 9, 13))
@at_matrix_rank
def matmul(node: Node, ir: Builder) -> Value:
    """A: T[..., M, K], B: T[..., K, N]  ->  T[..., M, N]; leading axes broadcast, vectors are promoted.

    Source: https://onnx.ai/onnx/operators/onnx__MatMul.html
    """
    a, b = node.inputs("A", "B")
    return ir.matmul(a, b)
