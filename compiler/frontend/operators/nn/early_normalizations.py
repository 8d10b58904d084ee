"""Normalisations that ONNX Runtime puts into ai.onnx, earlier than the standard has them."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.standard_nodes import first_result, standard_node
from onnxc.compiler.frontend.operator_helpers.standardize import inverse_root
from onnxc.compiler.frontend.operators.nn.layer_normalization import layer_normalization, rms_normalization
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value


@operator("SimplifiedLayerNormalization", since=(1,))
def simplified_layer_normalization(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """X: T[...], scale: V  ->  Y: V[...] as RMSNormalization, inv_std_var: U, which ONNX Runtime puts into ai.onnx"""
    x = node.input("X")
    y = first_result(rms_normalization, standard_node(node, "RMSNormalization", 23, node.operands), ir)
    if not node.wants(1):
        return (y,)
    axes = range(node.axis("axis", rank=x.rank), x.rank)
    return y, inverse_root(x, axes, node.float("epsilon"), ir)


@operator("LayerNormalization", since=(1,))
def early_layer_normalization(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """As LayerNormalization of opset 17, which ONNX Runtime writes at earlier ones too; Y has the type of Scale"""
    x, scale = node.inputs("X", "Scale")
    operands = (x, scale, node.optional("B"))
    if x.dtype != scale.dtype:
        operands = (ir.cast(x, F32), ir.cast(scale, F32), None if operands[2] is None else ir.cast(operands[2], F32))
    made = layer_normalization(standard_node(node, "LayerNormalization", 17, operands), ir)
    results = made if isinstance(made, tuple) else (made,)
    assert results[0] is not None, node.operator
    return ir.cast(results[0], scale.dtype), *results[1:]
