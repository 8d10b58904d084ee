"""Operators that nobody here knows: looking at a model goes on behind them, compiling it lists them all."""

import numpy as np
import pytest
from onnx import ModelProto, helper

import onnxc
from tests.support.arrays import assert_same
from tests.support.models import model_from_text

MODEL = """<ir_version: 8, opset_import: ["": 18, "my.ops": 3, "com.microsoft": 1]>
m (float[N, 4] x) => (float[N, 4] y, float z) {
  a = Relu (x)
  b = my.ops.FusedGelu <alpha = 2.0> (a)
  c = Neg (b)
  d = com.microsoft.NoSuchOperator (c)
  y = Add (a, d)
  z = ReduceSum <keepdims = 0> (y)
}"""
IN_A_BRANCH = """<ir_version: 8, opset_import: ["": 18, "my.ops": 3]>
m (float[N] x, bool c) => (float[N] y) {
  y = If (c) <then_branch = t () => (float[N] p) { p = my.ops.Frob (x) },
              else_branch = e () => (float[N] q) { r = my.ops.Other (x)  q = Neg (r) }>
}"""
BEHIND_ANOTHER = """<ir_version: 8, opset_import: ["": 18, "my.ops": 3]>
m (float[N] x) => (float[N] y) {
  c = my.ops.Choose (x)
  y = If (c) <then_branch = t () => (float[N] p) { p = my.ops.Frob (x) }, else_branch = e () => (q) { q = Neg (x) }>
}"""


def declared(model: ModelProto) -> dict[str, str]:
    """What the model declares of its values, in short."""
    found = {}
    for info in (*model.graph.value_info, *model.graph.output):
        dims = [dim.dim_param or str(dim.dim_value) for dim in info.type.tensor_type.shape.dim]
        found[info.name] = f"{info.type.tensor_type.elem_type}[{', '.join(dims)}]"
    return found


def test_infer_goes_on_with_what_is_declared_and_says_so() -> None:
    model = model_from_text(MODEL)
    model.graph.value_info.append(helper.make_tensor_value_info("b", 10, ["K", 2]))
    with pytest.warns(onnxc.ModelWarning, match=r"my\.ops\.FusedGelu-3(.|\n)*NoSuchOperator-1") as told:
        types = declared(onnxc.infer(model))
    assert len(told) == 1
    assert types == {"a": "1[N, 4]", "b": "10[K, 2]", "c": "10[K, 2]", "y": "1[N, 4]", "z": "1[]"}


def test_infer_writes_nothing_of_what_is_not_known() -> None:
    with pytest.warns(onnxc.ModelWarning):
        assert declared(onnxc.infer(model_from_text(MODEL))) == {"a": "1[N, 4]", "y": "1[N, 4]", "z": "1[]"}


@pytest.mark.parametrize("text", [MODEL, IN_A_BRANCH, BEHIND_ANOTHER])
def test_check_finds_no_error(text: str) -> None:
    findings = onnxc.check(model_from_text(text))
    assert {finding.severity for finding in findings} == {"warning"}
    assert {finding.code for finding in findings} >= {"unknown-domain", "unsupported-node"}


@pytest.mark.parametrize("text", [MODEL, IN_A_BRANCH])
def test_inline_keeps_the_nodes(text: str) -> None:
    model = model_from_text(text)
    with pytest.warns(onnxc.ModelWarning, match="unknown"):
        assert ModelProto.FromString(onnxc.inline(model).SerializeToString()) == model


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    ("text", "names"),
    [
        (MODEL, ["my.ops.FusedGelu-3", "com.microsoft.NoSuchOperator-1"]),
        (IN_A_BRANCH, ["my.ops.Frob-3", "my.ops.Other-3"]),
        (BEHIND_ANOTHER, ["my.ops.Choose-3", "my.ops.Frob-3"]),
    ],
)
def test_compile_lists_all_of_them_with_advice(text: str, names: list[str], target: str) -> None:
    with pytest.raises(onnxc.UnsupportedError) as refused:
        onnxc.compile(model_from_text(text), target)
    assert refused.value.code == "unsupported-node"
    assert [name for name in names if f"({name}): no lowering" not in str(refused.value)] == []
    assert "give the model a function of its name" in str(refused.value)


