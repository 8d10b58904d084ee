"""Functions expanded in the model itself: the same values, a legal model, and all that it carried."""

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, checker, helper
from onnx.reference import ReferenceEvaluator

import onnxc
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto as OurModelProto
from tests.frontend.function_texts import MODELS, X, feeds_of, own
from tests.frontend.model_texts import Edit, errors
from tests.support.models import run_ort
from tests.support.probes import disagreements

TRAINED = """g (float[1,3] x) => (float[1,3] y) { y = own.f(x) }
    OWN f (a) => (b) { t = Relu(a) b = Neg(t) }"""


def inlined(official: ModelProto, functions: Sequence[str] | None = None) -> ModelProto:
    """The model after `onnxc.inline`, which is legal for ONNX and for us."""
    result = ModelProto.FromString(onnxc.inline(official, functions).SerializeToString())
    checker.check_model(result, full_check=not result.functions)
    assert not errors(result)
    return result


def all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from all_graphs(inner)


def operators(nodes: Sequence[NodeProto]) -> list[str]:
    return [node.op_type for node in nodes]


def ours(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[object]:
    return [*onnxc.compile(model, target="interpreter").run(feeds).values()]


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_values_are_those_of_the_calls(text: str) -> None:
    official = own(text)
    result = inlined(official)
    assert not result.functions
    assert all(not node.domain for graph in all_graphs(result.graph) for node in graph.node)
    feeds = feeds_of(official)
    for flag in (False, True):
        feeds |= {"c": np.array(flag)} if "c" in feeds else {}
        for here, before, reference, runtime in zip(
            ours(result, feeds),
            ours(official, feeds),
            ReferenceEvaluator(result).run(None, feeds),
            run_ort(result, feeds).values(),
            strict=True,
        ):
            np.testing.assert_array_equal(here, before, strict=True)
            np.testing.assert_array_equal(here, reference, strict=True)
            np.testing.assert_array_equal(here, runtime, strict=True)


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_names_are_defined_once(text: str) -> None:
    result = inlined(own(text))
    graphs = [*all_graphs(result.graph)]
    values = [name for graph in graphs for node in graph.node for name in node.output if name]
    values += [info.name for graph in graphs for info in graph.input]
    assert len(values) == len({*values})
    nodes = [node.name for graph in graphs for node in graph.node if node.name]
    assert len(nodes) == len({*nodes})


def test_a_model_without_functions_stays_as_it_is() -> None:
    official = own("g (float[1,3] x) => (float[1,3] y) { y = Relu(x) }")
    assert ModelProto.FromString(onnxc.inline(official).SerializeToString()) == official


def test_inlining_twice_changes_nothing() -> None:
    once = inlined(own(MODELS["calls in both branches and around"]))
    assert inlined(once) == once


def test_a_function_that_nothing_calls_goes() -> None:
    result = inlined(own("g (float[1,3] x) => (float[1,3] y) { y = Relu(x) } OWN f (a) => (b) { b = Neg(a) }"))
    assert not result.functions
    assert versions_of(result) == {"": 21}
    assert operators(result.graph.node) == ["Relu"]


def test_an_output_that_is_an_input_is_copied() -> None:
    official = own("""g (float[1,3] x) => (float[1,3] y, float[1,3] z) { y, z = own.f(x) }
        OWN f (a) => (a, b) { b = Neg(a) }""")
    result = inlined(official)
    assert operators(result.graph.node) == ["Neg", "Identity"]
    same, negated = ours(result, X)
    np.testing.assert_array_equal(same, X["x"], strict=True)
    np.testing.assert_array_equal(negated, -X["x"], strict=True)


def test_a_copy_brings_the_operator_set_that_has_it() -> None:
    def edit(m: ModelProto) -> None:
        del m.opset_import[:], m.functions[0].opset_import[:]
        m.opset_import.add(domain="own", version=1)

    result = inlined(own("g (float[1,3] x) => (float[1,3] y) { y = own.f(x) } OWN f (a) => (a) { }", edit))
    assert [imported.domain for imported in result.opset_import] == [""]
    np.testing.assert_array_equal(ours(result, X)[0], X["x"], strict=True)


def test_a_call_that_leaves_out_what_the_function_returns_is_an_error() -> None:
    text = """g (float[1,3] x) => (float[1,3] y, float[1,3] z) { y, z = own.f(x) }
        OWN f (a, s) => (b, s) { b = Neg(a) }"""
    with pytest.raises(onnxc.ModelError, match=r"missing-input"):
        onnxc.inline(own(text))


def test_inputs_left_out_are_left_out_in_the_body() -> None:
    text = """g (float[1,3] x, float h) => (float[1,3] y, float[1,3] z) { y = own.f(x) z = own.f(x, h, h) }
        OWN f (a, low, high) => (b) { b = Clip(a, low, high) }"""
    assert [list(node.input) for node in inlined(own(text)).graph.node] == [["x"], ["x", "h", "h"]]
    middle = own(text, lambda m: m.graph.node[1].input.__setitem__(1, ""))
    assert [list(node.input) for node in inlined(middle).graph.node] == [["x"], ["x", "", "h"]]


def test_defaults_and_absent_parameters() -> None:
    text = """g (float[1,3] x) => (float[1,3] y, float[1,3] z, float[1,3] w) {
          y = own.f(x) z = own.f<alpha: float = 0.25>(x) w = own.k(x) }
        OWN f <alpha: float = 0.5> (a) => (b) { b = LeakyRelu<alpha: float = @alpha>(a) }
        OWN k <outer> (a) => (b) { b = own.f<alpha: float = @outer>(a) }"""
    nodes = inlined(own(text)).graph.node
    assert [node.attribute[0].f for node in nodes] == [0.5, 0.25, 0.5]
    assert not any(attribute.ref_attr_name for node in nodes for attribute in node.attribute)


def test_a_graph_handed_over_is_expanded_with_names_of_the_caller() -> None:
    text = """g (float[1,3] x, bool c) => (float[1,3] y) { a = Neg(x) y = own.f(x, c) }
        OWN f <branch> (a, c) => (b) { p = Relu(a) q = Relu(a) b = Add(p, q) }
        OWN k (a, b) => (c) { c = Mul(a, b) }"""

    def edit(m: ModelProto) -> None:
        out = [helper.make_tensor_value_info("r", TensorProto.FLOAT, ["rows", 3])]
        branch = helper.make_graph([helper.make_node("k", ["a", "x"], ["r"], domain="own")], "branch", [], out)
        branch.quantization_annotation.add(tensor_name="r").quant_parameter_tensor_names.add(
            key="SCALE_TENSOR", value="x"
        )
        m.graph.node[1].attribute.append(helper.make_attribute("branch", branch))
        for node, name in zip(m.functions[0].node[:2], "pq", strict=True):
            node.CopyFrom(helper.make_node("If", ["c"], [name]))
            for attribute in ("then_branch", "else_branch"):
                node.attribute.add(name=attribute, ref_attr_name="branch", type=onnx.AttributeProto.GRAPH)

    result = inlined(own(text, edit))
    inner = [graph for graph in all_graphs(result.graph) if graph.name == "branch"]
    assert [list(graph.node[0].input) for graph in inner] == [["a", "x"]] * 4
    results = [graph.output[0].name for graph in inner]
    assert len({*results}) == 4
    assert [graph.quantization_annotation[0].tensor_name for graph in inner] == results
    assert [graph.output[0].type.tensor_type.shape.dim[0].dim_param for graph in inner] == ["rows"] * 4
    np.testing.assert_array_equal(ours(result, X | {"c": np.array(True)})[0], -2 * X["x"] * X["x"], strict=True)


def test_names_of_values_in_a_gradient_are_those_of_the_expansion() -> None:
    text = """g (float[1,3] x) => (float[1,3] y) { y = own.f(x) }
        <domain: "own", opset_import: ["": 21, "ai.onnx.preview.training": 1]> f (a) => (d) {
          b = Mul(a, a) d = ai.onnx.preview.training.Gradient<xs = ["a"], y = "b">(a) }"""
    official = own(text, lambda m: m.opset_import.add(domain="ai.onnx.preview.training", version=1))
    result = ModelProto.FromString(onnxc.inline(official).SerializeToString())
    mul, gradient = result.graph.node
    assert {attribute.name: attribute.s.decode() for attribute in gradient.attribute if attribute.s} == {
        "y": mul.output[0]
    }
    assert [list(attribute.strings) for attribute in gradient.attribute if attribute.strings] == [[b"x"]]
    np.testing.assert_array_equal(ours(result, X)[0], 2 * X["x"], strict=True)


# What the file carries


def test_what_a_call_says_goes_on_to_its_nodes_behind_what_they_say() -> None:
    text = """g (float[1,3] x) => (float[1,3] y) { y = own.f(x) }
        OWN f (a) => (b) { t = Relu(a) b = own.h(t) }
        OWN h (a) => (b) { b = Neg(a) }"""

    def edit(m: ModelProto) -> None:
        for message, name in (
            (m.graph.node[0], "call"),
            (m.functions[0], "function"),
            (m.functions[0].node[0], "node"),
            (m.functions[1].node[0], "inner node"),
        ):
            message.metadata_props.add(key="from", value=name)
            message.metadata_props.add(key=name, value="here")
        m.graph.node[0].doc_string, m.functions[0].doc_string = "the call", "the function"
        m.functions[1].doc_string, m.functions[0].node[0].doc_string = "the inner function", "the node"

    relu, neg = inlined(own(text, edit)).graph.node
    metadata = [{entry.key: entry.value for entry in node.metadata_props} for node in (relu, neg)]
    assert metadata == [
        {"from": "node", "node": "here", "call": "here", "function": "here"},
        {"from": "inner node", "inner node": "here", "call": "here", "function": "here"},
    ]
    assert [relu.doc_string, neg.doc_string] == ["the node", "the inner function"]


def test_documentation_that_is_not_utf_8_goes_on_as_far_as_it_can_be_read() -> None:
    model = OurModelProto.FromString(own(TRAINED).SerializeToString())
    model.graph.node[0].MergeFromString(b"\x32\x02a\xff")
    assert [node.doc_string for node in onnxc.inline(model).graph.node] == ["a\ufffd"] * 2


def test_devices_of_a_call_are_those_of_its_nodes() -> None:
    def edit(m: ModelProto) -> None:
        m.ir_version = 11
        m.configuration.add(name="pair", num_devices=2)
        call = m.graph.node[0].device_configurations.add(configuration_id="pair", pipeline_stage=1)
        call.sharding_spec.add(tensor_name="x", device=[0, 1]).sharded_dim.add(axis=0).simple_sharding.add(num_shards=2)
        call.sharding_spec.add(tensor_name="y", device=[0, 1])
        own_placed = m.functions[0].node[0].device_configurations.add(configuration_id="pair", pipeline_stage=3)
        own_placed.sharding_spec.add(tensor_name="t", device=[1]).sharded_dim.add(axis=1).simple_sharding.add(
            num_shards=1, dim_param="W"
        )
        m.functions[0].value_info.append(helper.make_tensor_value_info("t", TensorProto.FLOAT, [1, "W"]))

    result = inlined(own(TRAINED, edit))
    assert [configuration.name for configuration in result.configuration] == ["pair"]
    (relu,), (neg,) = (node.device_configurations for node in result.graph.node)
    assert (relu.pipeline_stage, neg.pipeline_stage) == (3, 1)
    assert [spec.tensor_name for spec in relu.sharding_spec] == [result.graph.node[0].output[0]]
    assert relu.sharding_spec[0].sharded_dim[0].simple_sharding[0].dim_param == "f_0_W"
    assert [spec.tensor_name for spec in neg.sharding_spec] == ["y"]


def test_declared_types_of_a_function_are_those_of_its_expansion() -> None:
    text = """g (float[1,3] x, float[2,5] z) => (float[1,3] y, float[2,5] w) { y = own.f(x) w = own.f(z) }
        OWN f (a) => (b) { t = Relu(a) u = Neg(t) b = Concat<axis = 1>(u) }"""

    def edit(m: ModelProto) -> None:
        for name, shape in (("a", ["N", "M"]), ("t", ["N", "M"]), ("u", ["N", "2*M"]), ("b", ["N", None])):
            info = m.functions[0].value_info.add()
            info.CopyFrom(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
            info.doc_string, info.type.denotation = f"about {name}", "IMAGE"
            info.metadata_props.add(key="k", value=name)

    result = ModelProto.FromString(onnxc.inline(own(text, edit)).SerializeToString())
    infos = [
        (info.name, info.doc_string, [dim.dim_param for dim in info.type.tensor_type.shape.dim])
        for info in result.graph.value_info
    ]
    assert infos == [
        ("f_0/t", "about t", ["f_0_N", "f_0_M"]),
        ("f_0/u", "about u", ["f_0_N", "2*f_0_M"]),
        ("f_1/t", "about t", ["f_1_N", "f_1_M"]),
        ("f_1/u", "about u", ["f_1_N", "2*f_1_M"]),
    ]
    assert {info.type.denotation for info in result.graph.value_info} == {"IMAGE"}
    assert [info.metadata_props[0].value for info in result.graph.value_info] == ["t", "u", "t", "u"]
    plain = onnxc.infer(onnxc.inline(own(text)))
    assert [dim.dim_value for dim in plain.graph.value_info[0].type.tensor_type.shape.dim] == [1, 3]


def test_sizes_of_graphs_in_a_body_are_those_of_one_call() -> None:
    text = """g (float[N] x, float[M] z) => (float[N] y, float[M] w) { y = own.f(x) w = own.f(z) }
        OWN f (a) => (b) { n = Constant<value: tensor = int64 {3}>() c = Constant<value: tensor = bool {1}>()
            b = Loop (n, c, a) <body = l (int64 i, bool k, float[N] s) => (bool k2, float[N] t)
                { k2 = Identity(k) t = Neg(s) }> }"""
    result = inlined(own(text))
    bodies = [graph for graph in all_graphs(result.graph) if graph.name == "l"]
    sizes = [graph.input[2].type.tensor_type.shape.dim[0].dim_param for graph in bodies]
    assert sizes == ["f_0_N", "f_1_N"]
    assert not disagreements(result, {"x": np.ones(2, np.float32), "z": np.ones(5, np.float32)})


def test_training_graphs_are_expanded_too_and_bindings_stay() -> None:
    def edit(m: ModelProto) -> None:
        m.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [1, 3], [1, 2, 3]))
        info = m.training_info.add()
        out = [helper.make_tensor_value_info("n", TensorProto.FLOAT, [1, 3])]
        info.algorithm.CopyFrom(helper.make_graph([helper.make_node("f", ["w"], ["n"], domain="own")], "step", [], out))
        info.update_binding.add(key="w", value="n")

    result = inlined(own(TRAINED, edit))
    (info,) = result.training_info
    assert operators(info.algorithm.node) == ["Relu", "Neg"]
    assert info.algorithm.node[0].input == ["w"]
    assert info.algorithm.node[1].output == ["n"]
    assert {*info.algorithm.node[0].output}.isdisjoint(name for node in result.graph.node for name in node.output)
    assert [(binding.key, binding.value) for binding in info.update_binding] == [("w", "n")]


