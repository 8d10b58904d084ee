"""GreedySearch of com.microsoft against ONNX Runtime, with a decoder of random weights."""

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto

import onnxc
from onnxc.runtime.errors import InputError, UnsupportedError
from tests.operators.microsoft.tiny_decoder import WORDS, decoder, search_model

Inputs = dict[str, np.ndarray | None]


def drawn(seed: int) -> tuple[Inputs, dict[str, object]]:
    """Inputs and attributes of a search; a third of what may be left out is given."""
    rng = np.random.default_rng(seed)
    batch, length = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    words = rng.integers(1, WORDS, (batch, length)).astype(np.int32)
    words[0, : length - 1 : 2] = 0
    shown = rng.integers(0, 2, (batch, length)).astype(np.int32)
    shown[:, -1] = 1
    optional = {
        "min_length": np.int32([length + 2]),
        "repetition_penalty": np.float32([1.7]),
        "vocab_mask": rng.integers(0, 2, WORDS).astype(np.int32),
        "prefix_vocab_mask": rng.integers(0, 2, (batch, WORDS)).astype(np.int32),
        "seen_words": shown,
    }
    given = {name: value if rng.random() < 0.33 else None for name, value in optional.items()}
    inputs: Inputs = {"prompt": words, "max_length": np.int32([length + rng.integers(1, 9)]), **given}
    attributes: dict[str, object] = {"decoder": decoder(seed), "eos_token_id": int(rng.integers(WORDS))}
    return inputs, {**attributes, "pad_token_id": 0, "no_repeat_ngram_size": int(rng.choice([0, 0, 1, 2, 3]))}


def by_onnx_runtime(model: ModelProto, inputs: Inputs) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, given(inputs))[0])


def given(inputs: Inputs) -> dict[str, np.ndarray]:
    return {name: value for name, value in inputs.items() if value is not None}


def assert_equal(inputs: Inputs, attributes: dict[str, object], target: str) -> np.ndarray:
    """Our sequences, which are those of ONNX Runtime up to where all have ended: it writes nothing behind that."""
    model = search_model("GreedySearch", inputs, ["sequences"], **attributes)
    expected = by_onnx_runtime(model, inputs)
    (actual,) = onnxc.compile(model, target).run(None, given(inputs))
    assert (actual.dtype, actual.shape) == (np.int32, expected.shape)
    is_over = (actual == attributes["pad_token_id"]).all(axis=0)
    is_over[: np.shape(inputs["prompt"])[1]] = False
    count = int(is_over.argmax()) + 1 if is_over.any() else is_over.size
    np.testing.assert_array_equal(actual[:, :count], expected[:, :count])
    return np.asarray(actual)


@pytest.mark.parametrize("seed", range(12))
def test_searches_agree(seed: int) -> None:
    assert_equal(*drawn(seed), "interpreter")


@pytest.mark.parametrize("seed", range(2))
def test_searches_agree_in_native_code(seed: int) -> None:
    assert_equal(*drawn(seed), "cpu")


@pytest.mark.parametrize("end", [3, 5, 8])
def test_what_is_behind_the_end_of_all_is_padding(end: int) -> None:
    words = np.int32([[9, 7, 6, 3], [2, 1, 1, 1]])
    attributes = {"decoder": decoder(0), "eos_token_id": end, "pad_token_id": 2}
    actual = assert_equal({"prompt": words, "max_length": np.int32([12])}, attributes, "interpreter")
    assert (actual == 2).all(axis=0)[-1] == (end in (3, 8))


def test_a_prompt_may_have_a_decoder_of_its_own() -> None:
    inputs, attributes = drawn(0)
    assert_equal(inputs, {**attributes, "init_decoder": decoder(1)}, "interpreter")


def test_no_room_for_a_word_is_refused() -> None:
    inputs, attributes = drawn(0)
    model = search_model("GreedySearch", inputs, ["sequences"], **attributes)
    length = np.asarray(inputs["prompt"]).shape[1]
    with pytest.raises(InputError, match="not greater than the length"):
        onnxc.compile(model, "interpreter").run(None, {**given(inputs), "max_length": np.int32([length])})


def test_a_search_with_an_encoder_is_refused() -> None:
    inputs, attributes = drawn(0)
    model = search_model("GreedySearch", inputs, ["sequences"], **attributes, model_type=1)
    with pytest.raises(UnsupportedError, match="has an encoder"):
        onnxc.compile(model, "interpreter")