def test_the_nearest_operator_of_the_standard_is_named() -> None:
    with pytest.raises(onnxc.UnsupportedError, match=r"FusedGelu-3\).*the nearest of the standard is Gelu"):
        onnxc.compile(model_from_text(MODEL))


@pytest.mark.parametrize(
    ("model", "code"),
    [
        (MODEL.replace('"my.ops": 3, ', ""), "unknown-domain"),
        (MODEL.replace("= Relu", "= Rleu"), "unknown-operator"),
    ],
)
def test_what_nobody_can_know_is_an_error(model: str, code: str) -> None:
    with pytest.raises(onnxc.ModelError) as refused:
        onnxc.infer(model_from_text(model))
    assert refused.value.code == code


# Smaller findings


@pytest.mark.parametrize(("inputs", "trips"), [("m, , s", 7), ("m, k, s", 3), (", , s", 3)])
def test_a_loop_without_condition_runs_all_trips(inputs: str, trips: int) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 18]> g (int64 m, bool k, float s) => (float y)
      <int64 two = {{2}}, float one = {{1}}> {{
      y = Loop ({inputs}) <body = b (int64 i, bool c, float t) => (bool d, float u) {{
        d = Less (i, two)  u = Add (t, one) }}> }}"""
    for target in ("cpu", "interpreter"):
        exe = onnxc.compile(model_from_text(text), target)
        result = exe.run({"m": np.array(7), "k": np.array(True), "s": np.array(0, np.float32)})
        assert float(np.asarray(result["y"])) == trips


@pytest.mark.parametrize(("opset", "codes"), [(10, ["negative-index"]), (11, [])])
def test_a_negative_index_of_the_first_one_hot_is_odd(opset: int, codes: list[str]) -> None:
    text = f"""<ir_version: 8, opset_import: ["": {opset}]> g () => (float[2, 3] y)
      <int64[2] i = {{-1, 1}}, int64 d = {{3}}, float[2] v = {{0, 1}}> {{ y = OneHot (i, d, v) }}"""
    assert [finding.code for finding in onnxc.check(model_from_text(text))] == codes


@pytest.mark.parametrize("shape", ["[2, 2]", "[N, M]"])
def test_a_condition_of_many_axes_chooses_from_all_elements(shape: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 11]> g (float{shape} x, bool{shape} c) => (float[K] y)
      {{ y = Compress (x, c) }}"""
    assert [finding.code for finding in onnxc.check(model_from_text(text))] == ["not-a-vector"]
    with pytest.warns(onnxc.ModelWarning, match="vector of its elements"):
        exe = onnxc.compile(model_from_text(text))
    x, chosen = np.array([[1, 2], [3, 4]], np.float32), np.array([[True, False], [False, True]])
    assert_same(exe(x, chosen), x[chosen])


def test_the_type_of_a_value_that_there_is_not_is_odd() -> None:
    text = """<ir_version: 10, opset_import: ["": 18, "own": 1]> g (float[N] x) => (float[N] y) { y = own.f (x) }
      <domain: "own", opset_import: ["": 18]> f (a) => (b) <float[N] gone> { b = Neg (a) }"""
    model = model_from_text(text)
    model.graph.value_info.append(helper.make_tensor_value_info("lost", 1, [3]))
    found = [(finding.severity, finding.code) for finding in onnxc.check(model)]
    assert found == [("warning", "value-info-without-value")] * 2


def test_a_regressor_of_many_outputs_that_is_declared_of_one_loads() -> None:
    node = helper.make_node(
        "LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[1.0] * 6, intercepts=[0.0, 1, 2], targets=3
    )
    x, y = (helper.make_tensor_value_info(name, 1, ["N", size]) for name, size in (("x", 2), ("y", 1)))
    opsets = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 17)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=8)
    with pytest.warns(onnxc.ModelWarning, match="declared-type"):
        exe = onnxc.compile(model)
    assert np.asarray(exe(np.ones((1, 2), np.float32))).tolist() == [[2.0, 3.0, 4.0]]
