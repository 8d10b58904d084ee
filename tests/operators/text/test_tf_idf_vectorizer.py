"""TfIdfVectorizer against counting, window by window."""

from collections.abc import Sequence

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from tests.operators.host_models import TARGETS, run_ml
from tests.support.arrays import assert_same

POOL = [[[0], [1]], [[0, 1], [1, 0], [3, 3]], [[2, 2, 0], [0, 1, 2]]]
INDEXES = [4, 2, 0, 1, 3, 6, 5]
WEIGHTS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def counted(row: Sequence[object], names: Sequence[object], least: int, most: int, skips: int) -> np.ndarray:
    """How often each n-gram of the pool stands in the row."""
    counts, number = np.zeros(len(INDEXES), np.float32), 0
    for length, grams in enumerate(POOL, start=1):
        for gram in grams:
            wanted = [names[token] for token in gram]
            for distance in range(1, skips + 2 if length > 1 else 2):
                for start in range(len(row)):
                    found = list(row[start : start + length * distance : distance])[:length]
                    counts[number] += least <= length <= most and found == wanted
            number += 1
    return counts


def attributes(names: Sequence[object]) -> dict[str, object]:
    flat = [names[token] for grams in POOL for gram in grams for token in gram]
    key = "pool_strings" if isinstance(names[0], str) else "pool_int64s"
    return {key: flat, "ngram_counts": [0, 2, 8], "ngram_indexes": INDEXES, "weights": WEIGHTS}


@pytest.mark.parametrize(("least", "most", "skips"), [(1, 1, 3), (1, 2, 0), (2, 2, 5), (1, 3, 1), (3, 3, 0)])
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("names", [[5, 6, 7, 8], ["a", "b", "c", "d"]])
def test_counts(least: int, most: int, skips: int, mode: str, names: Sequence[object]) -> None:
    tokens = np.random.default_rng(0).integers(0, 4, (2, 9))
    x = np.array(names, object if isinstance(names[0], str) else np.int64)[tokens]
    expected = np.zeros((2, 7), np.float32)
    for row in range(2):
        counts = counted(x[row].tolist(), names, least, most, skips)
        factor = 1 if mode == "TF" else np.array(WEIGHTS, np.float32)
        expected[row, INDEXES] = (np.minimum(counts, 1) if mode == "IDF" else counts) * factor
    options = {"mode": mode, "min_gram_length": least, "max_gram_length": most, "max_skip_count": skips}
    for symbolic in (False, True):
        actual = run_ml(
            "TfIdfVectorizer", {"x": x}, version=9, domain="", symbolic=symbolic, **options, **attributes(names)
        )
        assert_same(*actual, expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(9,), (0,), (1,), (2, 0), (0, 3)])
def test_shapes(target: str, shape: tuple[int, ...]) -> None:
    options = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1}
    options |= attributes([5, 6, 7, 8])
    (y,) = run_ml("TfIdfVectorizer", {"x": np.zeros(shape, np.int64)}, version=9, domain="", target=target, **options)
    assert_same(y, np.zeros((*shape[:-1], 7), np.float32))


def test_a_pool_that_does_not_fit_its_counts_is_refused() -> None:
    options = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0}
    wrong = {**attributes([5, 6, 7, 8]), "ngram_counts": [0, 3, 8]}
    with pytest.raises(DiagnosedModelError, match="ngram_counts"):
        run_ml("TfIdfVectorizer", {"x": np.zeros(3, np.int64)}, version=9, domain="", **options, **wrong)
