"""Constant and ConstantOfShape: tensors that attributes hold."""

from collections.abc import Callable, Mapping

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import read_lengths, vector_input
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

_FORMS: Mapping[str, Callable[[Node], np.ndarray]] = {
    "value": lambda node: node.tensor("value"),
    "sparse_value": lambda node: node.tensor("sparse_value"),
    "value_float": lambda node: np.array(node.float("value_float"), np.float32),
    "value_floats": lambda node: np.array(node.floats("value_floats"), np.float32),
    "value_int": lambda node: np.array(node.int("value_int"), np.int64),
    "value_ints": lambda node: np.array(node.ints("value_ints"), np.int64),
    "value_string": lambda node: np.array(node.string("value_string"), object),
    "value_strings": lambda node: np.array(node.strings("value_strings"), object),
}


@operator("Constant", since=(1, 9, 11, 12, 13, 19, 21, 23, 24, 25))
def constant(node: Node, ir: Builder) -> Value:
    """->  the tensor that the one attribute given holds.

    Source: https://onnx.ai/onnx/operators/onnx__Constant.html
    """
    given = [name for name in _FORMS if node.has(name)]
    if len(given) != 1:
        message = f"{len(given)} values are given: {', '.join(given) or 'none'}"
        node.fail("constant-value", message, rule="ONNX Constant, exactly one value")
    return ir.constant(_FORMS[given[0]](node))


@operator("ConstantOfShape", since=(9, 20, 21, 23, 24, 25))
def constant_of_shape(node: Node, ir: Builder) -> Value:
    """input: i64[r]  ->  T[*input], each element the one of the attribute `value`, by default f32 0.

    Source: https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html
    """
    value = node.tensor("value") if node.has("value") else np.zeros(1, np.float32)
    if value.size != 1:
        message = f"value has {value.size} elements, not 1"
        node.fail("constant-value", message, rule="ONNX ConstantOfShape, attribute value")
    shape = read_lengths(vector_input("input", node, ir), "input", node, ir)
    return ir.broadcast(ir.constant(value.reshape(())), (), shape)
