"""Nodes put in order: in graphs, in graphs within, in functions; what has no order, and what is in order already."""

import numpy as np
import pytest
from onnx import ModelProto, checker

import onnxc
from tests.support.models import model_from_text

HEADER = '<ir_version: 10, opset_import: ["" : 21, "own" : 1]>'
FUNCTION = '<domain: "own", opset_import: ["" : 21]> f (h) => (r) { r = Add (n, h) n = Neg (m) m = Mul (h, h) }'
BRANCHES = """
g (float[N] x, bool c) => (float[N] y) {
   y = own.f (b)
   b = If (c) <then_branch = t () => (p) { p = Exp (k) k = Abs (late) },
               else_branch = e () => (q) { q = Identity (late) }>
   late = Add (x, one)
   one = Constant <value_float = 1.0> ()
}"""


def operators(made: ModelProto) -> list[str]:
    return [node.op_type for node in made.graph.node]


def test_every_graph_and_function_is_sorted() -> None:
    model = model_from_text(HEADER + BRANCHES + FUNCTION)
    assert {finding.code for finding in onnxc.check(model)} == {"not-topologically-sorted"}
    made = ModelProto.FromString(onnxc.sort_nodes(model).SerializeToString())
    checker.check_model(made, full_check=True)
    assert operators(made) == ["Constant", "Add", "If", "f"]
    assert [node.op_type for node in made.functions[0].node] == ["Mul", "Neg", "Add"]
    exe = onnxc.compile(made, target="interpreter")
    x = np.float32([-3, 0, 0.5])
    for condition, b in ((True, np.exp(np.abs(x + 1))), (False, x + 1)):
        np.testing.assert_allclose(exe(x, np.array(condition)), b - b * b, rtol=1e-6)


def test_what_is_in_order_stays_as_it_is() -> None:
    text = HEADER + "g (float[N] x) => (float[N] y) { b = Exp (x) unused = Neg (x) a = Abs (x) y = Add (a, b) }"
    model = model_from_text(text)
    assert onnxc.sort_nodes(model).SerializeToString() == model.SerializeToString()


def test_of_several_orders_it_is_the_nearest() -> None:
    text = HEADER + "g (float[N] x) => (float[N] y) { y = Add (a, b) b = Exp (x) z = Neg (b) a = Abs (x) }"
    assert operators(onnxc.sort_nodes(model_from_text(text))) == ["Exp", "Neg", "Abs", "Add"]


def test_a_circle_has_no_order() -> None:
    text = HEADER + "g (float[N] x) => (float[N] y) { y = Add (a, x) a = Exp (b) b = Neg (a) }"
    with pytest.raises(onnxc.ModelError, match="depends on itself") as caught:
        onnxc.sort_nodes(model_from_text(text))
    assert {finding.code for finding in caught.value.diagnostics} == {"cycle", "not-topologically-sorted"}
