"""Whether answers agree: by the largest value, with NaN, infinities, integers and texts."""

import ml_dtypes
import numpy as np
import pytest

from onnxc.measuring.values import compare_outputs

F32 = np.array([1.0, -4.0, 0.0], np.float32)
NAN, INF = np.array([np.nan, 1, 2], np.float32), np.array([np.inf, 1, 2], np.float32)


@pytest.mark.parametrize(
    ("ours", "theirs", "difference", "is_same"),
    [
        (F32, F32, 0.0, True),
        (F32, F32 + np.float32(0.002), 0.0005, True),
        (F32, F32 + np.float32(0.008), 0.002, False),
        (F32.astype(np.float16), F32.astype(np.float16) + np.float16(0.0625), 1 / 64, True),
        (F32.astype(ml_dtypes.bfloat16), F32.astype(ml_dtypes.bfloat16), 0.0, True),
        (F32.astype(np.float64), F32.astype(np.float64) + 4e-5, 1e-5, False),
        (F32.astype(np.complex64), F32.astype(np.complex64) * 1j, np.sqrt(2), False),
        (NAN, NAN, 0.0, True),
        (NAN, F32, np.inf, False),
        (INF, INF, 0.0, True),
        (INF, -INF, np.inf, False),
        (F32, F32[:2], np.inf, False),
        (F32, F32.astype(np.float64), np.inf, False),
        (np.zeros(3, np.float32), np.zeros(3, np.float32), 0.0, True),
        (np.empty((0, 3), np.float32), np.empty((0, 3), np.float32), 0.0, True),
        (np.empty(0, np.int64), np.empty(0, np.int64), 0.0, True),
        (np.array([1, 2]), np.array([1, 3]), 0.5, False),
        (np.array(["a", "b"], object), np.array(["a", "b"], object), 0.0, True),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), 0.5, False),
        (("a",), ["a"], 0.0, True),
        (("a",), ("b",), np.inf, False),
        ((), [], 0.0, True),
        ((F32, F32), [F32, F32 + np.float32(0.008)], 0.002, False),
        ((F32,), [F32, F32], np.inf, False),
        ({1: 2.0}, {1: 3.0}, 1 / 3, False),
        ({1: 2.0}, {2: 2.0}, np.inf, False),
        (({"a": np.float32(0.75), "b": np.float32(1e-9)},), [{"a": 0.75, "b": 2e-9}], 4e-9 / 3, True),
        (({1: np.float32(0.5)}, {1: np.float32(1)}), [{1: 0.5}, {1: 0.5}], 1.0, False),
        (({1: 0.5},), [0.5], np.inf, False),
        (None, None, 0.0, True),
    ],
)
def test_two_answers(ours: object, theirs: object, difference: float, is_same: bool) -> None:
    found = compare_outputs({"y": ours}, {"y": theirs})
    assert found.output == "y"
    assert found.difference == pytest.approx(difference, rel=0.02)
    assert found.is_same == is_same


def test_the_output_that_differs_most_is_named() -> None:
    found = compare_outputs({"a": F32, "b": F32, "c": F32}, {"a": F32, "b": F32 * 3, "c": F32 * 2})
    assert (found.output, found.is_same) == ("b", False)


def test_one_that_may_not_differ_is_worse_than_one_that_may() -> None:
    narrow = F32.astype(np.float16)
    ours = {"exact": np.array([1] * 1000), "narrow": narrow}
    theirs = {"exact": np.array([1] * 999 + [2]), "narrow": narrow + np.float16(0.0625)}
    assert compare_outputs(ours, theirs).output == "exact"


def test_a_lower_precision_may_differ_more() -> None:
    near = F32 + np.float32(0.04)
    assert not compare_outputs({"y": F32}, {"y": near}).is_same
    assert compare_outputs({"y": F32}, {"y": near}, "bf16").is_same


def test_outputs_must_be_the_same_ones() -> None:
    assert compare_outputs({"y": F32}, {"z": F32}).difference == np.inf
    assert compare_outputs({}, {}).is_same
