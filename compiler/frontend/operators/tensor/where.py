"""Where: elements of one tensor or another, by a condition."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import at_common_rank
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value


@operator("Where", since=(9, 16))
@at_common_rank
def where(node: Node, ir: Builder) -> Value:
    """condition: bool[...], X: T[...], Y: T[...]  ->  T[...], all broadcast together

    Source: https://onnx.ai/onnx/operators/onnx__Where.html
    """
    condition, x, y = ir.broadcast_together(*node.inputs("condition", "X", "Y"))
    return ir.select(condition, x, y)
