"""Operators that the standard defines as functions, expanded by their names: the same values, in the model's opset."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import ModelProto, checker, inliner
from onnx.reference import ReferenceEvaluator

import onnxc
from tests.support.arrays import assert_same
from tests.support.conversions import model_of, run
from tests.support.models import model_from_text

X = np.float32([[[-3, -1, -0.5, -0.25], [0, 0.25, 1, 90], [1000, 2, -1000, 3]]])
IMAGE = np.arange(48, dtype=np.float32).reshape(1, 4, 6, 2)
BOUND = np.float32(0.5)

# opset, node, inputs
ROWS: Sequence[tuple[int, str, list[np.ndarray]]] = (
    (18, "Clip (a, b, c)", [X, -BOUND, BOUND]),
    (13, "Clip (a, , b)", [np.int32([1, 5]), np.int32(3)]),
    (11, "Clip (a)", [X]),
    (28, 'DepthToSpace <blocksize = 2, mode = "CRD"> (a)', [IMAGE]),
    (11, "DepthToSpace <blocksize = 2> (a)", [IMAGE]),
    (13, "SpaceToDepth <blocksize = 2> (a)", [IMAGE]),
    (28, 'SpaceToDepth <blocksize = 2, mode = "CRD"> (a)', [IMAGE]),
    (18, "Elu <alpha = 0.7> (a)", [X]),
    (9, "Elu (a)", [X.astype(np.float16)]),
    (22, "HardSigmoid <alpha = 0.3> (a)", [X]),
    (16, "LeakyRelu <alpha = 0.3> (a)", [X]),
    (16, "PRelu (a, b)", [X, X[0, :1]]),
    (14, "Relu (a)", [np.int32([-1, 2])]),
    (8, "Relu (a)", [X]),
    (22, "Selu (a)", [X]),
    (9, "Shrink <lambd = 0.5, bias = 0.25> (a)", [X]),
    (18, "Softplus (a)", [X]),
    (18, "Softsign (a)", [X]),
    (1, "Softsign (a)", [X]),
    (13, "Softmax <axis = 1> (a)", [X]),
    (18, "Softmax (a)", [X]),
    (13, "LogSoftmax (a)", [X]),
    *((opset, f"{name} (a)", [X]) for opset in (7, 10, 12) for name in ("Softmax", "LogSoftmax")),
    *((opset, "Softmax <axis = 0> (a)", [X]) for opset in (6, 12)),
    *((opset, f"{name} <axis = 1> (a)", [X]) for opset in (1, 6) for name in ("Softmax", "LogSoftmax")),
    (9, "LogSoftmax <axis = 2> (a)", [X]),
    (11, "Softmax <axis = -2> (a)", [X]),
    (12, "LogSoftmax <axis = -1> (a)", [X.astype(np.float16)]),
    (18, "ReduceL1 (a, b)", [X, np.int64([1, -1])]),
    (13, "ReduceL2 <axes = [1]> (a)", [X]),
    (18, "ReduceL2 (a)", [np.int32([3, 4])]),
    (18, "ReduceLogSum <noop_with_empty_axes = 1> (a)", [np.abs(X)]),
    (18, "ReduceLogSumExp <keepdims = 0> (a)", [X]),
    (11, "ReduceLogSumExp <axes = [-1], keepdims = 0> (a)", [X]),
    (28, "ReduceLogSumExp (a)", [np.float32([-np.inf, -np.inf])]),
    (18, "ReduceSumSquare (a)", [X]),
    (12, "GreaterOrEqual (a, b)", [X, X[:, :1]]),
    (25, 'CastLike <round_mode = "up"> (a, b)', [X, np.int8([1])]),
    (15, "CastLike (a, b)", [X, np.float16([1])]),
    (24, "Swish (a)", [X]),
    (28, "Celu <alpha = 2.0> (a)", [X]),
    (28, "LayerNormalization (a, b)", [X, X[0, 1]]),
    (21, "GroupNormalization <num_groups = 1> (a, b, b)", [X, X[0, 0, :3]]),
    (18, "Mish (a)", [X]),
)


def expanded(model: ModelProto, *names: str) -> ModelProto:
    result = ModelProto.FromString(onnxc.inline(model, names).SerializeToString())
    checker.check_model(result, full_check=True)
    return result


def operators(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def name_of(node: str) -> str:
    return node.split(maxsplit=1)[0]


@pytest.mark.parametrize("known", [None, ()], ids=["sizes", "symbols"])
@pytest.mark.parametrize(("opset", "node", "inputs"), ROWS, ids=[f"{row[0]} {row[1]}" for row in ROWS])
def test_a_body_computes_what_the_operator_does(
    opset: int, node: str, inputs: list[np.ndarray], known: tuple[int, ...] | None
) -> None:
    if known is not None and "Space" in node and opset < 14:
        pytest.skip("a size of 0 has no word there")
    model = model_of(opset, node, inputs, known=known)
    result = expanded(model, name_of(node))
    assert name_of(node) not in operators(result)
    assert result.opset_import[0].version == opset
    with np.errstate(all="ignore"):
        (computed,), (expected,) = run(result, inputs), run(model, inputs)
    tolerance = 2e-3 if expected.dtype == np.float16 else 2e-6
    np.testing.assert_allclose(computed, expected, rtol=tolerance, atol=tolerance, strict=True)


@pytest.mark.parametrize(
    ("opset", "node", "inputs"),
    [(18, "Softsign (a)", [X]), (14, "HardSwish (a)", [X]), (18, "Softmax (a)", [X]), (20, "Gelu (a)", [X[:, :1]])],
    ids=["Softsign", "HardSwish", "Softmax", "Gelu"],
)
def test_it_computes_what_the_inliner_of_onnx_makes(opset: int, node: str, inputs: list[np.ndarray]) -> None:
    model = model_of(opset, node, inputs)
    official = inliner.inline_selected_functions(model, [("", name_of(node))], inline_schema_functions=True)
    with np.errstate(all="ignore"):
        ours, theirs = (
            ReferenceEvaluator(each).run(None, {"a": X[:, : inputs[0].shape[1]]})
            for each in (
                expanded(model, name_of(node)),
                official,
            )
        )
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6, atol=2e-6, strict=True)


def test_operators_within_bodies_are_expanded_where_they_are_named() -> None:
    model = model_of(18, "Mish (a)", [X])
    assert "Softplus" in operators(expanded(model, "Mish"))
    assert "Softplus" in operators(expanded(model, "ai.onnx.Mish"))
    assert {"Softplus", "Mish"}.isdisjoint(operators(expanded(model, "Mish", "Softplus")))


TEXT = """<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
g (float[3] x, bool c) => (float[3] z) {
    y = own.f (x)
    z = If (c) <
        then_branch = t () => (float[3] p) { p = Softsign (y) },
        else_branch = e () => (float[3] q) { q = Identity (y) }
    >
}
<domain: "own", opset_import: ["" : 18]> f (a) => (b) { b = Softsign (a) }"""


@pytest.mark.parametrize(("names", "functions"), [(("Softsign",), 1), (("f", "Softsign"), 0)])
def test_they_are_expanded_in_graphs_and_in_functions_that_stay(names: tuple[str, ...], functions: int) -> None:
    model = model_from_text(TEXT)
    result = (
        expanded(model, *names)
        if not functions
        else ModelProto.FromString(onnxc.inline(model, names).SerializeToString())
    )
    assert len(result.functions) == functions
    assert 'op_type: "Softsign"' not in str(result)
    x = np.float32([-1, 0, 3])
    for flag in (True, False):
        feeds: Mapping[str, np.ndarray] = {"x": x, "c": np.array(flag)}
        here, before = (onnxc.compile(each, target="interpreter").run(feeds)["z"] for each in (result, model))
        assert_same(here, before)


def test_a_function_of_the_model_hides_the_operator_of_its_name() -> None:
    text = TEXT.replace("f (x)", "Softsign (x)").replace("> f (a)", "> Softsign (a)")
    model = model_from_text(text)
    assert operators(ModelProto.FromString(onnxc.inline(model, ["Softsign"]).SerializeToString()))[0] == "Softsign"
    both = onnxc.inline(model, ["own.Softsign", "ai.onnx.Softsign"])
    assert "Softsign" not in operators(ModelProto.FromString(both.SerializeToString()))


def test_what_a_node_says_of_itself_goes_on_to_its_nodes() -> None:
    model = model_of(18, "Softsign (a)", [X])
    model.graph.node[0].name, model.graph.node[0].doc_string = "soft", "softly"
    model.graph.node[0].metadata_props.add(key="k", value="v")
    nodes = expanded(model, "Softsign").graph.node
    assert {node.doc_string for node in nodes} == {"softly"}
    assert all(node.metadata_props[0].value == "v" for node in nodes)
    assert nodes[-1].name == "soft"
    assert len({node.name for node in nodes}) == len(nodes)


def test_an_operator_that_is_no_function_is_an_input_error() -> None:
    for name in ("Conv", "ai.onnx.Conv", "ai.onnx.preview.FlexAttention", "com.microsoft.Gelu"):
        with pytest.raises(onnxc.InputError, match=f"operator {name} is no function") as caught:
            onnxc.inline(model_of(18, "Softsign (a)", [X]), [name])
        assert caught.value.code == "operator-without-body"


def test_a_node_whose_body_is_not_known_is_told() -> None:
    with pytest.raises(onnxc.UnsupportedError, match=r"Clip is not expanded here: .*no body") as caught:
        onnxc.inline(model_of(6, "Clip (a)", [X]), ["Clip"])
    assert caught.value.code == "unknown-body"
    assert "node 0" in str(caught.value)
    text = """<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
    g (float[3] x) => (float[3] y) { y = own.f <alpha = 2.0> (x) }
    <domain: "own", opset_import: ["" : 18]> f <alpha> (a) => (b) { b = Elu <alpha: float = @alpha> (a) }"""
    with pytest.raises(onnxc.UnsupportedError, match="alpha is a parameter of the function"):
        onnxc.inline(model_from_text(text), ["Elu"])
    assert "Elu" not in operators(expanded(model_from_text(text), "f", "Elu"))


def test_all_operators_that_the_standard_defines_as_functions_have_a_body() -> None:
    model = model_of(18, "Softsign (a)", [X])
    names = {
        known.name
        for known in onnx.defs.get_all_schemas_with_history()
        if not known.domain and (known.has_function or known.has_context_dependent_function)
    }
    assert len(names) > 40
    assert operators(ModelProto.FromString(onnxc.inline(model, sorted(names)).SerializeToString()))[-1] == "Div"