def test_training_counts_in_the_limits() -> None:
    def edit(m: ModelProto) -> None:
        out = [helper.make_tensor_value_info("n", TensorProto.FLOAT, [1, 3])]
        call = helper.make_node("f", ["y"], ["n"], domain="own")
        m.training_info.add().algorithm.CopyFrom(helper.make_graph([call], "step", [], out))

    onnxc.inline(own(TRAINED, edit), limits={"expanded_nodes": 2})
    with pytest.raises(onnxc.ModelError, match="expansion-too-large"):
        onnxc.inline(own(TRAINED, edit), limits={"expanded_nodes": 1})


def test_what_grows_beyond_a_message_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """g (float[1,3] x) => (float[1,3] y) { CALLS }
        OWN f (a) => (b) { k = Constant<value: tensor = @w>() b = Add(a, k) }"""
    calls = "v0 = Identity(x) " + " ".join(f"v{i + 1} = own.f(v{i})" for i in range(8)) + " y = Identity(v8)"

    def edit(m: ModelProto) -> None:
        m.functions[0].attribute_proto.append(
            helper.make_attribute("w", helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0]))
        )

    official = own(text.replace("CALLS", calls), edit)
    monkeypatch.setattr("onnxc.compiler.frontend.inlining.inline._MESSAGE_BYTES", official.ByteSize())
    with pytest.raises(onnxc.ModelError, match="model-too-large"):
        onnxc.inline(official)


