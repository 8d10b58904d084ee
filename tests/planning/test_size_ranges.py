"""Ranges of a size: as few as keep one candidate near the best in each."""

import numpy as np

from onnxc.compiler.planning.size_ranges import NEAR_BEST, divide, regrets, sample_sizes

FAR = 2 * NEAR_BEST


def test_samples_are_dense_where_sizes_are_small_and_come_in_pairs() -> None:
    assert sample_sizes(1, 8) == (1, 2, 3, 4, 5, 6, 7, 8)
    samples = sample_sizes(3000, 5000)
    assert (samples[0], samples[-1]) == (3000, 5000)
    assert {4096, 4097, 4224, 4225} <= set(samples)
    assert not {4100, 4200} & set(samples)


def test_what_is_no_candidate_costs_endlessly_much() -> None:
    ratios = regrets(np.array([[2.0, 3.0], [1.0, np.inf]]))
    assert ratios.tolist() == [[2.0, 1.0], [1.0, np.inf]]


def test_a_range_goes_as_far_as_one_candidate_is_near_the_best() -> None:
    first, second = [1, 1, FAR, FAR, FAR], [FAR, 1, 1, 1, FAR]
    last = [FAR, FAR, FAR, FAR, 1]
    ratios = np.array([first, second, last])
    assert divide(ratios, ratios, 3) == [(0, 1), (2, 3), (4, 4)]


def test_the_last_range_is_for_what_serves_sizes_without_end() -> None:
    bounded, endless = np.array([[1.0, 1, 1, 1]]), np.array([[FAR, FAR, 1, 1]])
    assert divide(bounded, endless, 3) == [(0, 1), (2, 3)]
    assert divide(bounded, np.array([[FAR] * 4]), 3) == [(0, 2), (3, 3)]


def test_a_sample_at_which_no_candidate_with_an_end_is_near_the_best_is_a_range_of_its_own() -> None:
    assert divide(np.array([[FAR, 1, 1]]), np.array([[1, FAR, 1]]), 3) == [(0, 0), (1, 1), (2, 2)]


def test_where_there_are_too_many_ranges_each_is_further_from_the_best() -> None:
    ratios = np.array([[1, 1.3, 1, 1.3], [1.3, 1, 1.3, 1]])
    assert len(divide(ratios, ratios, 4)) == 4
    assert divide(ratios, ratios, 3) == [(0, 3)]
