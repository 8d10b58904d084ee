"""SparseAttention and DecoderMaskedMultiHeadAttention of com.microsoft: what is not drawn, and what is refused.

`tests/differential/microsoft/decoders.py` draws cases of both that agree with ONNX Runtime.
"""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import InputError, ModelError, UnsupportedError
from tests.operators.microsoft.agreement import assert_all_close, integers, make_model, normal, run_ours, run_theirs

N, G, D, BLOCK = 4, 2, 16, 16
SHARED = {"present_k": "past_k", "present_v": "past_v"}
SPARSE = {
    "num_heads": N,
    "kv_num_heads": G,
    "sparse_block_size": BLOCK,
    "outputs": ["y", "present_k", "present_v"],
}


def i32(value: object) -> np.ndarray:
    return np.array(value, np.int32)


def step(lengths: list[int], length: int = 1, capacity: int = 48) -> dict[str, np.ndarray]:
    """`length` new tokens, up to the given lengths, with two layouts of three rows of blocks."""
    batch = len(lengths)
    inputs = {"q": normal(batch, length, N * D)}
    inputs |= {name: normal(batch, length, G * D, seed=ord(name)) for name in ("k", "v")}
    inputs |= {name: normal(batch, G, capacity, D, seed=7 + i) for i, name in enumerate(("past_k", "past_v"))}
    inputs["rows"] = i32([[0, 1, 3, 5], [0, 1, 2, 4]])
    inputs["columns"] = i32([[0, 0, 1, 0, 2], [0, 1, 0, 2, -1]])
    return inputs | {"total": i32([max(lengths)]), "lengths": i32(lengths)}


def of_batch(inputs: dict[str, np.ndarray], row: int) -> dict[str, np.ndarray]:
    """The step of one batch of several."""
    alone = {name: inputs[name][row : row + 1] for name in ("q", "k", "v", "past_k", "past_v", "lengths")}
    return {**inputs, **alone, "total": inputs["lengths"][row : row + 1]}


@pytest.mark.parametrize("lengths", [[48, 3], [1, 17, 33], [20, 20]], ids=str)
def test_each_batch_of_a_sparse_step_is_that_of_itself_alone(lengths: list[int]) -> None:
    inputs = step(lengths)
    shapes = {name: ["b", *inputs[name].shape[1:]] for name in ("q", "k", "v", "lengths")}
    shapes |= {name: ["b", G, "c", D] for name in ("past_k", "past_v")}
    together = run_ours(make_model("SparseAttention", inputs, **SPARSE), inputs)
    assert_all_close(run_ours(make_model("SparseAttention", inputs, shapes=shapes, **SPARSE), inputs), together)
    for row in range(len(lengths)):
        alone = of_batch(inputs, row)
        expected = run_theirs(make_model("SparseAttention", alone, **SPARSE), alone, SHARED)
        assert_all_close([result[row : row + 1] for result in together], expected)


@pytest.mark.parametrize("length", [1, 16, 33])
def test_prompts_of_sizes_that_a_call_gives(length: int) -> None:
    inputs = step([length, length], length)
    shapes = {name: ["b", "s", inputs[name].shape[2]] for name in ("q", "k", "v")}
    shapes |= {"rows": [2, "r"], "columns": [2, "j"]}
    actual = run_ours(make_model("SparseAttention", inputs, shapes=shapes, **SPARSE), inputs)
    assert_all_close(actual, run_theirs(make_model("SparseAttention", inputs, **SPARSE), inputs, SHARED))


def test_more_tokens_than_the_cache_has_room_for_are_refused() -> None:
    inputs = step([4], capacity=48)
    with pytest.raises(InputError, match="more than past_key has room for"):
        onnxc.compile(make_model("SparseAttention", inputs, **SPARSE), "interpreter").run(
            None, {**inputs, "total": i32([49])}
        )


@pytest.mark.parametrize(
    ("changed", "attributes", "words"),
    [
        ({"rows": i32([[0, 1], [0, 1], [0, 1]]), "columns": i32([[0], [0], [0]])}, {}, "take turns"),
        ({"columns": i32([[0]])}, {}, "block_col_indices"),
        ({}, {"sparse_block_size": 0}, "sparse_block_size is 0"),
        ({}, {"kv_num_heads": 3}, "cannot share"),
    ],
    ids=["layouts", "lists", "size", "heads"],
)
def test_sparse_attention_that_does_not_fit_is_refused(
    changed: dict[str, np.ndarray], attributes: dict[str, int], words: str
) -> None:
    inputs = {**step([4]), **changed}
    with pytest.raises(ModelError, match=words):
        run_ours(make_model("SparseAttention", inputs, **{**SPARSE, **attributes}), inputs)