@pytest.mark.parametrize(("calls", "is_read"), [(31, True), (32, False)])
def test_graphs_nested_deeper_than_protobuf_reads_are_an_error(calls: int, is_read: bool) -> None:
    bodies = "".join(
        f"""OWN f{place} (a, c) => (b) {{ b = If (c) <then_branch = t () => (p) {{ p = own.f{place + 1}(a, c) }},
            else_branch = e () => (q) {{ q = Neg(a) }}> }}\n"""
        for place in range(calls)
    )
    official = own(
        "g (float[1,3] x, bool c) => (float[1,3] y) { y = own.f0(x, c) }\n"
        + bodies
        + f"OWN f{calls} (a, c) => (b) {{ b = Exp(a) }}"
    )
    if is_read:
        result = ModelProto.FromString(onnxc.inline(official, limits={"nesting_depth": 100}).SerializeToString())
        assert sum(1 for _ in all_graphs(result.graph)) == 2 * calls + 1
        return
    with pytest.raises(onnxc.ModelError, match="nesting-too-deep"):
        onnxc.inline(official, limits={"nesting_depth": 100})


# Operator sets


def versions_of(model: ModelProto) -> dict[str, int]:
    return {imported.domain: imported.version for imported in model.opset_import}


def two_sets(body: str, outer: str, function: int, edit: Edit | None = None) -> ModelProto:
    """A model of opset 21 with a function that is written in another."""
    text = f"""g (float[1,3] x) => (float[1,3] y) {{ {outer} }}
        <domain: "own", opset_import: ["": {function}]> f (a) => (b) {{ {body} }}"""
    return own(text, edit)


