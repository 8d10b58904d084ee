"""Models in the syntax of the onnx package, with comments for what it cannot say."""

from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.text_forms.beyond_syntax import apply_fields, missing_fields
from onnxc.compiler.frontend.text_forms.onnx_parser import parse_syntax
from onnxc.compiler.frontend.text_forms.onnx_printer import print_syntax

__all__ = ["parse_onnxtxt", "print_onnxtxt"]


def parse_onnxtxt(text: str) -> ModelProto:
    """The model of a text; ModelError tells line and column of what is wrong."""
    model, end = parse_syntax(text)
    apply_fields(text, end, model)
    return model


def print_onnxtxt(model: ModelProto) -> str:
    """The text of a model."""
    said = print_syntax(model)
    comments = "\n".join(missing_fields(model, parse_syntax(said)[0]))
    return f"{said}\n{comments}\n" if comments else said
