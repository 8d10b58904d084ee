"""Functions of a model: calls expanded in place, the same results, and names that never clash."""

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import pytest
from onnx import helper, inliner, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.frontend.graph import AttributeValue, CheckedModel, Graph, GraphNode, Tensor, ValueInfo
from onnxc.compiler.ir.types import OptionalType, SequenceType, TensorType, Type
from tests.frontend.function_texts import MODELS, X, feeds_of, own
from tests.frontend.model_texts import checked

# A CheckedModel as a model again, so that another evaluator can run it.


def _type_proto(type: Type) -> onnx.TypeProto:
    match type:
        case TensorType(dtype):
            return helper.make_tensor_type_proto(code_of(dtype), None)
        case SequenceType(element):
            return helper.make_sequence_type_proto(_type_proto(element))
        case OptionalType(element):
            return helper.make_optional_type_proto(_type_proto(element))
    raise AssertionError(type)


def _attribute(value: AttributeValue) -> object:
    if isinstance(value, tuple):
        return [_attribute(part) for part in value]
    if isinstance(value, Tensor):
        return numpy_helper.from_array(value.array(), value.name)
    if isinstance(value, Graph):
        return _graph_proto(value)
    return value if isinstance(value, int | float | str) else _type_proto(value)


def _node_proto(node: GraphNode) -> onnx.NodeProto:
    proto = helper.make_node(node.operator, node.inputs, node.outputs, domain=node.domain)
    for name, value in node.attributes.items():
        if value != ():
            proto.attribute.append(helper.make_attribute(name, _attribute(value)))
    return proto


def _info(info: ValueInfo) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=info.name, type=None if info.type is None else _type_proto(info.type))


def _graph_proto(graph: Graph) -> onnx.GraphProto:
    return helper.make_graph(
        [_node_proto(node) for node in graph.nodes],
        graph.name or "g",
        [_info(info) for info in graph.inputs],
        [_info(info) for info in graph.outputs],
        [numpy_helper.from_array(tensor.array(), name) for name, tensor in graph.initializers.items()],
    )


