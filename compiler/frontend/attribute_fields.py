"""Where an AttributeProto holds its value, by its type."""

from collections.abc import Mapping
from typing import TypeAlias

from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto

__all__ = ["ATTRIBUTE_FIELDS", "AttributeType"]

AttributeType: TypeAlias = AttributeProto.AttributeType

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
