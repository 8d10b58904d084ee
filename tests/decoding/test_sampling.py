"""Sampling: which tokens may be drawn, and how often each is."""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.decoding.decoder import Decoder

# Probabilities 0.4, 0.3, 0.2, 0.1 and 0, not in order.
LOGITS = np.log(np.array([[0.1, 0.4, 1e-30, 0.2, 0.3]], np.float32))


def drawn(decoder: Decoder, count: int, logits: np.ndarray = LOGITS, **options: float) -> np.ndarray:
    """How often each token is drawn."""
    sampler = decoder.sampler(**options)  # type: ignore[arg-type]
    return np.bincount([int(sampler.pick(logits)[0]) for _ in range(count)], minlength=logits.shape[1])


@pytest.mark.parametrize(
    ("options", "probabilities"),
    [
        ({}, [0.1, 0.4, 0, 0.2, 0.3]),
        ({"top_k": 2}, [0, 4 / 7, 0, 0, 3 / 7]),
        ({"top_k": 99}, [0.1, 0.4, 0, 0.2, 0.3]),
        ({"top_p": 0.65}, [0, 4 / 7, 0, 0, 3 / 7]),
        ({"top_p": 0.75}, [0, 4 / 9, 0, 2 / 9, 3 / 9]),
        ({"top_p": 1e-9}, [0, 1, 0, 0, 0]),
        # Of the two likeliest the first has more than half.
        ({"top_k": 2, "top_p": 0.5}, [0, 1, 0, 0, 0]),
        ({"temperature": 0.5}, [1 / 30, 16 / 30, 0, 4 / 30, 9 / 30]),
    ],
)
def test_tokens_come_as_often_as_they_are_likely(
    sums: Decoder, options: dict[str, float], probabilities: list[float]
) -> None:
    count = 1000
    counts = drawn(sums, count, seed=5, **{"temperature": 1.0, **options})
    expected = np.array(probabilities) * count
    assert not counts[expected == 0].any()
    # Five standard deviations of a count are at most 79.
    assert abs(counts - expected).max() <= 5 * np.sqrt(count / 4)


def test_tokens_as_likely_as_the_last_of_the_likeliest_may_be_drawn_too(sums: Decoder) -> None:
    counts = drawn(sums, 200, np.array([[1, 0, 1, 1, 0]], np.float32), temperature=1.0, top_k=2)
    assert (counts > 0).tolist() == [True, False, True, True, False]


def test_rows_are_drawn_apart(sums: Decoder) -> None:
    rows = np.where(np.eye(5, dtype=bool), np.float32(0), -np.float32("inf"))[[3, 0, 4]]
    assert sums.sampler(temperature=2.0, top_k=1, top_p=0.5).pick(rows).tolist() == [3, 0, 4]


def test_the_same_seed_gives_the_same_tokens(gpt: Decoder) -> None:
    first, again, other = (
        list(gpt.generate([1, 2, 3], 30, temperature=1.5, top_k=20, top_p=0.9, seed=seed)) for seed in (7, 7, 8)
    )
    assert first == again != other


def test_a_penalty_divides_logits_above_0_and_multiplies_others(sums: Decoder) -> None:
    sampler = sums.sampler(repetition_penalty=2.0)
    positive, negative = np.array([[3, 2, 1, 0, 0]], np.float32), np.array([[-3, -1, -1.5, -9, -9]], np.float32)
    assert sampler.pick(positive, np.array([[0]])).tolist() == [1]
    assert sampler.pick(negative, np.array([[1]])).tolist() == [2]
    assert list(sums.generate([0, 1], 4, repetition_penalty=1.5)) == [2, 3, 3, 3]


def test_logits_that_are_no_numbers_are_refused(sums: Decoder) -> None:
    logits = np.array([[0, np.nan, 0, 0, 0]], np.float32)
    with pytest.raises(onnxc.InputError, match="not finite") as caught:
        sums.sampler(temperature=1.0).pick(logits)
    assert caught.value.code == "logits-not-finite"


@pytest.mark.parametrize(("seen", "code"), [([1], "session-tokens"), ([[5]], "token-range"), ([[-1]], "token-range")])
def test_seen_tokens_that_there_cannot_be(sums: Decoder, seen: list[object], code: str) -> None:
    with pytest.raises(onnxc.InputError) as caught:
        sums.sampler(repetition_penalty=2.0).pick(LOGITS, np.array(seen))
    assert caught.value.code == code


def test_options_too_small_for_f32_are_the_smallest_there_are(sums: Decoder) -> None:
    # A penalty that were 0 in f32 would leave nothing that can be drawn.
    rows = np.array([[0, 1, 2, 1, 0]], np.float32)
    assert sums.sampler(repetition_penalty=1e-60).pick(rows, np.array([[1]])).tolist() == [1]
    assert sums.sampler(temperature=1e-60).pick(rows).tolist() == [2]
