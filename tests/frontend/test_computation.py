"""Which nodes a value is computed by, and from which others."""

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.computation import Computation
from onnxc.compiler.frontend.graph import Graph
from onnxc.compiler.frontend.read import read_model
from tests.support.models import model_from_text

HEADER = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>\n'
CHAIN = "g (float a, float b) => (float e) <float w = {2}> { c = Mul(a, w) d = Exp(b) e = Add(c, d) }"
BRANCH = """g (float a, bool p) => (float y) {
    c = Exp(a)
    y = If(p) <then_branch = t () => (float u) { u = Mul(c, c) },
               else_branch = e () => (float v) { k = Neg(a) v = Neg(k) }>
}"""
SLOPE = """g (float x, float w) => (float second) {
    p = Mul(x, x) s = Exp(w) y = Mul(p, s) first = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x)
    second = Neg(first) }"""


def graph(text: str) -> Graph:
    return check_model(read_model(model_from_text(HEADER + text))).graph


def computation(text: str) -> Computation:
    return Computation.of((graph(text),))


def made(found: Computation, result: str, given: set[str], known: set[str] | None = None) -> list[str]:
    """The first outputs of the nodes between."""
    return [node.outputs[0] for node in found.between(result, given, known).values()]


def test_a_value_is_computed_from_all_above_it() -> None:
    found = computation(CHAIN)
    assert set(found.above("e")) == {"e", "c", "d", "a", "b", "w"}
    assert set(found.above("c")) == {"c", "a", "w"}
    assert set(found.above("a")) == {"a"}


def test_a_cut_hides_what_is_above_it() -> None:
    assert set(computation(CHAIN).above("e", {"c"})) == {"e", "c", "d", "b"}


def test_graphs_define_inputs_initializers_and_results() -> None:
    found = computation(CHAIN)
    assert all(found.defines(name) for name in "abcdew")
    assert not found.defines("f")
    assert not found.defines("")


def test_only_nodes_that_depend_on_what_is_given_are_between() -> None:
    found = computation(CHAIN)
    assert made(found, "e", {"a"}) == ["c", "e"]
    assert made(found, "e", {"b"}) == ["d", "e"]
    assert made(found, "e", {"c", "d"}) == ["e"]
    assert made(found, "e", {"e"}) == []


def test_nodes_that_are_not_known_yet_are_between_too() -> None:
    found = computation(CHAIN)
    assert made(found, "e", {"a"}, {"a", "b", "c", "d", "e", "w"}) == ["c", "e"]
    assert made(found, "e", {"a"}, {"a", "b", "w"}) == ["c", "d", "e"]


def test_what_subgraphs_use_counts() -> None:
    found = computation(BRANCH)
    assert {"a", "c", "p"} <= set(found.above("y"))
    assert not {"u", "v", "k"} & set(found.above("y"))
    assert made(found, "y", {"c"}) == ["y"]
    assert made(found, "y", {"a"}) == ["c", "y"]


def test_a_nested_graph_sees_those_around_it() -> None:
    outer = graph(BRANCH)
    inner = next(iter(outer.nodes[1].subgraphs()))
    found = Computation.of((outer, inner))
    assert made(found, "u", {"a"}) == ["c", "u"]
    assert set(found.above("u")) == {"u", "c", "a"}


def test_a_gradient_uses_what_its_target_has_besides_its_inputs() -> None:
    found = computation(SLOPE)
    assert made(found, "second", {"w"}) == ["s", "first", "second"]
    assert made(found, "second", {"s"}) == ["first", "second"]
    assert made(found, "second", {"x"}) == ["first", "second"]
    assert made(found, "second", {"p"}) == []
