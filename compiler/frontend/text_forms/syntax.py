"""The words of ONNX's text syntax, as docs/Syntax.md of the standard and its parser have them."""

import re
from collections.abc import Mapping

from onnxc.compiler.frontend.attribute_fields import AttributeType
from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto

__all__ = [
    "ATTRIBUTE_TYPES",
    "ELEMENT_CODES",
    "FLOAT_WORD",
    "FUNCTION_HEADER",
    "LIST_TYPES",
    "MODEL_HEADER",
    "NESTED_GRAPHS",
    "PLAIN",
    "RULE",
    "TYPE_WORDS",
]

RULE = "ONNX, docs/Syntax.md"

NESTED_GRAPHS = 31
"""Graphs in graphs that protobuf reads: each is three messages further down, and it stops at a hundred."""

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name that needs no quotes."""

FLOAT_WORD = re.compile(r"(?:inf|infinity|nan)\Z", re.IGNORECASE)
"""The words that are numbers where a number may be."""

ELEMENT_CODES: Mapping[str, int] = {element.name: code for code, element in ELEMENT_TYPES.items()}

TYPE_WORDS = frozenset((*ELEMENT_CODES, "seq", "map", "optional", "sparse_tensor", "opaque"))
"""The words that begin a type: as the name of a value they need quotes."""

LIST_TYPES: Mapping[AttributeType, AttributeType] = {
    AttributeProto.FLOAT: AttributeProto.FLOATS,
    AttributeProto.INT: AttributeProto.INTS,
    AttributeProto.STRING: AttributeProto.STRINGS,
    AttributeProto.TENSOR: AttributeProto.TENSORS,
    AttributeProto.GRAPH: AttributeProto.GRAPHS,
    AttributeProto.SPARSE_TENSOR: AttributeProto.SPARSE_TENSORS,
    AttributeProto.TYPE_PROTO: AttributeProto.TYPE_PROTOS,
}
"""The type of a list for the type of its elements."""

ATTRIBUTE_TYPES: Mapping[str, AttributeType] = {
    AttributeProto.AttributeType.Name(type).lower(): type for type in (*LIST_TYPES, *LIST_TYPES.values())
}

MODEL_HEADER: Mapping[str, str] = {
    "ir_version": "integer",
    "opset_import": "versions",
    "producer_name": "text",
    "producer_version": "text",
    "domain": "text",
    "model_version": "integer",
    "doc_string": "text",
    "metadata_props": "entries",
}
"""The fields of a model that stand before its graph, and what each is."""

FUNCTION_HEADER: Mapping[str, str] = {
    "domain": "text",
    "overload": "text",
    "opset_import": "versions",
    "doc_string": "text",
}
"""The fields of a function that stand before its name."""
