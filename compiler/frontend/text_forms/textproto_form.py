"""Models in protobuf's text format, with comments for the NaN whose bits it cannot say."""

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.text_forms.beyond_syntax import apply_fields, missing_fields
from onnxc.compiler.frontend.text_forms.protobuf_text import parse_message, print_message

__all__ = ["parse_textproto", "print_textproto"]


def parse_textproto(text: str) -> ModelProto:
    """The model of a text; ModelError tells line and column of what is wrong."""
    model = parse_message(text)
    apply_fields(text, 0, model)
    return model


def print_textproto(model: ModelProto) -> str:
    """The text of a model."""
    said = print_message(model)
    comments = "\n".join(missing_fields(model, parse_message(said))) if "nan" in said else ""
    return f"{said}\n{comments}\n" if comments else said
