"""Attention, MultiHeadAttention and QAttention of com.microsoft against ONNX Runtime."""

import numpy as np
import pytest

from onnxc.runtime.errors import ModelError, UnsupportedError
from tests.operators.microsoft.agreement import assert_agrees, integers, make_model, normal, run_ours
from tests.support.signed_weights import END, LEAST

B, S, N, D = 2, 4, 2, 3
H = N * D


def i32(value: object) -> np.ndarray:
    return np.array(value, np.int32)


def masks(keys: int) -> dict[str, np.ndarray]:
    """The forms of a mask over `keys` keys."""
    return {
        "ends": i32([keys, 2]),
        "ends and starts": i32([keys, 3, 1, 0]),
        "keys": i32([[1] * keys, [1, 0] + [1] * (keys - 2)]),
        "queries and keys": integers(0, 2, B, S, keys, dtype=np.int32, seed=9),
    }


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("form", [None, *masks(S)])
def test_attention(form: str | None, causal: int) -> None:
    inputs = {"x": normal(B, S, 5), "w": normal(5, 3 * H, seed=1), "bias": normal(3 * H, seed=2)}
    shapes = {"x": ["b", "s", 5]}
    if form:
        inputs["mask"] = masks(S)[form]
        shapes["mask"] = {1: None, 2: ["b", "s"], 3: ["b", "s", "s"]}[inputs["mask"].ndim] or list(inputs["mask"].shape)
    is_bounds = form in ("ends", "ends and starts")
    options = {"num_heads": N, "unidirectional": causal}
    assert_agrees("Attention", inputs, shapes=None if is_bounds else shapes, **options)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("form", [None, "keys", "queries and keys"])
def test_attention_with_a_past(form: str | None, causal: int) -> None:
    inputs = {
        "x": normal(B, S, 5),
        "w": normal(5, 3 * H, seed=1),
        "bias": normal(3 * H, seed=2),
        "mask": masks(3 + S)[form] if form else None,
        "past": normal(2, B, N, 3, D, seed=3),
    }
    shapes = {"x": ["b", "s", 5], "past": [2, "b", N, "p", D]}
    options = {"outputs": ["y", "present"], "num_heads": N, "unidirectional": causal}
    assert_agrees("Attention", inputs, shapes=None if form else shapes, **options)


def test_attention_with_bias_of_scores_and_other_widths() -> None:
    inputs = {
        "x": normal(B, S, 5),
        "w": normal(5, 2 * H + 8, seed=1),
        "bias": normal(2 * H + 8, seed=2),
        "mask": None,
        "past": None,
        "scores": normal(B, N, S, S, seed=3),
    }
    options = {"num_heads": N, "qkv_hidden_sizes": [H, H, 8], "scale": 0.3, "mask_filter_value": -5.0}
    assert_agrees("Attention", inputs, **options)


def test_attention_of_no_known_form_is_refused() -> None:
    inputs = {"x": normal(B, S, 5), "w": normal(5, 3 * H, seed=1)}
    with pytest.raises(UnsupportedError, match="RotaryEmbedding"):
        run_ours(make_model("Attention", inputs, num_heads=N, do_rotary=1), inputs)
    with pytest.raises(ModelError, match="attention-heads"):
        run_ours(make_model("Attention", inputs, num_heads=4), inputs)


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("has_past", [False, True])
def test_qattention(has_past: bool, per_column: bool) -> None:
    inputs = {
        "x": integers(0, 256, B, S, 5),
        "w": integers(LEAST, END, 5, 3 * H, dtype=np.int8, seed=1),
        "bias": normal(3 * H, seed=2),
        "x_scale": np.array(0.02, np.float32),
        "w_scale": np.full(3 * H, 0.01, np.float32) if per_column else np.array(0.01, np.float32),
        "mask": i32([S, 2]) if not has_past else None,
        "x_zero": np.array(120, np.uint8),
        "w_zero": np.zeros(3 * H, np.int8) if per_column else np.array(0, np.int8),
    }
    outputs = ["y"]
    if has_past:
        inputs["past"] = normal(2, B, N, 3, D, seed=3)
        outputs = ["y", "present"]
    constants = ["w", "w_scale", "w_zero"]
    assert_agrees("QAttention", inputs, constants=constants, outputs=outputs, num_heads=N, unidirectional=1)


# MultiHeadAttention

