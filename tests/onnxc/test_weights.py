"""Weights as inputs with a default, and swapped in what is compiled."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import onnxc
from tests.support.models import model_from_text

TARGETS = pytest.mark.parametrize("target", ["interpreter", "cpu"])
X = np.array([[1, 2], [3, 4]], np.float32)
B = np.array([5, 6], np.float32)

LAYER = """<ir_version: 10, opset_import: ["": 21]> layer (float[N, 2] x) => (float[N, 2] y)
<float[2, 2] w = {1, 2, 3, 4}, float[2] b = {0, 0}, int64[2] shape = {-1, 2}>
{ f = Reshape(x, shape) h = MatMul(f, w) y = Add(h, b) }"""


def layer() -> ModelProto:
    return model_from_text(LAYER)


W = np.array([[1, 2], [3, 4]], np.float32)


# Inputs with a default


@TARGETS
def test_initializers_are_inputs_behind_those_of_the_model(target: str) -> None:
    exe = onnxc.compile(layer(), target, freeze_params=False)
    assert [str(info) for info in exe.inputs] == ["x: f32[N, 2]", "w: f32[2, 2] (optional)", "b: f32[2] (optional)"]
    np.testing.assert_array_equal(exe(X), X @ W)
    np.testing.assert_array_equal(exe.run({"x": X, "b": B})["y"], X @ W + B)
    np.testing.assert_array_equal(exe(X, np.eye(2, dtype=np.float32)), X)


def test_frozen_initializers_are_no_inputs() -> None:
    exe = onnxc.compile(layer())
    assert [info.name for info in exe.inputs] == ["x"]
    with pytest.raises(onnxc.InputError, match="there is no input 'w'"):
        exe.run({"x": X, "w": W})


@pytest.mark.parametrize(
    ("declared", "nodes", "inputs"),
    [
        ("int64[1] i = {0}", "g = Gather(x, i) y = Squeeze(g, i)", []),
        ("bool[1] c = {1}", "y = Where(c, x, x)", []),
        ("float[2] s = {1, 2}", 'y = Resize <mode = "nearest"> (x, , s)', []),
        ("int8[2] q = {1, 2}, float one = {0.5}", "d = DequantizeLinear(q, one) y = Add(x, d)", ["q", "one"]),
        ("int32[2] q = {1, 2}, float one = {0.5}", "d = DequantizeLinear(q, one) y = Add(x, d)", ["q", "one"]),
        ("int32[2] q = {1, 2}", "d = Cast <to = 1> (q) y = Add(x, d)", []),
        ("double[1] v = {3}", "d = Cast <to = 1> (v) y = Add(x, d)", ["v"]),
        ("float[1] unused = {3}", "y = Relu(x)", ["unused"]),
    ],
)
def test_what_decides_shapes_stays_a_constant(declared: str, nodes: str, inputs: list[str]) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[N, 2] x) => (y) <{declared}> {{ {nodes} }}"""
    frozen, exe = (onnxc.compile(model_from_text(text), freeze_params=freeze) for freeze in (True, False))
    assert [info.name for info in exe.inputs] == ["x", *inputs]
    np.testing.assert_array_equal(exe(X), frozen(X))


def test_what_the_model_declares_as_an_input_is_one_whatever_its_type() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[N, 2] x, int64[1] i) => (y) <int64[1] i = {1}> { y = Gather(x, i) }"""
    exe = onnxc.compile(model_from_text(text), freeze_params=False)
    assert [str(info) for info in exe.inputs] == ["x: f32[N, 2]", "i: i64[1] (optional)"]
    np.testing.assert_array_equal(exe(X), X[[1]])
    np.testing.assert_array_equal(exe(X, np.array([0])), X[[0]])


@TARGETS
def test_weights_may_be_used_in_branches_and_be_outputs(target: str) -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (bool c) => (float[2] y, float[2] w)
    <float[2] w = {1, 2}> {
        y = If (c) <then_branch = t () => (a) { a = Add(w, w) }, else_branch = e () => (b) { b = Neg(w) }> }"""
    exe = onnxc.compile(model_from_text(text), target, freeze_params=False)
    y, w = exe.run({"c": np.array(True), "w": B}).values()
    np.testing.assert_array_equal(y, 2 * B)
    np.testing.assert_array_equal(w, B)
    np.testing.assert_array_equal(exe(np.array(False))[0], [-1, -2])


# Swapping


def test_swapped_weights_are_used_and_change_no_other_executable() -> None:
    exe = onnxc.compile(layer(), freeze_params=False)
    with_bias = exe.with_weights({"b": B})
    with_both = with_bias.with_weights({"w": 2 * W})
    np.testing.assert_array_equal(exe(X), X @ W)
    np.testing.assert_array_equal(with_bias(X), X @ W + B)
    np.testing.assert_array_equal(with_both(X), 2 * X @ W + B)
    assert (exe.stats.compilations, with_both.stats.compilations) == (1, 0)


def test_what_is_given_may_change_afterwards() -> None:
    b = B.copy()
    exe = onnxc.compile(layer(), freeze_params=False).with_weights({"b": b})
    b[:] = 0
    np.testing.assert_array_equal(exe(X), X @ W + B)


