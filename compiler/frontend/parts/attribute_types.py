"""Types of attributes that do not say theirs: that of the value, or that which a parameter of a function has."""

from collections.abc import Iterable, Mapping

from onnxc.compiler.frontend.attribute_fields import ATTRIBUTE_FIELDS, AttributeType
from onnxc.compiler.frontend.checks.attributes import attribute_type, kind_name
from onnxc.compiler.frontend.functions import FunctionKey, ModelFunction, all_nodes, imported_opsets, node_key
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, ModelProto, NodeProto
from onnxc.compiler.frontend.schemas import normal_domain, schema

__all__ = ["give_attribute_types"]

_TYPES = {kind_name(code): code for code in ATTRIBUTE_FIELDS}


def give_attribute_types(model: ModelProto) -> None:
    """Writes every type that is not said and can be known.

    What a parameter is passed on to may itself not say its type, so this is done until no type is new.
    """
    while True:
        functions = {function.key: function for function in map(ModelFunction, model.functions)}
        is_new = _give_types(model.graph.node, imported_opsets(model.opset_import), functions)
        for function in functions.values():
            is_new = _give_types(function.proto.node, function.opsets, functions) or is_new
        if not is_new:
            return


def _give_types(
    nodes: Iterable[NodeProto], opsets: Mapping[str, int], functions: Mapping[FunctionKey, ModelFunction]
) -> bool:
    """Whether a type of an attribute of these nodes is new."""
    is_new = False
    for node in all_nodes(nodes):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.UNDEFINED:
                refers = attribute.ref_attr_name
                known = _wanted(node, attribute.name, opsets, functions) if refers else attribute_type(attribute)
                is_new = is_new or known != AttributeProto.UNDEFINED
                attribute.type = known
    return is_new


def _wanted(
    node: NodeProto, name: str, opsets: Mapping[str, int], functions: Mapping[FunctionKey, ModelFunction]
) -> AttributeType:
    """The type of which a node takes an attribute; UNDEFINED where that is not known."""
    called = functions.get(node_key(node))
    if called is not None:
        default = called.defaults.get(name)
        return called.references.get(name, AttributeProto.UNDEFINED) if default is None else attribute_type(default)
    domain = normal_domain(node.domain)
    chosen = schema(domain, node.op_type, opsets.get(domain, 0))
    if chosen is None or name not in chosen.attributes:
        return AttributeProto.UNDEFINED
    return _TYPES[chosen.attributes[name].kind]
