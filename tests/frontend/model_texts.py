"""Small models as text, and what the checker finds in them."""

from collections.abc import Callable

import onnx
from onnx import parser

from onnxc.compiler.diagnostics import Diagnostic
from onnxc.compiler.frontend.check import check_model, collect_findings
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.read import read_model

Edit = Callable[[onnx.ModelProto], object]

HEADER = '<ir_version: 10, opset_import: ["": 21, "own": 1]>\n'


def model(text: str, edit: Edit | None = None, header: str = HEADER) -> onnx.ModelProto:
    """The model that `text` says, changed by `edit`."""
    parsed: onnx.ModelProto = parser.parse_model(header + text)
    if edit is not None:
        edit(parsed)
    return parsed


def findings(official: onnx.ModelProto, severity: str) -> list[Diagnostic]:
    return [finding for finding in collect_findings(read_model(official)) if finding.severity == severity]


def errors(official: onnx.ModelProto) -> set[str]:
    return {finding.code for finding in findings(official, "error")}


def warnings(official: onnx.ModelProto) -> set[str]:
    return {finding.code for finding in findings(official, "warning")}


def checked(official: onnx.ModelProto) -> CheckedModel:
    return check_model(read_model(official))


RELU = "g (float[N] x) => (float[N] y) { y = Relu(x) }"
ADD = "g (float[N] x) => (float[N] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
IF = """g (bool c, float[N] x) => (float[N] y) {
  y = If (c) <then_branch = t () => (float[N] a) { a = Relu(x) }, else_branch = e () => (float[N] b) { b = Neg(x) }>
}"""
LOOP = """g (int64 n, bool c, float[N] x) => (float[N] y) {
  y = Loop (n, c, x) <body = b (int64 i, bool k, float[N] s) => (bool k2, float[N] t) { k2 = Identity(k) t = Relu(s) }>
}"""
CALL = """g (float[N] x) => (float[N] y) { y = own.f(x) }
<domain: "own", opset_import: ["": 21, "own": 1]> f (a) => (b) { b = Relu(a) }"""
LEAKY = """g (float[N] x) => (float[N] y) { y = own.f <alpha: float = 0.5> (x) }
<domain: "own", opset_import: ["": 21, "own": 1]> f <alpha> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }"""


def first_node(graph_model: onnx.ModelProto, index: int = 0) -> onnx.NodeProto:
    return graph_model.graph.node[index]


def first_attribute(graph_model: onnx.ModelProto, index: int = 0) -> onnx.AttributeProto:
    return graph_model.graph.node[0].attribute[index]


def setting(name: str, value: object) -> Edit:
    return lambda m: setattr(m, name, value)
