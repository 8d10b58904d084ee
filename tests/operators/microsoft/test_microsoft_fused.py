"""Activations, products and convolutions of com.microsoft against ONNX Runtime, or NumPy where it has no CPU kernel."""

import math

import numpy as np
import pytest

from onnxc.runtime.errors import ModelError, UnsupportedError
from tests.operators.microsoft.agreement import (
    assert_agrees,
    assert_all_close,
    integers,
    make_model,
    normal,
    run_ours,
)

ODD = np.float32([0, -0.0, 1, -1, 10, -10, 100, -100, 1e-30, 3.4e38])


@pytest.mark.parametrize("operator", ["Gelu", "FastGelu", "QuickGelu"])
@pytest.mark.parametrize("x", [ODD, normal(2, 3, 4), normal(0, 4)], ids=["odd", "3", "none"])
def test_activations(operator: str, x: np.ndarray) -> None:
    x = np.asarray(x)
    assert_agrees(operator, {"X": x}, shapes={"X": [f"n{axis}" for axis in range(x.ndim)]})


@pytest.mark.parametrize("alpha", [1.0, -2.0, 0.0])
def test_quick_gelu_has_a_factor(alpha: float) -> None:
    assert_agrees("QuickGelu", {"X": normal(3, 5)}, alpha=alpha)


@pytest.mark.parametrize("operator", ["BiasGelu", "FastGelu"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 4), (4,), (0, 4)], ids=str)
def test_biases_of_the_last_axis(operator: str, shape: tuple[int, ...]) -> None:
    inputs = {"A": normal(*shape), "B": normal(4, seed=1)}
    assert_agrees(operator, inputs, shapes={"A": [f"n{axis}" for axis in range(len(shape) - 1)] + [4]})


@pytest.mark.parametrize("operator", ["BiasGelu", "FastGelu"])
def test_a_bias_of_another_length_is_refused(operator: str) -> None:
    inputs = {"A": normal(2, 3), "B": normal(4)}
    with pytest.raises(ModelError, match="bias-shape"):
        run_ours(make_model(operator, inputs), inputs)


def softmax(x: np.ndarray, axis: tuple[int, ...]) -> np.ndarray:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


@pytest.mark.parametrize(
    ("bias", "axis", "inner", "seen"),
    [
        ((2, 1, 1, 5), 3, 1, (2, 1, 1, 5)),
        ((2, 5), 3, 1, (2, 1, 1, 5)),
        ((4, 5), 3, 0, (1, 1, 4, 5)),
        ((1, 1, 4, 5), 3, 0, (1, 1, 4, 5)),
        ((4, 5), 2, 0, (1, 1, 4, 5)),
    ],
    ids=str,
)
def test_bias_softmax(bias: tuple[int, ...], axis: int, inner: int, seen: tuple[int, ...]) -> None:
    inputs = {"data": normal(2, 3, 4, 5), "bias": normal(*bias, seed=1)}
    model = make_model("BiasSoftmax", inputs, axis=axis, is_inner_broadcast=inner)
    expected = softmax(inputs["data"] + inputs["bias"].reshape(seen), tuple(range(axis, 4)))
    assert_all_close(run_ours(model, inputs), [expected])


def test_bias_add_and_bias_split_gelu() -> None:
    x, bias, skip = normal(2, 3, 4), normal(4, seed=1), normal(2, 3, 4, seed=2)
    inputs = {"x": x, "bias": bias, "skip": skip}
    assert_all_close(run_ours(make_model("BiasAdd", inputs), inputs), [x + bias + skip])
    inputs = {"x": x, "bias": bias}
    left, right = np.split(x + bias, 2, axis=2)
    erf = np.vectorize(math.erf)(right / np.sqrt(2))
    assert_all_close(
        run_ours(make_model("BiasSplitGelu", inputs), inputs), [(left * right / 2 * (1 + erf)).astype(np.float32)]
    )


# Products


@pytest.mark.parametrize("a_is_transposed", [0, 1])
@pytest.mark.parametrize("b_is_transposed", [0, 1])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("operator", ["FusedMatMul", "TransposeMatMul"])
def test_fused_matmul(operator: str, batch: tuple[int, ...], a_is_transposed: int, b_is_transposed: int) -> None:
    a = normal(*batch, *((5, 4) if a_is_transposed else (4, 5)))
    b = normal(*batch, *((6, 5) if b_is_transposed else (5, 6)), seed=1)
    shapes = {"a": [f"a{axis}" for axis in range(a.ndim)], "b": [f"b{axis}" for axis in range(b.ndim)]}
    attributes = {"transA": a_is_transposed, "transB": b_is_transposed, "alpha": 0.125}
    assert_agrees(operator, {"a": a, "b": b}, shapes=shapes, **attributes)