def run_checked(result: CheckedModel, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    imports = [helper.make_opsetid(domain, version) for domain, version in result.opsets.items()]
    proto = helper.make_model(_graph_proto(result.graph), opset_imports=imports, ir_version=10)
    return list(ReferenceEvaluator(proto).run(None, dict(feeds)))


def all_graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.nodes:
        for inner in node.subgraphs():
            yield from all_graphs(inner)


def assert_names_are_sound(graph: Graph, around: frozenset[str] = frozenset()) -> None:
    """Each name is defined once along each path, before it is used."""
    here: set[str] = set()

    def define(name: str) -> None:
        assert name not in here | around, name
        here.add(name)

    for name in dict.fromkeys([*(info.name for info in graph.inputs), *graph.initializers]):
        define(name)
    for node in graph.nodes:
        assert {name for name in node.inputs if name} <= here | around, node
        for inner in node.subgraphs():
            assert_names_are_sound(inner, around | here)
        for name in node.outputs:
            if name:
                define(name)
    assert {info.name for info in graph.outputs} <= here
    assert set(graph.value_infos) <= here


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_an_expanded_model_computes_what_the_calls_do(text: str) -> None:
    official = own(text)
    feeds = feeds_of(official)
    result = checked(official)
    assert_names_are_sound(result.graph)
    # The official evaluator stumbles over several of these; the official inliner does as the standard says.
    inlined = inliner.inline_local_functions(official)
    for flag in (False, True):
        if "c" in feeds:
            feeds["c"] = np.array(flag)
        expected = ReferenceEvaluator(inlined).run(None, feeds)
        for mine, theirs in zip(run_checked(result, feeds), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs, strict=True)


def test_an_output_that_is_an_input_is_copied() -> None:
    text = """g (float[1,3] x) => (float[1,3] y, float[1,3] z) { y, z = own.f(x) }
        OWN f (a) => (a, b) { b = Neg(a) }"""
    result = checked(own(text))
    assert_names_are_sound(result.graph)
    same, negated = run_checked(result, X)
    np.testing.assert_array_equal(same, X["x"], strict=True)
    np.testing.assert_array_equal(negated, -X["x"], strict=True)


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_no_call_is_left(text: str) -> None:
    for graph in all_graphs(checked(own(text)).graph):
        assert all(node.domain == "" for node in graph.nodes)


def test_a_default_is_used_where_the_call_gives_nothing() -> None:
    text = """g (float[N] x) => (float[N] y, float[N] z) { y = own.f(x) z = own.f<alpha: float = 0.25>(x) }
        OWN f <alpha: float = 0.5> (a) => (b) { b = LeakyRelu<alpha: float = @alpha>(a) }"""
    nodes = checked(own(text)).graph.nodes
    assert [node.attributes["alpha"] for node in nodes] == [0.5, 0.25]


def test_an_absent_parameter_leaves_the_inner_default_in_force() -> None:
    text = """g (float[N] x) => (float[N] y) { y = own.f(x) }
        OWN f <outer> (a) => (b) { b = own.h<inner: float = @outer>(a) }
        OWN h <inner: float = 0.125> (a) => (b) { b = LeakyRelu<alpha: float = @inner>(a) }"""
    (node,) = checked(own(text)).graph.nodes
    assert node.attributes["alpha"] == 0.125


def test_the_version_of_an_operator_is_that_of_the_opset_of_the_function() -> None:
    text = """g (float[2,3] x) => (float[2,3] y) { t = Softmax(x) y = own.f(t) }
        <domain: "own", opset_import: ["": 11]> f (a) => (b) { b = Softmax(a) }"""
    outer, inner = checked(own(text)).graph.nodes
    assert (outer.since, outer.opset, outer.attributes) == (13, 21, {"axis": -1})
    assert (inner.since, inner.opset, inner.attributes) == (11, 11, {"axis": 1})


def test_inputs_that_a_call_leaves_out_are_left_out_in_the_body() -> None:
    text = """g (float[N] x, float h) => (float[N] y, float[N] z) { y = own.f(x) z = own.f(x, h, h) }
        OWN f (a, low, high) => (b) { b = Clip(a, low, high) }"""
    first, second = checked(own(text)).graph.nodes
    assert (first.inputs, second.inputs) == (("x",), ("x", "h", "h"))


def test_an_input_left_out_in_the_middle_is_left_out_in_the_body() -> None:
    text = """g (float[N] x, float h) => (float[N] y) { y = own.f(x, h, h) }
        OWN f (a, low, high) => (b) { b = Clip(a, low, high) }"""
    (node,) = checked(own(text, lambda m: m.graph.node[0].input.__setitem__(1, ""))).graph.nodes
    assert node.inputs == ("x", "", "h")


def test_overloads_are_told_apart() -> None:
    text = """g (float[N] x) => (float[N] y, float[N] z) { y = own.f(x) z = own.f(x) }
        OWN f (a) => (b) { b = Neg(a) }
        OWN f (a) => (b) { b = Abs(a) }"""

    def edit(m: onnx.ModelProto) -> None:
        m.functions[1].overload = "absolute"
        m.graph.node[1].overload = "absolute"

    assert [node.operator for node in checked(own(text, edit)).graph.nodes] == ["Neg", "Abs"]


def test_a_graph_handed_to_a_function_keeps_the_scope_of_its_caller() -> None:
    """The body calls the branch twice; what the branch captures is the caller's, not the function's."""
    text = """g (float[N] x, bool c) => (float[N] y) { a = Neg(x) y = own.f(x, c) }
        OWN f <branch> (a, c) => (b) { p = Relu(a) q = Relu(a) b = Add(p, q) }"""

    def edit(m: onnx.ModelProto) -> None:
        out = [onnx.ValueInfoProto(name="r")]
        branch = helper.make_graph([helper.make_node("Mul", ["a", "x"], ["r"])], "branch", [], out)
        m.graph.node[1].attribute.append(helper.make_attribute("branch", branch))
        for node, name in zip(m.functions[0].node[:2], "pq", strict=True):
            node.CopyFrom(helper.make_node("If", ["c"], [name]))
            for attribute in ("then_branch", "else_branch"):
                node.attribute.add(name=attribute, ref_attr_name="branch", type=onnx.AttributeProto.GRAPH)

    result = checked(own(text, edit))
    assert_names_are_sound(result.graph)
    inner = [graph for graph in all_graphs(result.graph) if graph is not result.graph]
    assert [graph.nodes[0].inputs for graph in inner] == [("a", "x")] * 4
    assert len({graph.nodes[0].outputs for graph in inner}) == 4


def test_places_in_expanded_functions_name_the_calls() -> None:
    text = """g (float[N] x) => (float[N] y) { t = Neg(x) y = own.f(t) }
        OWN f (a) => (b) { t = Relu(a) b = own.h(t) }
        OWN h (a) => (b) { b = Neg(a) }"""
    paths = [str(node.location) for node in checked(own(text)).graph.nodes]
    assert paths == [
        'graph "main", node 0 (ai.onnx.Neg-13)',
        'graph "main/f_1", node 0 (ai.onnx.Relu-14)',
        'graph "main/f_1/h_1", node 0 (ai.onnx.Neg-13)',
    ]


def test_sizes_that_a_function_declares_are_its_own() -> None:
    text = """g (float[N] x) => (float[N] y) { y = own.f(x) }
        OWN f (a) => (b) { n = Constant<value: tensor = int64 {3}>() c = Constant<value: tensor = bool {1}>()
            b = Loop (n, c, a) <body = l (int64 i, bool k, float[N] s) => (bool k2, float[N] t)
                { k2 = Identity(k) t = Neg(s) }> }"""
    body = next(iter(checked(own(text)).graph.nodes[-1].subgraphs()))
    (shape,) = [info.type.shape for info in body.inputs if isinstance(info.type, TensorType) and info.type.shape]
    assert str(shape[0]) != "N"


def test_many_calls_are_expanded_in_proportion() -> None:
    calls = " ".join(f"v{i + 1} = own.f(v{i})" for i in range(2000))
    text = "g (float[N] v0) => (float[N] v2000) { CALLS } OWN f (a) => (b) { t = Relu(a) b = Neg(t) }"
    result = checked(own(text.replace("CALLS", calls)))
    assert len(result.graph.nodes) == 4000
    assert_names_are_sound(result.graph)