L = 5
SHAPES = {"q": ["b", "s", H], "k": ["b", "l", H], "v": ["b", "l", 8], "mask": ["b", "l"]}


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("form", [None, "ends", "keys", "queries and keys"])
def test_multi_head_attention(form: str | None, has_bias: bool) -> None:
    inputs = {
        "q": normal(B, S, H),
        "k": normal(B, L, H, seed=1),
        "v": normal(B, L, 8, seed=2),
        "bias": normal(2 * H + 8, seed=3) if has_bias else None,
        "mask": masks(L)[form] if form else None,
    }
    shapes = SHAPES if form in (None, "keys") else None
    assert_agrees("MultiHeadAttention", inputs, shapes=shapes, num_heads=N)


@pytest.mark.parametrize("bias", [(B, N, S, L), (1, N, S, L), (1, 1, S, L)], ids=str)
@pytest.mark.parametrize("scale", [0.0, 0.2])
def test_multi_head_attention_with_bias_of_scores(bias: tuple[int, ...], scale: float) -> None:
    inputs = {"q": normal(B, S, H), "k": normal(B, L, H, seed=1), "v": normal(B, L, 8, seed=2), "b": None, "m": None}
    assert_agrees(
        "MultiHeadAttention", inputs | {"scores": normal(*bias, seed=3)}, shapes=SHAPES, num_heads=N, scale=scale
    )


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("has_mask", [False, True])
def test_multi_head_attention_with_a_past(has_mask: bool, causal: int) -> None:
    inputs = {
        "q": normal(B, S, H),
        "k": normal(B, S, H, seed=1),
        "v": normal(B, S, H, seed=2),
        "bias": None,
        "mask": masks(3 + S)["keys"] if has_mask else None,
        "scores": None,
        "past_k": normal(B, N, 3, D, seed=4),
        "past_v": normal(B, N, 3, D, seed=5),
    }
    shapes = {"q": ["b", "s", H], "k": ["b", "s", H], "v": ["b", "s", H]}
    shapes |= {name: ["b", N, "p", D] for name in ("past_k", "past_v")}
    options = {"outputs": ["y", "k2", "v2"], "num_heads": N, "unidirectional": causal}
    assert_agrees("MultiHeadAttention", inputs, shapes=None if has_mask else shapes, **options)


def test_multi_head_attention_of_packed_operands() -> None:
    qkv = {"qkv": normal(B, S, N, 3, D), "k": None, "v": None}
    q, k, v = (qkv["qkv"][:, :, :, index].reshape(B, S, H).copy() for index in range(3))
    plain: dict[str, np.ndarray | None] = {"q": q, "k": k, "v": v}
    (expected,) = run_ours(make_model("MultiHeadAttention", plain, num_heads=N), plain)
    (y,) = run_ours(make_model("MultiHeadAttention", qkv, num_heads=N), qkv)
    np.testing.assert_array_equal(y, expected)
    kv = {"q": q, "kv": qkv["qkv"][:, :, :, 1:].copy(), "v": None}
    (y,) = run_ours(make_model("MultiHeadAttention", kv, num_heads=N), kv)
    np.testing.assert_array_equal(y, expected)


def test_multi_head_attention_of_keys_and_values_in_heads() -> None:
    inputs = {"q": normal(B, S, H), "k": normal(B, N, L, D, seed=1), "v": normal(B, N, L, D, seed=2)}
    assert_agrees("MultiHeadAttention", inputs, num_heads=N)


def test_multi_head_attention_of_one_past_alone_is_refused() -> None:
    inputs = {name: normal(B, S, H) for name in "qkv"} | {"b": None, "m": None, "s": None, "p": normal(B, N, 3, D)}
    with pytest.raises(ModelError, match="past-without-partner"):
        run_ours(make_model("MultiHeadAttention", inputs, num_heads=N), inputs)


def test_masks_and_biases_of_other_lengths_are_refused() -> None:
    inputs = {name: normal(B, S, H) for name in "qkv"}
    with pytest.raises(ModelError, match="bias-shape"):
        run_ours(make_model("MultiHeadAttention", inputs | {"b": normal(2 * H)}, num_heads=N), inputs)
    with pytest.raises(ModelError, match="attention-mask"):
        run_ours(make_model("MultiHeadAttention", inputs | {"b": None, "m": i32([1, 1, 1])}, num_heads=N), inputs)


def test_a_mask_of_a_size_of_its_own_name_is_one_end_for_each_batch() -> None:
    inputs = {name: normal(B, S, H) for name in "qkv"} | {"b": None, "m": i32([3, 2])}
    shapes = {name: ["b", "s", H] for name in "qkv"} | {"m": ["ends"]}
    assert_agrees("MultiHeadAttention", inputs, shapes=shapes, num_heads=N)
