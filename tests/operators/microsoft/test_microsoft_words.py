"""Hashes, vectors of words, rows of words and parts of tensors of com.microsoft, against ONNX Runtime."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError, ModelError, UnsupportedError
from tests.operators.microsoft.agreement import (
    Inputs,
    assert_agrees,
    assert_all_close,
    integers,
    make_model,
    normal,
    run_ours,
    run_theirs,
)

EXTREMES = [0, 1, -1, 2**31 - 1, -(2**31), 0x12345678]


@pytest.mark.parametrize("options", [{}, {"positive": 0}, {"seed": 7}, {"seed": -3, "positive": 1}], ids=str)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64])
def test_murmur_hash_of_numbers(dtype: type, options: dict[str, int]) -> None:
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    values = np.array([*EXTREMES, 2**40 + 3], np.int64).astype(bits).view(dtype).reshape(7, 1)
    model = make_model("MurmurHash3", {"x": values}, shapes={"x": ["n", 1]}, **options)
    (found,) = run_ours(model, {"x": values})
    assert_all_close([found], [run_theirs(model, {"x": values})[0]])
    assert found.dtype == (np.uint32 if options.get("positive", 1) else np.int32)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)], ids=str)
def test_murmur_hash_of_odd_shapes(shape: tuple[int, ...]) -> None:
    assert_agrees("MurmurHash3", {"x": np.full(shape, 5, np.int32)})


def test_texts_are_not_hashed() -> None:
    with pytest.raises(UnsupportedError, match="hash texts before the model is called"):
        run_ours(make_model("MurmurHash3", {"x": np.array(["a"], object)}), {})


def words_of(*lengths: int, most: int, letters: int = 11) -> np.ndarray:
    """Words of so many letters, 0 behind them."""
    words = np.zeros((len(lengths), most), np.int32)
    for row, length in enumerate(lengths):
        words[row, :length] = integers(1, letters, length, seed=row)
    return words


def word_inputs(words: np.ndarray, window: int, filters: int = 4, width: int = 3, letters: int = 11) -> Inputs:
    return {
        "s": words,
        "w": normal(filters, 1, window, width),
        "b": normal(filters, seed=1),
        "c": normal(letters, width, seed=2),
    }


@pytest.mark.parametrize("window", [1, 2, 5])
def test_vectors_of_words(window: int) -> None:
    inputs = word_inputs(words_of(5, 1, 3, 2, 4, most=5), window)
    assert_agrees("WordConvEmbedding", inputs, shapes={"s": ["n", "l"]})
    sizes = {"embedding_size": 4, "conv_window_size": window, "char_embedding_size": 3}
    assert_agrees("WordConvEmbedding", inputs, constants=["w", "b", "c"], **sizes)


def test_letters_below_1_count_for_nothing_but_are_read() -> None:
    words = np.array([[3, 0, 4, 0, 5], [2, 2, 0, 0, 7]], np.int32)
    assert_agrees("WordConvEmbedding", word_inputs(words, 2))


def test_a_word_without_a_first_letter_has_the_vector_0() -> None:
    words = words_of(3, 0, 2, most=4)
    words[1] = [0, 3, -9, 40]
    inputs = word_inputs(words, 2)
    (found,) = run_ours(make_model("WordConvEmbedding", inputs), inputs)
    (expected,) = run_theirs(make_model("WordConvEmbedding", inputs), inputs)
    assert_all_close([found[::2]], [expected[::2]])
    assert np.array_equal(found[1], np.zeros(4, np.float32))


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"embedding_size": 5}, {}, "embedding_size is not the size"),
        ({}, {"s": np.ones((2, 1), np.int32)}, "windows of 2 letters, and words of 1"),
        ({}, {"c": normal(11, 2)}, "W"),
        ({}, {"b": normal(3)}, "B"),
    ],
    ids=str,
)
def test_vectors_of_words_that_do_not_fit(options: dict[str, int], change: Inputs, message: str) -> None:
    inputs = {**word_inputs(words_of(2, 2, most=2), 2), **change}
    with pytest.raises(ModelError, match=message) as caught:
        run_ours(make_model("WordConvEmbedding", inputs, **options), inputs)
    assert caught.value.code == "words-shape"


def test_words_of_a_call_that_are_too_short() -> None:
    inputs = word_inputs(np.ones((2, 1), np.int32), 2)
    with pytest.raises(InputError, match="longer than the words"):
        run_ours(make_model("WordConvEmbedding", inputs, shapes={"s": ["n", "l"]}), inputs)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 9])
def test_rows_of_words_do_not_come_back(length: int, size: int) -> None:
    ids = integers(0, 3, 2, length, dtype=np.int64)
    scores = normal(2, 6)
    scores[0, 0] = np.nan
    expected = scores.copy()
    for row, words in enumerate(ids.tolist()):
        for start in range(length - size + 1):
            if words[start : start + size - 1] == words[length - size + 1 :]:
                expected[row, words[start + size - 1]] = -np.inf
    inputs = {"ids": ids, "scores": scores}
    for shapes in ({}, {"ids": ["b", "l"], "scores": ["b", "v"]}):
        (found,) = run_ours(make_model("NGramRepeatBlock", inputs, shapes=shapes, ngram_size=size), inputs)
        np.testing.assert_array_equal(found, expected)
    if length >= size:
        (theirs,) = run_theirs(make_model("NGramRepeatBlock", inputs, ngram_size=size), inputs)
        np.testing.assert_array_equal(theirs, expected)


def test_rows_of_no_words_are_refused() -> None:
    inputs = {"ids": integers(0, 3, 2, 4, dtype=np.int64), "scores": normal(2, 6)}
    with pytest.raises(ModelError, match="ngram_size is 0"):
        run_ours(make_model("NGramRepeatBlock", inputs, ngram_size=0), inputs)


@pytest.mark.parametrize(("dim", "size", "step"), [(-1, 3, 1), (1, 2, 2), (0, 4, 3), (2, 5, 1), (-2, 6, 9)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_parts_of_an_axis(dtype: type, dim: int, size: int, step: int) -> None:
    inputs = {"x": integers(0, 200, 4, 6, 5, dtype=dtype)}
    assert_agrees("UnfoldTensor", inputs, shapes={"x": ["a", "b", "c"]}, dim=dim, size=size, step=step)


@pytest.mark.parametrize("options", [{"size": 6}, {"size": 0}, {"size": 2, "step": 0}], ids=str)
def test_parts_that_are_none(options: dict[str, int]) -> None:
    with pytest.raises(ModelError, match="of an axis of 5"):
        run_ours(make_model("UnfoldTensor", {"x": normal(2, 5)}, **options), {})


def test_an_echo() -> None:
    assert_agrees("SampleOp", {"x": normal(2, 3)})