# DecoderMaskedMultiHeadAttention

ROOM, WIDTH = 6, 8
MASKED = {"num_heads": 2, "past_present_share_buffer": 1, "outputs": ["y", "present_k", "present_v"]}
OPERATOR = "DecoderMaskedMultiHeadAttention"


def masked(batch: int, past: int) -> dict[str, np.ndarray | None]:
    inputs: dict[str, np.ndarray | None] = {name: normal(batch, 1, WIDTH, seed=ord(name)) for name in "qkv"}
    inputs |= {"mask": None, "scores": None}
    caches = {name: normal(batch, 2, ROOM, WIDTH // 2, seed=7 + i) for i, name in enumerate(("past_k", "past_v"))}
    return {**inputs, **caches, "past": i32([past])}


@pytest.mark.parametrize("past", [0, 1, ROOM - 1])
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_a_masked_step_of_sizes_that_a_call_gives(batch: int, past: int) -> None:
    inputs = masked(batch, past)
    shapes = {name: ["b", *value.shape[1:]] for name, value in inputs.items() if value is not None and name != "past"}
    shapes |= {name: ["b", 2, "c", WIDTH // 2] for name in ("past_k", "past_v")}
    actual = run_ours(make_model(OPERATOR, inputs, shapes=shapes, **MASKED), inputs)
    assert_all_close(actual, run_theirs(make_model(OPERATOR, inputs, **MASKED), inputs) if batch else actual)
    assert actual[0].shape == (batch, 1, WIDTH)


def test_packed_operands_of_a_masked_step_are_its_three_in_a_row() -> None:
    inputs = {**masked(2, 3), "width": None, "sources": None, "bias": normal(3 * WIDTH)}
    packed = {**inputs, "q": np.concatenate([inputs[name] for name in "qkv"], axis=2), "k": None, "v": None}
    expected = run_ours(make_model(OPERATOR, inputs, **MASKED), inputs)
    assert_all_close(run_ours(make_model(OPERATOR, packed, **MASKED), packed), expected)


def test_beams_attend_to_the_caches_that_they_come_from_with_biases_of_their_own() -> None:
    batch, beams, past = 2, 2, 3
    rows = batch * beams
    inputs = {**masked(rows, past), "scores": normal(rows, 2, 1, past + 1), "width": i32([beams])}
    inputs["sources"] = sources = integers(0, beams, batch, beams, ROOM, dtype=np.int32)
    moved = {**inputs, "width": None, "sources": None}
    for name in ("past_k", "past_v"):
        cache = np.array(inputs[name])
        for row in range(rows):
            for token in range(past):
                source = row // beams * beams + sources[row // beams, row % beams, token]
                cache[row, :, token] = np.asarray(inputs[name])[source, :, token]
        moved[name] = cache
    (expected, *_) = run_theirs(make_model(OPERATOR, moved, **MASKED), moved)
    actual, present_k, _ = run_ours(make_model(OPERATOR, inputs, **MASKED), inputs)
    assert_all_close([actual], [expected])
    np.testing.assert_array_equal(present_k[:, :, :past], np.asarray(inputs["past_k"])[:, :, :past])


def test_a_cache_without_room_is_refused() -> None:
    inputs = masked(1, ROOM)
    given = {name: value for name, value in inputs.items() if value is not None}
    with pytest.raises(InputError, match="no room for a token"):
        onnxc.compile(make_model(OPERATOR, inputs, **MASKED), "interpreter").run(None, given)


@pytest.mark.parametrize(
    ("changed", "attributes", "error", "words"),
    [
        ({}, {"past_present_share_buffer": 0}, UnsupportedError, "share no buffer"),
        ({}, {"output_qk": 1}, UnsupportedError, "qk is wanted"),
        ({"v": None}, {}, ModelError, "only one of key and value"),
        ({"q": normal(2, 2, WIDTH)}, {}, ModelError, "query is"),
        ({"past_v": normal(2, 2, ROOM + 1, WIDTH // 2)}, {}, ModelError, "past_value"),
        ({"past_k": None, "past_v": None}, {}, ModelError, "not of 4 axes"),
    ],
    ids=["buffers", "scores", "values", "length", "caches", "keys"],
)
def test_masked_steps_that_are_none_are_refused(
    changed: dict[str, np.ndarray | None], attributes: dict[str, int], error: type, words: str
) -> None:
    inputs = {**masked(2, 1), **changed}
    with pytest.raises(error, match=words):
        run_ours(make_model(OPERATOR, inputs, **{**MASKED, **attributes}), inputs)
