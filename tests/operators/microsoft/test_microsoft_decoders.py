"""GroupQueryAttention and RotaryEmbedding of com.microsoft against ONNX Runtime."""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import ModelError, OnnxcError, UnsupportedError
from tests.operators.microsoft.agreement import (
    assert_agrees,
    assert_all_close,
    integers,
    make_model,
    normal,
    run_ours,
    run_theirs,
)

N, G, D = 4, 2, 32
PAST = "attention-past"


def i32(value: object) -> np.ndarray:
    return np.array(value, np.int32)


def angles(width: int = D) -> dict[str, np.ndarray]:
    phase = np.arange(16, dtype=np.float32)[:, None] / 10.0 ** np.arange(width // 2, dtype=np.float32)
    return {"cos": np.cos(phase), "sin": np.sin(phase)}


def decoding(
    batch: int, length: int, capacity: int, ends: list[int], total: int, *, packed: bool = False, past: bool = True
) -> dict[str, np.ndarray | None]:
    """Inputs of a step with `length` new tokens; `ends` are the indices of the last ones."""
    inputs: dict[str, np.ndarray | None] = {"q": normal(batch, length, (N + 2 * G if packed else N) * D)}
    inputs |= {name: None if packed else normal(batch, length, G * D, seed=ord(name)) for name in ("k", "v")}
    kept = [normal(batch, G, capacity, D, seed=seed) if past else None for seed in (7, 8)]
    return inputs | {"past_k": kept[0], "past_v": kept[1], "ends": i32(ends), "total": i32(total)}


OUTPUTS = ["y", "present_k", "present_v"]
OPTIONS = {"num_heads": N, "kv_num_heads": G, "outputs": OUTPUTS}
SHAPES = {
    "q": ["b", "s", N * D],
    "k": ["b", "s", G * D],
    "v": ["b", "s", G * D],
    "past_k": ["b", G, "c", D],
    "past_v": ["b", G, "c", D],
    "ends": ["b"],
}


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize(
    "case",
    [
        decoding(1, 4, 0, [3], 4, past=False),
        decoding(2, 4, 0, [3, 3], 4, past=False),
        decoding(1, 1, 5, [5], 6),
        decoding(2, 1, 5, [5, 5], 6),
        decoding(2, 1, 5, [5, 3], 6),
        decoding(1, 3, 5, [7], 8),
        decoding(2, 4, 0, [3, 3], 4),
    ],
    ids=["prompt", "prompts", "step", "steps", "ragged steps", "chunk", "prompts with empty past"],
)
def test_group_query_attention(case: dict[str, np.ndarray | None], rotary: int) -> None:
    inputs = case | (angles() if rotary else {})
    shapes = {name: shape for name, shape in SHAPES.items() if case[name] is not None}
    assert_agrees("GroupQueryAttention", inputs, shapes=shapes, do_rotary=rotary, **OPTIONS)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("width", [D, D // 2])
def test_packed_operands_and_rotations(width: int, interleaved: int) -> None:
    inputs = decoding(2, 1, 5, [5, 5], 6, packed=True) | angles(width)
    assert_agrees("GroupQueryAttention", inputs, do_rotary=1, rotary_interleaved=interleaved, **OPTIONS)


@pytest.mark.parametrize("window", [1, 2, 100])
@pytest.mark.parametrize("length", [1, 4])
def test_a_local_window(length: int, window: int) -> None:
    if length == 1:
        inputs = decoding(2, 1, 5, [5, 4], 6)
    else:
        inputs = decoding(2, 4, 0, [3, 3], 4, past=False)
    assert_agrees("GroupQueryAttention", inputs, local_window_size=window, **OPTIONS)


@pytest.mark.parametrize("options", [{"softcap": 0.5}, {"scale": 0.2}, {"smooth_softmax": 1}], ids=str)
def test_attributes_of_scores(options: dict[str, object]) -> None:
    assert_agrees("GroupQueryAttention", decoding(2, 1, 5, [5, 4], 6), **OPTIONS, **options)


@pytest.mark.parametrize("softcap", [0.0, 2.0])
def test_sinks_of_heads(softcap: float) -> None:
    inputs = decoding(1, 4, 0, [3], 4, past=False)
    inputs |= {"cos": None, "sin": None, "positions": None, "bias": None, "sink": normal(N, seed=11)}
    assert_agrees("GroupQueryAttention", inputs, softcap=softcap, **OPTIONS)


@pytest.mark.parametrize("heads", [1, N])
def test_a_bias_of_scores(heads: int) -> None:
    inputs = decoding(1, 4, 0, [3], 4, past=False)
    inputs |= {"cos": None, "sin": None, "positions": None, "bias": normal(1, heads, 4, 4, seed=11)}
    assert_agrees("GroupQueryAttention", inputs, **OPTIONS)


def test_given_positions() -> None:
    inputs = decoding(1, 1, 5, [5], 6) | angles() | {"positions": np.array([[2]], np.int64)}
    assert_agrees("GroupQueryAttention", inputs, do_rotary=1, **OPTIONS)


def _resident(count: int, capacity: int, window: int) -> int:
    """How many of so many tokens a cache with a sliding window keeps."""
    together = capacity - window + 1
    return count if count <= capacity else count - together * -(-(count - capacity) // together)


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize(
    ("capacity", "window", "steps"),
    [
        (4, 4, [3, 1, 1, 1, 1]),
        (6, 4, [1, 5, 1, 1, 1, 1, 1]),
        (6, 3, [9, 1, 1]),
        (5, 1, [2, 4, 1, 6]),
        (20, 3, [4, 1, 1]),
    ],
    ids=str,
)
def test_a_cache_with_a_sliding_window(capacity: int, window: int, steps: list[int], rotary: int, sink: bool) -> None:
    count = 0
    options: dict[str, object] = {"local_window_size": window, "sliding_window_cache": 1, "do_rotary": rotary}
    past = [np.zeros((1, G, capacity, D), np.float32) for _ in range(2)]
    for step in steps:
        count += step
        inputs = decoding(1, step, capacity, [count - 1], count) | dict.fromkeys(("cos", "sin", "positions", "bias"))
        inputs |= {"past_k": past[0], "past_v": past[1]} | (angles() if rotary else {})
        inputs |= {"sink": normal(N, seed=11)} if sink else {}
        model = make_model("GroupQueryAttention", inputs, shapes=SHAPES, **OPTIONS, **options)
        expected, actual = run_theirs(model, inputs), run_ours(model, inputs)
        kept = _resident(count, capacity, window)
        assert_all_close([actual[0]], [expected[0]])
        for ours, theirs in zip(actual[1:], expected[1:], strict=True):
            assert ours.shape == theirs.shape == (1, G, capacity, D)
            assert_all_close([ours[:, :, :kept]], [theirs[:, :, :kept]])
            assert not ours[:, :, kept:].any()
        past = actual[1:]


def test_sliding_windows_of_sequences_of_several_lengths() -> None:
    inputs = decoding(3, 1, 6, [2, 5, 11], 12)
    options = {"local_window_size": 4, "sliding_window_cache": 1}
    model = make_model("GroupQueryAttention", inputs, shapes=SHAPES, **OPTIONS, **options)
    expected, actual = run_theirs(model, inputs), run_ours(model, inputs)
    assert_all_close([actual[0]], [expected[0]])
    for batch, count in enumerate((3, 6, 12)):
        kept = _resident(count, 6, 4)
        for ours, theirs in zip(actual[1:], expected[1:], strict=True):
            assert_all_close([ours[batch, :, :kept]], [theirs[batch, :, :kept]])


def test_a_sliding_window_is_no_longer_than_its_cache() -> None:
    inputs = decoding(1, 1, 3, [1], 2)
    for window, shapes, code in ((4, {}, PAST), (4, SHAPES, "sizes-disagree"), (-1, SHAPES, PAST)):
        options = {"local_window_size": window, "sliding_window_cache": 1}
        model = make_model("GroupQueryAttention", inputs, shapes=shapes, **OPTIONS, **options)
        with pytest.raises(OnnxcError, match=code):
            run_ours(model, inputs)


def test_a_sliding_window_beside_a_bias_is_refused() -> None:
    inputs = decoding(1, 1, 4, [1], 2) | dict.fromkeys(("cos", "sin", "positions"))
    inputs |= {"bias": normal(1, 1, 1, 2)}
    model = make_model("GroupQueryAttention", inputs, **OPTIONS, local_window_size=2, sliding_window_cache=1)
    with pytest.raises(UnsupportedError, match="attention_bias"):
        run_ours(model, inputs)


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize(
    ("counts", "ends"), [([3, 3], [4, 2]), ([1, 3], [0, 5]), ([2, 0], [7, 3])], ids=["some", "first", "idle"]
)
def test_padding_behind_the_new_tokens_counts_for_nothing(counts: list[int], ends: list[int], rotary: int) -> None:
    inputs = decoding(2, 3, 11, ends, 11) | dict.fromkeys(("cos", "sin", "positions", "bias", "sink"))
    inputs |= angles() if rotary else {}
    inputs |= dict.fromkeys(("k_scale", "v_scale", "q_norm", "k_norm")) | {"counts": i32(counts)}
    expected = run_theirs(make_model("GroupQueryAttention", inputs, do_rotary=rotary, **OPTIONS), inputs)
    actual = run_ours(make_model("GroupQueryAttention", inputs, do_rotary=rotary, **OPTIONS), inputs)
    for batch, (count, end) in enumerate(zip(counts, ends, strict=True)):
        assert_all_close([actual[0][batch, :count]], [expected[0][batch, :count]])
        for ours, theirs in zip(actual[1:], expected[1:], strict=True):
            assert ours.shape == theirs.shape
            assert_all_close([ours[batch, :, : end + 1]], [theirs[batch, :, : end + 1]])


@pytest.mark.parametrize(
    "given", [{}, {"qk_norm_epsilon": 0.5}, {"q_norm_epsilon": 0.5, "k_norm_epsilon": 0.1}], ids=str
)
def test_norms_of_queries_and_keys(given: dict[str, float]) -> None:
    inputs = decoding(1, 4, 0, [3], 4, past=False)
    q, k = (inputs[name].reshape(1, 4, -1, D) for name in "qk")  # type: ignore[union-attr]
    weights = normal(D, seed=1), normal(D, seed=2)
    shared = given.get("qk_norm_epsilon", 1e-6)
    epsilons = [given.get(f"{name}_norm_epsilon", shared) for name in "qk"]
    scaled = [
        (x / np.sqrt((x.astype(np.float64) ** 2).mean(3, keepdims=True) + epsilon) * w).astype(np.float32)
        for x, w, epsilon in zip((q, k), weights, epsilons, strict=True)
    ]
    plain = inputs | {"q": scaled[0].reshape(1, 4, -1), "k": scaled[1].reshape(1, 4, -1)}
    names = ("cos", "sin", "positions", "bias", "sink", "k_scale", "v_scale")
    normed = inputs | dict.fromkeys(names) | {"q_weight": weights[0], "k_weight": weights[1]}
    options = {"num_heads": N, "kv_num_heads": G}
    (expected,) = run_ours(make_model("GroupQueryAttention", plain, **options), plain)
    (y,) = run_ours(make_model("GroupQueryAttention", normed, **options, **given), normed)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)


def test_forms_that_are_refused() -> None:
    inputs = decoding(1, 1, 5, [5], 6)
    with pytest.raises(ModelError, match="attention-heads"):
        run_ours(make_model("GroupQueryAttention", inputs, num_heads=4, kv_num_heads=3), inputs)
    with pytest.raises(UnsupportedError, match="caches of floats"):
        run_ours(make_model("GroupQueryAttention", inputs, num_heads=N, kv_num_heads=G, k_quant_type="PER_TENSOR"), {})


# RotaryEmbedding


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("first", [None, 3])
@pytest.mark.parametrize("rank", [3, 4])
def test_rotary_embedding(rank: int, first: int | None, interleaved: int) -> None:
    inputs = {
        "x": normal(2, 5, N * D) if rank == 3 else normal(2, N, 5, D),
        "positions": np.array([first], np.int64) if first else integers(0, 16, 2, 5, dtype=np.int64),
    } | angles()
    shapes = {"x": ["b", "s", N * D] if rank == 3 else ["b", N, "s", D]}
    shapes |= {} if first else {"positions": ["b", "s"]}
    assert_agrees("RotaryEmbedding", inputs, shapes=shapes, interleaved=interleaved)


@pytest.mark.parametrize("rank", [3, 4])
def test_rotary_embedding_of_a_part_of_each_head(rank: int) -> None:
    inputs = {
        "x": normal(2, 5, N * D) if rank == 3 else normal(2, N, 5, D),
        "positions": integers(0, 16, 2, 5, dtype=np.int64),
    } | angles(D // 2)
    assert_agrees("RotaryEmbedding", inputs, num_heads=N, rotary_embedding_dim=D // 2)


def test_rotary_caches_that_are_too_wide_are_refused() -> None:
    inputs = {"x": normal(2, N, 5, D), "positions": np.array([0], np.int64)} | angles(2 * D)
    with pytest.raises(ModelError, match="rotary-width"):
        run_ours(make_model("RotaryEmbedding", inputs), inputs)


def test_a_step_of_a_decoder_is_compiled() -> None:
    inputs = decoding(2, 1, 5, [5, 3], 6) | angles()
    model = make_model("GroupQueryAttention", inputs, shapes=SHAPES, do_rotary=1, **OPTIONS)
    results = onnxc.compile(model)(*(inputs[info.name] for info in model.graph.input))
    assert isinstance(results, tuple)
    assert_all_close([np.asarray(result) for result in results], run_theirs(model, inputs))