@pytest.mark.parametrize("weights", ["mapped", "resident"])
def test_swapped_weights_are_saved_and_swapped_again_after_loading(weights: str, tmp_path: Path) -> None:
    exe = onnxc.compile(layer(), freeze_params=False)
    exe.save(tmp_path / "before.onnxc")
    exe.with_weights({"b": B}).save(tmp_path / "after.onnxc")
    onnxc.verify(tmp_path / "after.onnxc")
    loaded = onnxc.load(tmp_path / "after.onnxc", weights=weights)  # type: ignore[arg-type]
    np.testing.assert_array_equal(loaded(X), X @ W + B)
    np.testing.assert_array_equal(loaded.with_weights({"b": 2 * B})(X), X @ W + 2 * B)
    np.testing.assert_array_equal(onnxc.load(tmp_path / "before.onnxc")(X), X @ W)


def test_a_swapped_executable_is_pickled_with_its_weights(tmp_path: Path) -> None:
    exe = onnxc.compile(layer(), freeze_params=False)
    exe.save(tmp_path / "before.onnxc")
    for before in (exe, onnxc.load(tmp_path / "before.onnxc")):
        swapped = before.with_weights({"b": B})
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(swapped))(X), X @ W + B)


def test_equal_weights_are_swapped_apart() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y)
    <float[2] a = {1, 1}, float[2] b = {1, 1}>
    { h = Mul(x, a) c = Constant <value_floats = [1.0, 1.0]> () k = Add(h, c) y = Add(k, b) }"""
    exe = onnxc.compile(model_from_text(text), freeze_params=False).with_weights({"b": B})
    np.testing.assert_array_equal(exe(B), B * 1 + 1 + B)


@pytest.mark.parametrize(
    ("values", "code", "message"),
    [
        ({"v": B}, "unknown-weight", "there is no weight 'v' to swap; there are w, b"),
        ({"x": B}, "unknown-weight", "there is no weight 'x'"),
        ({"shape": B}, "unknown-weight", "there is no weight 'shape'"),
        ({3: B}, "unknown-weight", "there is no weight '3'"),
        ({"b": B.astype(np.float64)}, "input-dtype", 'weight "b" is'),
        ({"b": B[:1]}, "weight-shape", "expected f32[2]"),
        ({"b": B[None]}, "weight-shape", "expected f32[2]"),
        ({"b": np.float32(3)}, "weight-shape", "expected f32[2]"),
        ({"b": None}, "input-type", 'weight "b"'),
        ([B], "weights-mapping", "takes a mapping"),
        (None, "weights-mapping", "takes a mapping"),
    ],
)
def test_weights_that_do_not_fit(values: object, code: str, message: str) -> None:
    exe = onnxc.compile(layer(), freeze_params=False)
    with pytest.raises(onnxc.InputError) as caught:
        exe.with_weights(values)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert message in str(caught.value)


def test_a_model_whose_weights_are_compiled_in_says_how_to_swap_them() -> None:
    with pytest.raises(onnxc.InputError, match="compile with freeze_params=False") as caught:
        onnxc.compile(layer()).with_weights({"b": B})
    assert caught.value.code == "unknown-weight"
    with pytest.raises(onnxc.UnsupportedError, match="a call may pass them as inputs") as refused:
        onnxc.compile(layer(), "interpreter", freeze_params=False).with_weights({"b": B})
    assert refused.value.code == "no-artifact"


@pytest.mark.parametrize("is_input", [False, True])
def test_booleans_are_weights_where_they_are_inputs_as_the_error_says(is_input: bool) -> None:
    declared = ", bool[2] c" if is_input else ""
    text = f"m (float[2] x{declared}) => (float[2] y) <bool[2] c = {{1, 0}}> {{ n = Neg (x) y = Where (c, x, n) }}"
    model = model_from_text(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    exe = onnxc.compile(model, freeze_params=False)
    x, other = np.array([1, 2], np.float32), {"c": np.array([False, True])}
    if is_input:
        assert exe.with_weights(other)(x).tolist() == [-1, 2]
    else:
        with pytest.raises(onnxc.InputError, match=r"booleans, .* are weights where the model declares them as inputs"):
            exe.with_weights(other)


def test_texts_are_not_swapped() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (string[1] s) => (string[1] t) <string[1] s = {"a"}> { t = Identity(s) }"""
    exe = onnxc.compile(model_from_text(text), freeze_params=False)
    with pytest.raises(onnxc.UnsupportedError, match="holds texts") as caught:
        exe.with_weights({"s": np.array(["b"])})
    assert caught.value.code == "unsupported-option"


@TARGETS
def test_calls_by_name_take_the_required_inputs_or_more(target: str) -> None:
    exe = onnxc.compile(layer(), target, freeze_params=False)
    for _ in range(2):
        np.testing.assert_array_equal(exe.run({"x": X})["y"], X @ W)
        np.testing.assert_array_equal(exe.run({"x": X, "w": 2 * W, "b": B})["y"], 2 * X @ W + B)
        np.testing.assert_array_equal(exe.run({"b": B, "x": X})["y"], X @ W + B)
        for wrong, code in (({"b": B}, "missing-input"), ({"q": X}, "unknown-input"), ({}, "missing-input")):
            with pytest.raises(onnxc.InputError) as caught:
                exe.run(wrong)
            assert caught.value.code == code
