"""The words of ONNX's text syntax, as docs/Syntax.md of the standard and its parser have them."""

import re
from collections.abc import Mapping
from typing import TypeAlias

from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto

__all__ = [
    "ATTRIBUTE_FIELDS",
    "ATTRIBUTE_TYPES",
    "ELEMENT_NUMBERS",
    "FLOAT_WORD",
    "FUNCTION_HEADER",
    "LIST_TYPES",
    "MODEL_HEADER",
    "NESTED_GRAPHS",
    "PLAIN",
    "RULE",
    "TYPE_WORDS",
    "AttributeType",
]

RULE = "ONNX, docs/Syntax.md"

NESTED_GRAPHS = 31
"""Graphs in graphs that protobuf reads: each is three messages further down, and it stops at a hundred."""

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name that needs no quotes."""

FLOAT_WORD = re.compile(r"(?:inf|infinity|nan)\Z", re.IGNORECASE)
"""The words that are numbers where a number may be."""

ELEMENT_NUMBERS: Mapping[str, int] = {element.name: number for number, element in ELEMENT_TYPES.items()}

TYPE_WORDS = frozenset((*ELEMENT_NUMBERS, "seq", "map", "optional", "sparse_tensor", "opaque"))
"""The words that begin a type: as the name of a value they need quotes."""

AttributeType: TypeAlias = AttributeProto.AttributeType

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

ATTRIBUTE_FIELDS: Mapping[AttributeType, str] = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}
"""The field that holds the value of an attribute of each type."""

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
