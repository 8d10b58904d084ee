"""What the nodes give that are constants: their tensors, in whichever attribute they are."""

from collections.abc import Mapping

from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, NodeProto, TensorProto

__all__ = ["CONSTANT_FIELDS", "constant_of"]

CONSTANT_FIELDS: Mapping[str, tuple[str, int, str]] = {
    "value_float": ("f", TensorProto.FLOAT, "float_data"),
    "value_floats": ("floats", TensorProto.FLOAT, "float_data"),
    "value_int": ("i", TensorProto.INT64, "int64_data"),
    "value_ints": ("ints", TensorProto.INT64, "int64_data"),
    "value_string": ("s", TensorProto.STRING, "string_data"),
    "value_strings": ("strings", TensorProto.STRING, "string_data"),
}
"""For each attribute of a Constant that is no tensor: its field, and the element type and field of the tensor."""


def constant_of(node: NodeProto) -> TensorProto | None:
    """The tensor that a Constant gives; None for one that is sparse or a parameter of a function."""
    attribute = node.attribute[0] if node.attribute else AttributeProto()
    if attribute.HasField("t"):
        return attribute.t
    if attribute.name not in CONSTANT_FIELDS or attribute.ref_attr_name:
        return None
    source, element, target = CONSTANT_FIELDS[attribute.name]
    value = getattr(attribute, source)
    is_list = attribute.name.endswith("s")
    made = TensorProto(data_type=element, dims=[len(value)] if is_list else [])
    getattr(made, target).extend(value if is_list else [value])
    return made
