"""Optional, OptionalHasElement and OptionalGetElement: values that may be absent."""

from onnxc.compiler.frontend.joining.container_values import known_presence, with_element
from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.host_values import required
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import OptionalType, TensorType, without_symbols


@operator("Optional", since=(15, 28))
def optional(node: Node, ir: Builder) -> Value:
    """input: V?  ->  optional(V), absent without the input; V is then the attribute `type`

    Source: https://onnx.ai/onnx/operators/onnx__Optional.html
    """
    value = node.host_input("input") if node.operands else None
    if value is not None:
        return ir.host("optional_construct", (value,), (OptionalType(value.type),), {})[0]
    if not node.has("type"):
        node.fail("missing-attribute", "neither input nor attribute type is given", rule="ONNX Optional, type")
    return ir.host("optional_construct", (), (OptionalType(without_symbols(node.value_type("type"))),), {})[0]


@operator("OptionalHasElement", since=(15, 18, 28))
def optional_has_element(node: Node, ir: Builder) -> Value:
    """input: optional(V), or V, or nothing  ->  bool[], whether there is a value

    Source: https://onnx.ai/onnx/operators/onnx__OptionalHasElement.html
    """
    value = node.host_input("input") if node.operands else None
    presence = False if value is None else known_presence(value)
    if value is None or presence is not None:
        return ir.scalar(presence is True, BOOL)
    return ir.host("optional_has_element", (value,), (TensorType(BOOL, ()),), {})[0]


@operator("OptionalGetElement", since=(15, 18, 28))
def optional_get_element(node: Node, ir: Builder) -> Value:
    """input: optional(V), or V  ->  V; that there is none is an error of the call

    Source: https://onnx.ai/onnx/operators/onnx__OptionalGetElement.html
    """
    value = required("input", node)
    if known_presence(value) is False and "." not in node.location.graph:
        node.fail("absent-optional", "the optional has no element", rule="ONNX OptionalGetElement, input")
    return with_element(value, ir)