@pytest.mark.parametrize(("a", "b"), [((4, 2, 5), (2, 5, 6)), ((4, 2, 3, 5), (2, 3, 5, 6))], ids=str)
def test_fused_matmul_with_a_batch_behind_the_rows(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert_agrees("FusedMatMul", {"a": normal(*a), "b": normal(*b, seed=1)}, transBatchA=1, alpha=2.0)


def test_fused_matmul_with_both_batches_moved() -> None:
    inputs = {"a": normal(5, 2, 4), "b": normal(6, 2, 5, seed=1)}
    assert_agrees("FusedMatMul", inputs, transBatchA=1, transBatchB=1, transA=1, transB=1)


@pytest.mark.parametrize(("a", "b"), [((5,), (5, 6)), ((4, 5), (5,)), ((5,), (5,)), ((2, 1, 4, 5), (3, 5, 6))], ids=str)
def test_fused_matmul_of_vectors_and_broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert_agrees("FusedMatMul", {"a": normal(*a), "b": normal(*b, seed=1)}, alpha=0.5)


ACTIVATIONS = {
    "Relu": {},
    "Sigmoid": {},
    "Tanh": {},
    "LeakyRelu": {"activation_alpha": 0.25},
    "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
    "Elu": {"activation_alpha": 0.7},
    "Selu": {"activation_alpha": 1.7, "activation_gamma": 1.1},
    "Softplus": {},
    "Softsign": {},
    "ThresholdedRelu": {"activation_alpha": 0.5},
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_fused_gemm(name: str) -> None:
    inputs = {"a": normal(3, 4), "b": normal(5, 4, seed=1), "c": normal(5, seed=2)}
    shapes = {"a": ["n", "k"], "b": ["m", "k"]}
    options = {"transB": 1, "alpha": 0.5, "beta": 2.0, "activation": name, **ACTIVATIONS[name]}
    assert_agrees("FusedGemm", inputs, shapes=shapes, **options)


def test_gemm_fast_gelu_and_fused_matmul_activation() -> None:
    x, w, bias = normal(3, 4), normal(4, 5, seed=1), normal(5, seed=2)
    inputs = {"x": x, "w": w, "bias": bias}
    total = x.astype(np.float64) @ w + bias
    expected = total / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)))
    assert_all_close(run_ours(make_model("GemmFastGelu", inputs), inputs), [expected.astype(np.float32)])
    inputs = {"x": x, "w": w}
    model = make_model("FusedMatMulActivation", inputs, alpha=2.0, activation="Relu")
    assert_all_close(run_ours(model, inputs), [np.maximum(2 * (x @ w), 0)])


# Convolutions

PARAMETERS = {"LeakyRelu": [0.25], "HardSigmoid": [0.3, 0.4], "Clip": [-0.5, 0.5]}


@pytest.mark.parametrize("name", [None, "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip"])
@pytest.mark.parametrize("has_sum", [False, True])
def test_fused_conv(name: str | None, has_sum: bool) -> None:
    inputs = {"x": normal(2, 4, 7, 5), "w": normal(6, 2, 3, 3, seed=1), "b": normal(6, seed=2)}
    if has_sum:
        inputs["z"] = normal(2, 6, 4, 3, seed=3)
    options: dict[str, object] = {"group": 2, "pads": [1, 1, 1, 1], "strides": [2, 2]}
    if name:
        options["activation"] = name
        options |= {"activation_params": PARAMETERS[name]} if name in PARAMETERS else {}
    assert_agrees("FusedConv", inputs, shapes={"x": ["n", 4, "h", "w"]}, **options)


def test_an_activation_that_nobody_knows_is_refused() -> None:
    inputs = {"x": normal(1, 1, 4, 4), "w": normal(1, 1, 3, 3)}
    with pytest.raises(UnsupportedError, match="Rotate"):
        run_ours(make_model("FusedConv", inputs, activation="Rotate"), inputs)


def test_convolutions_with_channels_last_are_those_with_channels_first() -> None:
    x, w, b = normal(2, 4, 7, 5), normal(6, 2, 3, 3, seed=1), normal(6, seed=2)
    options = {"group": 2, "pads": [1, 1, 1, 1]}
    plain = {"x": x, "w": w, "b": b}
    (expected,) = run_ours(make_model("Conv", plain, domain="", **options), plain)
    last = {"x": x.transpose(0, 2, 3, 1).copy(), "w": w.transpose(0, 2, 3, 1).copy(), "b": b}
    (y,) = run_ours(make_model("NhwcConv", last, **options), last)
    assert_all_close([y], [expected.transpose(0, 2, 3, 1)])
    z = normal(2, 7, 5, 6, seed=4)
    fused = {"x": last["x"], "w": w, "b": b, "z": z}
    (y,) = run_ours(make_model("NhwcFusedConv", fused, activation="Relu", **options), fused)
    assert_all_close([y], [np.maximum(expected.transpose(0, 2, 3, 1) + z, 0)])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_nhwc_max_pool(dtype: type) -> None:
    inputs = {"x": integers(0, 120, 2, 7, 5, 3, dtype=dtype)}
    options = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    assert_agrees("NhwcMaxPool", inputs, shapes={"x": ["n", "h", "w", 3]}, **options)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 1, 1]], ids=str)
def test_conv_transpose_with_dynamic_pads(pads: list[int]) -> None:
    inputs = {"x": normal(1, 3, 4, 5), "w": normal(3, 2, 3, 3, seed=1), "pads": np.int64(pads), "b": normal(2, seed=2)}
    assert_agrees("ConvTransposeWithDynamicPads", inputs, constants=["pads"], strides=[2, 2])


def test_an_addend_of_another_shape_is_refused() -> None:
    inputs = {"x": normal(1, 1, 4, 4), "w": normal(1, 1, 3, 3), "b": None, "z": normal(1, 1, 3, 3)}
    with pytest.raises(ModelError, match="fused-sum"):
        run_ours(make_model("FusedConv", inputs), inputs)