@pytest.mark.parametrize(
    ("body", "function", "merged"),
    [
        ("b = Neg(a)", 13, 21),
        ("b = Relu(a)", 6, 21),
        ("t = Cast<to = 1>(a) b = Identity(t)", 14, 21),
        ("b = Neg(a)", 23, 21),
        ("b = Swish(a)", 24, 24),
        ("b = Softmax<axis = 1>(a)", 11, 21),
        ("t = ReduceSum<axes = [1]>(a) b = Add(a, t)", 11, 21),
    ],
)
def test_versions_are_merged_where_the_operators_are_the_same(body: str, function: int, merged: int) -> None:
    official = two_sets(body, "t = Exp(x) y = own.f(t)", function)
    result = inlined(official)
    assert versions_of(result) == {"": merged}
    np.testing.assert_array_equal(ours(result, X)[0], ours(official, X)[0], strict=True)


def test_versions_that_cannot_be_merged_are_told_with_the_operators() -> None:
    # A step of training is none in a newer opset without random numbers of its own.
    model = two_sets("b = Dropout(a)", "t = Softmax(x) y = own.f(t)", 6)
    with pytest.raises(onnxc.UnsupportedError, match=r"opset-conflict(.|\n)*Dropout-6 is another in 21"):
        onnxc.inline(model)


