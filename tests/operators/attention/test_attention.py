"""Attention, RotaryEmbedding and LinearAttention against loops over queries and tokens."""

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import TensorProto

from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import lower_operator, run_operator
from tests.support.arrays import assert_close, assert_same

RANDOM = np.random.default_rng(0)
Shape = tuple[int, ...]


@pytest.fixture(autouse=True)
def _numbers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test draws the same numbers, whichever ran before it."""
    monkeypatch.setitem(globals(), "RANDOM", np.random.default_rng(0))


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray, scale: float | None = None, softcap: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Y, and the scores raw, capped, biased and normalised, in f64; a row with -inf alone gives zeros."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    raw = q @ np.swapaxes(k, 2, 3) * (1 / np.sqrt(q.shape[3]) if scale is None else scale)
    capped = softcap * np.tanh(raw / softcap) if softcap else raw
    biased = capped + bias
    with np.errstate(invalid="ignore"):
        powers = np.exp(biased - biased.max(-1, keepdims=True))
        normal = np.where(np.isneginf(biased).all(-1, keepdims=True), 0, powers / powers.sum(-1, keepdims=True))
    return normal @ v, raw, capped, biased, normal


def run(
    operands: Mapping[str, np.ndarray | None],
    opset: int = 25,
    outputs: int = 1,
    way: str = "static",
    **attributes: object,
) -> tuple[np.ndarray, ...]:
    names = ("q", "k", "v", "mask", "past_key", "past_value", "valid")
    given = {name: operands.get(name) for name in names}
    while given and given[list(given)[-1]] is None:
        given.popitem()
    return run_operator("Attention", given, opset=opset, outputs=outputs, way=way, **attributes)


def triangle(queries: int, keys: int, offset: int = 0) -> np.ndarray:
    return np.where(np.arange(keys) <= np.arange(queries)[:, None] + offset, 0, -np.inf)


@pytest.mark.parametrize("opset", [23, 24, 25])
@pytest.mark.parametrize(("heads", "groups"), [(2, 2), (4, 2), (3, 1)])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_heads_share_groups(opset: int, heads: int, groups: int, causal: int, way: str) -> None:
    q, k, v = floats(2, heads, 3, 4), floats(2, groups, 5, 4), floats(2, groups, 5, 6)
    expected, *_ = attend(q, k, v, triangle(3, 5) if causal else np.zeros((3, 5)))
    (actual,) = run({"q": q, "k": k, "v": v}, opset, way=way, is_causal=causal)
    assert_close(actual, expected.astype(np.float32), terms=8)


@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_packed_heads(way: str) -> None:
    q, k, v = floats(2, 3, 4 * 5), floats(2, 6, 2 * 5), floats(2, 6, 2 * 7)

    def unpacked(x: np.ndarray, heads: int) -> np.ndarray:
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    wide, *_ = attend(unpacked(q, 4), unpacked(k, 2), unpacked(v, 2), np.zeros((3, 6)), scale=0.3)
    attributes = {"q_num_heads": 4, "kv_num_heads": 2, "scale": 0.3}
    actual = run({"q": q, "k": k, "v": v}, outputs=3, way=way, **attributes)
    assert_close(actual[0], wide.transpose(0, 2, 1, 3).reshape(2, 3, -1).astype(np.float32), terms=8)
    assert_same(actual[1], unpacked(k, 2))
    assert_same(actual[2], unpacked(v, 2))


@pytest.mark.parametrize("shape", [(5,), (3, 5), (1, 5), (2, 3, 5), (2, 1, 3, 5), (2, 1, 1, 5), (3, 4), (3, 1)])
@pytest.mark.parametrize("is_bool", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
def test_masks_of_any_rank(shape: Shape, is_bool: bool, causal: int) -> None:
    q, k, v = floats(2, 2, 3, 4), floats(2, 2, 5, 4), floats(2, 2, 5, 4)
    mask = RANDOM.random(shape) < 0.7 if is_bool else floats(*shape)
    bias = np.where(mask, 0.0, -np.inf) if is_bool else mask.astype(np.float64)
    bias = np.concatenate([bias, np.full((*shape[:-1], 5 - shape[-1]), -np.inf)], -1)
    expected, *_ = attend(q, k, v, bias + (triangle(3, 5) if causal else 0))
    assert_close(*run({"q": q, "k": k, "v": v, "mask": mask}, is_causal=causal), expected.astype(np.float32), terms=8)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize(("queries", "causal"), [(1, 1), (2, 1), (2, 0)])
def test_the_past_comes_first(queries: int, causal: int, way: str) -> None:
    q, k, v = floats(2, 4, queries, 3), floats(2, 2, queries, 3), floats(2, 2, queries, 5)
    past_key, past_value = floats(2, 2, 4, 3), floats(2, 2, 4, 5)
    keys, values = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    expected, *_ = attend(q, keys, values, triangle(queries, 4 + queries, 4) if causal else np.zeros(4 + queries))
    operands = {"q": q, "k": k, "v": v, "past_key": past_key, "past_value": past_value}
    y, present_key, present_value = run(operands, outputs=3, way=way, is_causal=causal)
    assert_close(y, expected.astype(np.float32), terms=8)
    assert_same(present_key, keys)
    assert_same(present_value, values)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("outputs", [1, 4])
def test_a_scale_may_be_negative(outputs: int, way: str) -> None:
    q, k, v = floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 4)
    expected, *_ = attend(q, k, v, np.zeros((3, 5)), scale=-0.5)
    actual, *_ = run({"q": q, "k": k, "v": v}, outputs=outputs, way=way, scale=-0.5)
    assert_close(actual, expected.astype(np.float32), terms=8)


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("causal", [0, 1])
def test_padding_keys_are_not_seen_and_shift_the_frontier(causal: int, way: str) -> None:
    q, k, v, valid = floats(3, 2, 2, 4), floats(3, 2, 5, 4), floats(3, 2, 5, 4), np.int64([5, 2, 1])
    bias = np.stack(
        [
            np.where(np.arange(5) < n, 0, -np.inf) + (triangle(2, 5, n - 2) if causal else np.zeros((2, 5)))
            for n in valid
        ]
    )
    expected, *_ = attend(q, k, v, bias[:, None])
    (actual,) = run({"q": q, "k": k, "v": v, "valid": valid}, 24, way=way, is_causal=causal)
    assert_close(actual, expected.astype(np.float32), terms=8)
    if causal:
        np.testing.assert_array_equal(actual[2, :, 0], 0)


@pytest.mark.parametrize(("left", "right"), [(2, -1), (-1, 1), (0, 0), (1, 2)])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [0, 3])
def test_windows_bound_the_distance(left: int, right: int, causal: int, past: int) -> None:
    q, k, v = floats(1, 1, 4, 3), floats(1, 1, 4 + past, 3), floats(1, 1, 4 + past, 3)
    distance = np.arange(4 + past) - (np.arange(4)[:, None] + past)
    seen = np.ones(distance.shape, bool) if left < 0 else distance >= -left
    seen &= True if right < 0 else distance <= right
    seen &= distance <= 0 if causal else True
    expected, *_ = attend(q, k, v, np.where(seen, 0, -np.inf))
    operands = {"q": q, "k": k[:, :, past:], "v": v[:, :, past:]}
    operands |= {"past_key": k[:, :, :past], "past_value": v[:, :, :past]} if past else {}
    attributes = {"left_window_size": left, "right_window_size": right, "is_causal": causal}
    assert_close(run(operands, outputs=3 if past else 1, **attributes)[0], expected.astype(np.float32), terms=8)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_scores_are_shown_at_each_stage(mode: int, way: str) -> None:
    q, k, v, mask = (
        floats(1, 4, 2, 3),
        floats(1, 2, 3, 3),
        floats(1, 2, 3, 3),
        np.array([[True, False, True], [False] * 3]),
    )
    y, *stages = attend(q, k, v, np.where(mask, 0, -np.inf), softcap=0.8)
    operands = {"q": q, "k": k, "v": v, "mask": mask}
    actual = run(operands, outputs=4, way=way, qk_matmul_output_mode=mode, softcap=0.8)
    assert_close(actual[0], y.astype(np.float32), terms=8)
    assert_close(actual[3], stages[mode].astype(np.float32), terms=8)


@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_a_negative_softcap_bounds_the_scores_too(way: str) -> None:
    q, k, v = floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 6)
    expected, *_ = attend(q, k, v, np.zeros((3, 5)), softcap=-0.5)
    assert_close(run({"q": q, "k": k, "v": v}, way=way, softcap=-0.5)[0], expected.astype(np.float32), terms=8)


@pytest.mark.parametrize("precision", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_the_softmax_is_as_precise_as_told(precision: int) -> None:
    q, k, v = (floats(1, 1, 3, 4) for _ in range(3))
    expected, *_ = attend(q, k, v, np.zeros((3, 3)))
    (actual,) = run({"q": q, "k": k, "v": v}, softmax_precision=precision)
    # Below f32, the weights are rounded to the precision that is asked for.
    accumulator = np.float16 if precision == TensorProto.FLOAT16 else np.float32
    assert_close(actual, expected.astype(np.float32), terms=8, accumulator=accumulator)


def test_the_softmax_of_halves_may_be_in_single_precision() -> None:
    q, k, v, mask = (floats(*shape).astype(np.float16) for shape in ((1, 1, 3, 4), (1, 1, 3, 4), (1, 1, 3, 4), (3, 3)))
    expected, *_ = attend(q, k, v, mask)
    (actual,) = run({"q": q, "k": k, "v": v, "mask": mask}, softmax_precision=TensorProto.FLOAT)
    assert_close(actual, expected.astype(np.float16))


def test_values_of_another_type_are_added_up_in_the_wider_one() -> None:
    q, k, v = floats(1, 1, 3, 4), floats(1, 1, 3, 4), floats(1, 1, 3, 4).astype(np.float16)
    expected, *_ = attend(q, k, v, np.zeros((3, 3)))
    (actual,) = run({"q": q, "k": k, "v": v})
    assert_close(actual, expected.astype(np.float32))


@pytest.mark.parametrize(
    ("operands", "attributes", "code"),
    [({"q": (1, 3, 2, 4), "k": (1, 2, 2, 4), "v": (1, 2, 2, 4)}, {}, "attention-heads"),
     ({"q": (1, 2, 2, 4), "k": (1, 2, 2, 5), "v": (1, 2, 2, 4)}, {}, "attention-sizes"),
     ({"q": (1, 2, 2, 4), "k": (1, 2, 3, 4), "v": (1, 2, 2, 4)}, {}, "attention-sizes"),
     ({"q": (1, 2, 8), "k": (1, 2, 2, 4), "v": (1, 2, 2, 4)}, {"q_num_heads": 2}, "attention-rank"),
     ({"q": (1, 2, 8), "k": (1, 2, 8), "v": (1, 2, 8)}, {"q_num_heads": 2}, "missing-attribute"),
     ({"q": (1, 2, 2, 4), "k": (1, 2, 2, 4), "v": (1, 2, 2, 4), "past_key": (1, 2, 1, 4)}, {}, "past-without-partner"),
     ({"q": (1, 2, 2, 4), "k": (1, 2, 2, 4), "v": (1, 2, 2, 4), "mask": (3, 2)}, {}, "attention-mask"),
     ({"q": (1, 2, 2, 4), "k": (1, 2, 2, 4), "v": (1, 2, 2, 4), "mask": (1, 1, 1, 2, 2)}, {}, "attention-mask"),
     ({"q": (1, 2, 2, 4), "k": (1, 2, 2, 4), "v": (1, 2, 2, 4)}, {"left_window_size": -2}, "attribute-range"),
     ({"q": (1, 2, 2, 4), "k": (1, 2, 2, 4), "v": (1, 2, 2, 4)}, {"qk_matmul_output_mode": 4}, "attribute-range")],
)  # fmt: skip
def test_illegal_attention(operands: dict[str, Shape], attributes: dict[str, object], code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run({name: floats(*shape) for name, shape in operands.items()}, outputs=4, **attributes)


def test_valid_keys_are_a_vector_and_exclude_a_past() -> None:
    operands = {name: floats(1, 2, 2, 4) for name in ("q", "k", "v", "past_key", "past_value")}
    with pytest.raises(ModelError, match="two-caches"):
        run({**operands, "valid": np.int64([2])})
    with pytest.raises(ModelError, match="attention-lengths"):
        run({name: operands[name] for name in ("q", "k", "v")} | {"valid": np.int64([[2]])})


def test_heads_and_masks_are_checked_by_the_call() -> None:
    with pytest.raises(InputError, match="heads of Q"):
        run({"q": floats(1, 3, 2, 4), "k": floats(1, 2, 2, 4), "v": floats(1, 2, 2, 4)}, way="symbolic")
    with pytest.raises(InputError, match="longer than the keys"):
        run(
            {"q": floats(1, 2, 2, 4), "k": floats(1, 2, 2, 4), "v": floats(1, 2, 2, 4), "mask": floats(2, 3)},
            way="symbolic",
        )


# RotaryEmbedding


def turned(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, interleaved: int) -> np.ndarray:
    """Pairs of the last axis as complex numbers, times cos + i sin."""
    half = cos.shape[-1]
    first, second = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(half), slice(half, 2 * half))
    )
    result = x.copy()
    rotated = (x[..., first] + 1j * x[..., second]) * (cos + 1j * sin)
    result[..., first], result[..., second] = rotated.real, rotated.imag
    return result


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("width", [0, 4])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("by_position", [False, True])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_rotary_embedding(interleaved: int, width: int, packed: bool, by_position: bool, way: str) -> None:
    x = floats(2, 3, 4, 8)
    half = (width or 8) // 2
    cos, sin = floats(9, half), floats(9, half)
    positions = RANDOM.integers(0, 9, (2, 4))
    expected = turned(x, cos[positions][:, None], sin[positions][:, None], interleaved)
    operands = {
        "x": x.transpose(0, 2, 1, 3).reshape(2, 4, 24) if packed else x,
        "cos": cos,
        "sin": sin,
        "positions": positions,
    }
    if not by_position:
        operands = {"x": operands["x"], "cos": cos[positions], "sin": sin[positions]}
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": width} | ({"num_heads": 3} if packed else {})
    (actual,) = run_operator("RotaryEmbedding", operands, opset=23, way=way, **attributes)
    assert_close(actual, expected.transpose(0, 2, 1, 3).reshape(2, 4, 24) if packed else expected, terms=8)


@pytest.mark.parametrize("by_position", [False, True])
def test_angles_of_a_batch_of_one_are_for_all(by_position: bool) -> None:
    x, cos, sin = floats(3, 2, 4, 6), floats(1, 4, 3), floats(1, 4, 3)
    wide = {"x": x, "cos": np.repeat(cos, 3, 0), "sin": np.repeat(sin, 3, 0)}
    one: dict[str, np.ndarray | None] = {"x": x, "cos": cos, "sin": sin}
    if by_position:
        one = {"x": x, "cos": cos[0], "sin": sin[0], "positions": np.arange(4)[None]}
    (expected,), (actual,) = (run_operator("RotaryEmbedding", operands, opset=23) for operands in (wide, one))
    assert_same(actual, expected)


@pytest.mark.parametrize(
    ("x", "cache", "attributes", "code"),
    [((1, 2, 3, 6), (1, 3, 2), {}, "rotary-width"), ((1, 2, 3, 5), (1, 3, 2), {}, "rotary-width"),
     ((1, 2, 3, 6), (1, 3, 4), {"rotary_embedding_dim": 8}, "rotary-width"),
     ((1, 3, 8), (1, 3, 2), {}, "attention-heads"),
     ((1, 3, 8), (1, 3, 2), {"num_heads": 3}, "attention-heads"), ((3, 8), (1, 3, 2), {}, "rotary-rank"),
     ((1, 2, 3, 4), (3, 2), {}, "rotary-cache"), ((1, 2, 3, 4), (1, 4, 2), {}, "rotary-cache")],
)  # fmt: skip
def test_illegal_rotations(x: Shape, cache: Shape, attributes: dict[str, object], code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run_operator(
            "RotaryEmbedding", {"x": floats(*x), "cos": floats(*cache), "sin": floats(*cache)}, opset=23, **attributes
        )


def test_positions_are_a_matrix_of_rows_of_the_caches() -> None:
    operands = {"x": floats(1, 2, 3, 4), "cos": floats(9, 2), "sin": floats(9, 2), "positions": np.zeros(3, np.int64)}
    with pytest.raises(ModelError, match="rotary-positions"):
        run_operator("RotaryEmbedding", operands, opset=23)


# LinearAttention


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("with_past", [False, True])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_linear_attention_is_a_recurrence(rule: str, length: int, with_past: bool, way: str) -> None:
    heads, groups, width, depth = 4, 2, 3, 5
    q, k, v = floats(2, length, heads * width), floats(2, length, groups * width), floats(2, length, groups * depth)
    decay, beta = -np.abs(floats(2, length, groups)), np.abs(floats(2, length, groups))
    past = floats(2, groups, width, depth) if with_past else None
    state = np.zeros((2, groups, width, depth)) if past is None else past.astype(np.float64)
    outputs = []
    for t in range(length):
        key, value = k[:, t].reshape(2, groups, width), v[:, t].reshape(2, groups, depth).astype(np.float64)
        if "gated" in rule:
            state = state * np.exp(decay[:, t])[..., None, None]
        if "delta" in rule:
            value = beta[:, t][..., None] * (value - np.einsum("bgkv,bgk->bgv", state, key))
        state = state + key[..., None] * value[..., None, :]
        query = q[:, t].reshape(2, groups, heads // groups, width)
        outputs.append(np.einsum("bgrk,bgkv->bgrv", query, state).reshape(2, -1) * 0.25)
    expected = np.stack(outputs, 1) if outputs else np.zeros((2, 0, heads * depth))
    operands = {"q": q, "k": k, "v": v, "past": past}
    operands |= {"decay": decay if "gated" in rule else None, "beta": beta if "delta" in rule else None}
    while operands[list(operands)[-1]] is None:
        operands.popitem()
    attributes = {"q_num_heads": heads, "kv_num_heads": groups, "update_rule": rule, "scale": 0.25}
    y, present = run_operator("LinearAttention", operands, opset=27, way=way, outputs=2, **attributes)
    assert_close(y, expected.astype(np.float32), terms=8)
    assert_close(present, state.astype(np.float32), terms=8)


def test_a_state_tells_the_widths_of_what_is_packed() -> None:
    operands = {"q": floats(2, 3, 12), "k": floats(2, 3, 6), "v": floats(2, 3, 10), "past": floats(2, 2, 3, 5)}
    attributes = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "linear"}
    module = lower_operator(
        "LinearAttention", operands, opset=27, way="symbolic", parameters=["past"], outputs=2, **attributes
    )
    output, state = module.main.body.results
    assert (output.shape[0], output.shape[2], state.shape) == (2, 20, (2, 2, 3, 5))


def test_linear_attention_scales_by_the_width() -> None:
    operands = {"q": np.float32([[[1, 2, 3, 4]]]), "k": np.float32([[[1, 1, 1, 1]]]), "v": np.float32([[[2]]])}
    attributes = {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "linear"}
    y, state = run_operator("LinearAttention", operands, opset=27, outputs=2, **attributes)
    assert_same(y, np.float32([[[10]]]))
    assert_same(state, np.full((1, 1, 4, 1), 2, np.float32))


def test_ranks_of_linear_attention() -> None:
    attributes = {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "linear"}
    operands = {"q": floats(1, 2, 6), "k": floats(1, 2, 6), "v": floats(1, 2, 6)}
    for wrong in ({"q": floats(2, 6)}, {"past": floats(1, 6, 6)}):
        with pytest.raises(ModelError, match="linear-attention"):
            run_operator("LinearAttention", {**operands, **wrong}, opset=27, outputs=2, **attributes)


@pytest.mark.parametrize(
    ("attributes", "given"),
    [
        ({"update_rule": "gated"}, ()),
        ({"update_rule": "linear"}, ("decay",)),
        ({"q_num_heads": 3, "update_rule": "linear"}, ()),
    ],
)
def test_illegal_linear_attention(attributes: dict[str, object], given: tuple[str, ...]) -> None:
    operands = {"q": floats(1, 2, 6), "k": floats(1, 2, 6), "v": floats(1, 2, 6), "past": None}
    operands |= {name: floats(1, 2, 2) for name in given}
    operands = operands if given else {name: value for name, value in operands.items() if value is not None}
    with pytest.raises(ModelError, match="linear-attention"):
        run_operator(
            "LinearAttention", operands, opset=27, outputs=2, **{"q_num_heads": 2, "kv_num_heads": 2} | attributes
        )
