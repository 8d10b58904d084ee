"""Sessions: what is fed goes behind what there is, in the memory of the caches."""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.decoding.decoder import Decoder
from tests.models import builders

PROMPT = [3, 100, 41, 7, 0, 58, 58]
STEPS = [int(token) for token in np.random.default_rng(1).integers(0, builders.VOCABULARY, 63)]


def test_logits_are_bit_for_bit_those_of_calls_that_pass_the_cache_on(gpt: Decoder) -> None:
    plain = onnxc.compile(builders.decoder("dynamo").model, threads=1)
    session = gpt.session()
    names = [info.name for info in plain.inputs]
    shape = (1, builders.HEADS, 0, builders.HEAD)
    caches = [np.zeros(shape, np.float32)] * (len(names) - 2)
    length = 0
    for chunk in (PROMPT, *([token] for token in STEPS)):
        length += len(chunk)
        ids, mask = np.array([chunk]), np.ones((1, length), np.int64)
        outputs = plain.run(dict(zip(names, (ids, mask, *caches), strict=True)))
        logits, *caches = (outputs[info.name] for info in sorted(plain.outputs, key=lambda each: each.name != "logits"))
        assert np.array_equal(session.feed(chunk), np.asarray(logits)[:, -1])
    # Memory of 64 rows was full on the way.
    assert (session.length, session.capacity) == (70, 96)


def test_generated_tokens_are_those_of_the_whole_sequence_computed_anew(gpt: Decoder) -> None:
    reference = onnxc.compile(builders.decoder("dynamo").model, target="interpreter")
    tokens = list(PROMPT)
    empty = {
        spec.name: np.zeros((1, builders.HEADS, 0, builders.HEAD), np.float32)
        for spec in builders.cache_specs(builders.HEADS)
    }
    for _ in range(6):
        ids = np.array([tokens])
        logits = reference.run({"input_ids": ids, "attention_mask": np.ones_like(ids), **empty})["logits"]
        tokens.append(int(np.asarray(logits)[0, -1].argmax()))
    assert list(gpt.generate(PROMPT, 6)) == tokens[len(PROMPT) :]


def test_greedy_takes_the_first_of_equals(sums: Decoder) -> None:
    # The sum of the embeddings of 0 and 1 is (1, 1), whose logits are 1, 1, 2, 2, 2.
    assert sums.session().feed([0, 1]).tolist() == [[1, 1, 2, 2, 2]]
    assert list(sums.generate([0, 1], 3)) == [2, 2, 2]


def test_generation_ends_before_a_stop_token(sums: Decoder) -> None:
    assert list(sums.generate([1], 9, stop=[3])) == []
    assert list(sums.generate([0, 1], 9, stop=[3])) == [2] * 9


def test_sessions_of_one_decoder_know_nothing_of_each_other(sums: Decoder) -> None:
    first, second = sums.session(), sums.session(capacity=2)
    first.feed([0])
    second.feed([1])
    assert first.feed([0]).tolist() == [[0, 2, 2, 0, 4]]
    assert second.feed([1, 1]).tolist() == [[3, 0, 3, 6, 0]]
    assert (first.length, second.length) == (2, 3)


def test_new_rows_are_written_into_the_memory_that_the_cache_has(sums: Decoder) -> None:
    session = sums.session(capacity=8)
    (memory,) = session._memory.values
    memory[:] = -1
    for token in (3, 0):
        session.feed([token])
    assert session._memory.values[0] is memory
    assert memory.tolist() == [[[2, 0], [0, 1], *[[-1, -1]] * 6]]
    assert session.cache_bytes == 8 * 2 * 4


def test_memory_grows_by_half_and_keeps_what_it_has(sums: Decoder) -> None:
    session = sums.session(capacity=4)
    capacities = []
    for _ in range(100):
        logits = session.feed([0])
        capacities.append(session.capacity)
    assert sorted(set(capacities)) == [4, 64, 96, 144]
    assert logits.tolist() == [[0, 100, 100, 0, 200]]


def test_sequences_of_a_batch_are_apart_and_padding_on_the_left_does_not_count(sums: Decoder) -> None:
    session = sums.session(batch=2)
    logits = session.feed([[4, 4, 0], [0, 1, 1]], mask=[[0, 0, 1], [1, 1, 1]])
    assert logits.tolist() == [[0, 1, 1, 0, 2], [2, 1, 3, 4, 2]]
    # One token for each; what did not count before does not count now.
    assert session.feed([0, 1]).tolist() == [[0, 2, 2, 0, 4], [3, 1, 4, 6, 2]]


def test_a_beam_search_makes_sequences_copies_of_others(sums: Decoder) -> None:
    session = sums.session(batch=3)
    session.feed([[0], [1], [3]])
    session.reorder([2, 2, 0])
    assert session.feed([1, 0, 0]).tolist() == [[3, 0, 3, 6, 0], [2, 1, 3, 4, 2], [0, 2, 2, 0, 4]]
    # What does not count goes with its sequence.
    padded = sums.session(batch=2)
    padded.feed([[4, 0], [1, 1]], mask=[[0, 1], [1, 1]])
    padded.reorder([1, 0])
    assert padded.feed([0, 0]).tolist() == [[2, 1, 3, 4, 2], [0, 2, 2, 0, 4]]


def test_what_is_cut_off_is_forgotten(sums: Decoder) -> None:
    session = sums.session()
    session.feed([0, 1, 4])
    session.truncate(1)
    assert session.length == 1
    assert session.feed([0]).tolist() == [[0, 2, 2, 0, 4]]