def test_an_operator_set_that_only_a_function_uses_is_imported() -> None:
    text = """g (float[1,3] x) => (float[1,3] y) { y = own.f(x) }
        <domain: "own", opset_import: ["": 21, "ai.onnx.ml": 3]> f (a) => (b) { b = ai.onnx.ml.Scaler(a) }"""
    assert versions_of(inlined(own(text))) == {"": 21, "ai.onnx.ml": 3}


# Some of the functions

SOME = """g (float[1,3] x) => (float[1,3] y) { t = own.f<p: float = 0.5>(x) y = own.h(t) }
    OWN f <p> (a) => (b) { t = own.h(a) b = own.k<alpha: float = @p>(t) }
    OWN h (a) => (b) { t = Abs(a) b = Sqrt(t) }
    OWN k <alpha> (a) => (b) { b = LeakyRelu<alpha: float = @alpha>(a) }"""


@pytest.mark.parametrize(
    ("names", "left", "main"),
    [
        (["h"], ["f", "k"], ["f", "Abs", "Sqrt"]),
        (["own.f"], ["h", "k"], ["h", "k", "h"]),
        (["k"], ["f", "h"], ["f", "h"]),
        (["own.h", "own.k"], ["f"], ["f", "Abs", "Sqrt"]),
        (["f", "h", "k"], [], ["Abs", "Sqrt", "LeakyRelu", "Abs", "Sqrt"]),
        ([], ["f", "h", "k"], ["f", "h"]),
    ],
)
def test_some_functions_may_be_expanded(names: list[str], left: list[str], main: list[str]) -> None:
    official = own(SOME)
    result = inlined(official, names)
    assert [function.name for function in result.functions] == left
    assert operators(result.graph.node) == main
    np.testing.assert_array_equal(ours(result, X)[0], ours(official, X)[0], strict=True)
    kept = [node.op_type for function in result.functions for node in function.node]
    assert {*kept, *main}.isdisjoint(name.removeprefix("own.") for name in names)


