"""Attributes of nodes as texts of bounded length, whatever they hold."""

from itertools import islice

from onnxc.compiler.frontend.about import free_text
from onnxc.compiler.frontend.checks.attributes import attribute_type, kind_name
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, NodeProto
from onnxc.runtime.program import JsonValue

__all__ = ["attribute_texts"]

SHOWN_PARTS = 64
SHOWN_CHARACTERS = 2000

_SCALARS = {AttributeProto.FLOAT: "f", AttributeProto.INT: "i", AttributeProto.STRING: "s"}
_LISTS = {AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints", AttributeProto.STRINGS: "strings"}


def attribute_texts(node: NodeProto) -> dict[str, JsonValue]:
    """The value of each attribute by its name; of tensors and graphs their kind alone."""
    return {free_text(attribute.name): _text(attribute) for attribute in node.attribute}


def _text(attribute: AttributeProto) -> str:
    kind = attribute_type(attribute)
    if attribute.ref_attr_name:
        return f"attribute {free_text(attribute.ref_attr_name)} of the function"
    if kind in _SCALARS:
        return _scalar(getattr(attribute, _SCALARS[kind]))
    if kind not in _LISTS:
        return kind_name(kind)
    parts = getattr(attribute, _LISTS[kind])
    shown = [_scalar(part) for part in islice(parts, SHOWN_PARTS)]
    return f"[{', '.join(shown)}{', ...' if len(parts) > SHOWN_PARTS else ''}]"


def _scalar(value: float | str | bytes) -> str:
    if isinstance(value, str | bytes):
        text = free_text(value)
        return text[:SHOWN_CHARACTERS] + ("..." if len(text) > SHOWN_CHARACTERS else "")
    return f"{value:.6g}" if isinstance(value, float) else str(value)
