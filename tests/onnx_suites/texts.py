"""Counterparts of onnx.parser and onnx.printer: parts are read and written within a model of nothing else."""

import re

from google.protobuf.message import Message
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper
from onnx.parser import ParseError

import onnxc
from tests.onnx_suites.errors import errors_as

__all__ = ["parse_function", "parse_graph", "parse_model", "parse_node", "to_text"]

HEADER = '<ir_version: 13, opset_import: ["" : 1]>\n'


def parse_model(text: str) -> ModelProto:
    """The model that a text is."""
    with errors_as(ParseError):
        return ModelProto.FromString(onnxc.from_text(text).SerializeToString())


def parse_graph(text: str) -> GraphProto:
    """The graph that a text is."""
    return parse_model(HEADER + text).graph


def parse_function(text: str) -> FunctionProto:
    """The function that a text is."""
    return parse_model(f"{HEADER} g () => () {{ }}\n{text}").functions[0]


def parse_node(text: str) -> NodeProto:
    """The node that a text is."""
    return parse_model(f"{HEADER} g () => () {{ {text} }}").graph.node[0]


def to_text(proto: Message) -> str:
    """The text of a model, a graph, a function or a node."""
    empty = helper.make_graph([], "g", [], [])
    with errors_as(ValueError):
        match proto:
            case ModelProto():
                return onnxc.to_text(proto)
            case GraphProto():
                return _of_graph(helper.make_model(proto))
            case FunctionProto():
                text = _of_graph(helper.make_model(empty, functions=[proto]))
                return text[text.index("<") :]
            case NodeProto():
                text = _of_graph(helper.make_model(helper.make_graph([proto], "g", [], [])))
                return text[text.index("{") + 1 : text.rindex("}")].strip()
    raise TypeError(type(proto).__name__)


def _of_graph(model: ModelProto) -> str:
    """The text of a model without what it says of the model."""
    text = onnxc.to_text(model)
    # Blanks between the elements of a tensor are no part of what is compared.
    return re.sub(r"\{[^{}=]*\}", lambda found: found[0].replace(", ", ","), text[text.index(">") + 1 :].strip())