def test_positions_and_the_mask_are_made_where_the_model_asks_for_them(places: Decoder) -> None:
    session = places.session()
    # The position of the last token, how many count, where it stands, the sum of the cache.
    assert session.feed([0, 1, 3]).tolist() == [[2, 3, 2, 4]]
    assert session.feed([0]).tolist() == [[3, 4, 3, 5]]
    padded = places.session(batch=2)
    assert padded.feed([[0, 0, 1], [0, 1, 1]], mask=[[0, 0, 1], [1, 1, 1]]).tolist() == [[0, 1, 2, 3], [2, 3, 2, 3]]
    assert padded.feed([[0], [0]]).tolist() == [[1, 2, 3, 4], [3, 4, 3, 4]]
    # The position of padding is one that there is.
    assert places.session(batch=2).feed([[0], [0]], mask=[[0], [1]]).tolist() == [[0, 0, 0, 1], [0, 1, 0, 1]]


def test_which_tokens_count_is_kept_where_memory_grows_and_what_is_cut_off_is_written_anew(places: Decoder) -> None:
    session = places.session(batch=2, capacity=2)
    session.feed([[0, 0], [0, 1]], mask=[[0, 1], [1, 1]])
    assert session.feed([[0, 0, 0], [0, 0, 0]]).tolist() == [[3, 4, 4, 5], [4, 5, 4, 5]]
    assert session.capacity > 2
    session.reorder([1, 0])
    session.truncate(2)
    assert session.feed([[0], [0]], mask=[[0], [1]]).tolist() == [[1, 2, 2, 3], [1, 2, 2, 3]]
    session.truncate(2)
    assert session.feed([[0], [0]]).tolist() == [[2, 3, 2, 3], [1, 2, 2, 3]]


def test_the_model_says_how_many_tokens_and_positions_there_are(gpt: Decoder, places: Decoder) -> None:
    assert (gpt.vocabulary, gpt.max_length) == (builders.VOCABULARY, builders.POSITIONS)
    assert (places.vocabulary, places.max_length) == (5, 9)


def test_all_positions_are_used_and_no_memory_is_for_more(places: Decoder) -> None:
    # The logits are 8, 9, 8, 9.
    assert list(places.generate([1] * 9, 1)) == [1]
    session = places.session()
    session.feed([1])
    assert session.capacity == 9


def test_a_call_that_fails_has_changed_nothing(places: Decoder) -> None:
    session = places.session()
    session.feed([1])
    for tokens, code in (([5], "token-range"), ([0] * 9, "sequence-length")):
        with pytest.raises(onnxc.InputError) as caught:
            session.feed(tokens)
        assert caught.value.code == code
    assert session.feed([1]).tolist() == [[1, 2, 1, 2]]


@pytest.mark.parametrize(
    ("tokens", "mask", "code"),
    [
        ([], None, "session-tokens"),
        ([[1, 2], [3, 4]], None, "session-tokens"),
        ([1.0], None, "input-dtype"),
        ("12", None, "input-dtype"),
        ([[1], [2, 3]], None, "input-type"),
        ([-1], None, "token-range"),
        ([2**62], None, "token-range"),
        ([2**70], None, "input-dtype"),
        ([1], [[1, 1]], "session-mask"),
        ([1], [["a"]], "input-dtype"),
    ],
)
def test_tokens_and_masks_that_cannot_be_fed(sums: Decoder, tokens: object, mask: object, code: str) -> None:
    with pytest.raises(onnxc.InputError) as caught:
        sums.session().feed(tokens, mask)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"batch": 0}, "session-option"),
        ({"batch": None}, "session-option"),
        ({"capacity": 0.0}, "session-option"),
        ({"capacity": -1}, "session-option"),
        ({"capacity": 1 << 50}, "out-of-memory"),
        ({"capacity": 1 << 70}, "out-of-memory"),
        ({"inputs": {"x": 1}}, "session-inputs"),
        ({"inputs": [1]}, "session-inputs"),
    ],
)
def test_sessions_that_there_cannot_be(sums: Decoder, options: dict[str, object], code: str) -> None:
    with pytest.raises(onnxc.OnnxcError) as caught:
        sums.session(**options)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_rows_and_lengths_that_a_session_does_not_have(sums: Decoder) -> None:
    session = sums.session(batch=2)
    for rows in ([0], [0, 2], [0, -1]):
        with pytest.raises(onnxc.InputError, match="rows is"):
            session.reorder(rows)
    with pytest.raises(onnxc.InputError, match="the session has 0 tokens"):
        session.truncate(1)


@pytest.mark.parametrize(
    ("prompt", "options", "code"),
    [
        ([], {}, "session-tokens"),
        ([7], {}, "token-range"),
        ([1] * 8, {"max_new_tokens": 3}, "sequence-length"),
        ([1], {"max_new_tokens": 0}, "session-option"),
        ([1], {"temperature": -1.0}, "sampling-option"),
        ([1], {"max_new_tokens": None}, "session-option"),
        ([1], {"stop": 3}, "session-option"),
        ([1], {"stop": "3"}, "session-option"),
        ([1], {"temperature": float("nan")}, "sampling-option"),
        ([1], {"temperature": 10**400}, "sampling-option"),
        ([1], {"temperature": 1e300}, "sampling-option"),
        ([1], {"top_k": 0.5}, "sampling-option"),
        ([1], {"top_p": 0.0}, "sampling-option"),
        ([1], {"repetition_penalty": 0.0}, "sampling-option"),
        ([1], {"seed": "1"}, "sampling-option"),
    ],
)
def test_what_cannot_be_generated_is_refused_at_once(
    places: Decoder, prompt: list[int], options: dict[str, object], code: str
) -> None:
    with pytest.raises(onnxc.InputError) as caught:
        places.generate(prompt, **options)  # type: ignore[arg-type]
    assert caught.value.code == code