def test_a_parameter_of_a_function_that_stays_is_referred_to() -> None:
    (function, _) = inlined(own(SOME), ["k"]).functions
    (attribute,) = function.node[1].attribute
    assert (attribute.name, attribute.ref_attr_name, attribute.type) == ("alpha", "p", onnx.AttributeProto.FLOAT)


def test_a_default_that_would_be_lost_is_refused() -> None:
    text = """g (float[1,3] x) => (float[1,3] y) { y = own.f(x) }
        OWN f <p> (a) => (b) { b = own.k<alpha: float = @p>(a) }
        OWN k <alpha: float = 0.5> (a) => (b) { b = LeakyRelu<alpha: float = @alpha>(a) }"""
    assert inlined(own(text)).graph.node[0].attribute[0].f == 0.5
    with pytest.raises(onnxc.UnsupportedError, match="function-default"):
        onnxc.inline(own(text), ["k"])


def test_overloads_are_named_after_a_colon() -> None:
    text = """g (float[1,3] x) => (float[1,3] y, float[1,3] z) { y = own.f(x) z = own.f(x) }
        OWN f (a) => (b) { b = Neg(a) }
        OWN f (a) => (b) { b = Abs(a) }"""

    def edit(m: ModelProto) -> None:
        m.functions[1].overload = m.graph.node[1].overload = "absolute"

    assert operators(inlined(own(text, edit), ["own.f:absolute"]).graph.node) == ["f", "Abs"]
    assert operators(inlined(own(text, edit), ["own.f"]).graph.node) == ["Neg", "Abs"]


def test_a_function_that_is_not_there_is_an_input_error() -> None:
    with pytest.raises(onnxc.InputError, match=r"no function 'own.q'; the model has own.f") as caught:
        onnxc.inline(own(TRAINED), ["own.q"])
    assert caught.value.code == "unknown-function"


def test_a_wrong_model_is_a_model_error() -> None:
    with pytest.raises(onnxc.ModelError, match="recursive-function"):
        onnxc.inline(own(TRAINED.replace("Relu(a)", "own.f(a)")))
