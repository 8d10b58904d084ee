"""How many rows a call should have, by what calls of other sizes took."""

import math

import pytest

from onnxc.serving.row_times import HARDLY, LEAST_ROWS, LOOKS_AGAIN, SHARED, CallTimes, RowTimes

MOST = 8 * LEAST_ROWS
FIXED_NS = 1_000_000


def noted(row_ns: dict[int, float]) -> RowTimes:
    times = RowTimes()
    for rows, ns in row_ns.items():
        times.note(rows, round(rows * ns))
    return times


def test_where_nothing_is_known_a_call_takes_all() -> None:
    assert RowTimes().enough_rows(MOST) == MOST


def test_where_no_larger_call_is_known_a_call_takes_all() -> None:
    assert noted({1: 90_000, LEAST_ROWS: 60_000}).enough_rows(MOST) == MOST


def test_rows_that_cost_the_same_in_any_call_are_not_gathered() -> None:
    assert noted(dict.fromkeys((1, LEAST_ROWS, 2 * LEAST_ROWS, MOST), 60_000)).enough_rows(MOST) == LEAST_ROWS


def test_where_a_call_costs_the_same_with_any_rows_it_takes_all() -> None:
    assert noted({rows: FIXED_NS / rows for rows in (1, LEAST_ROWS, 2 * LEAST_ROWS, MOST)}).enough_rows(MOST) == MOST


@pytest.mark.parametrize(("times_more", "expected"), [(HARDLY - 0.01, LEAST_ROWS), (HARDLY + 0.01, 2 * LEAST_ROWS)])
def test_what_is_gained_must_be_worth_the_wait(times_more: float, expected: int) -> None:
    row_ns = {LEAST_ROWS: times_more * 50_000, 2 * LEAST_ROWS: 50_000, MOST: 50_000}
    assert noted(row_ns).enough_rows(MOST) == expected


def test_a_call_never_has_more_rows_than_may_be() -> None:
    assert noted({LEAST_ROWS: 60_000, MOST: 60_000}).enough_rows(3) == 3


def test_other_work_does_not_make_calls_of_a_size_look_long() -> None:
    times = noted({LEAST_ROWS: 60_000, MOST: 60_000})
    times.note(LEAST_ROWS, 10 * LEAST_ROWS * 60_000)
    assert times.enough_rows(MOST) == LEAST_ROWS


def test_what_has_become_longer_for_good_is_learned() -> None:
    times = noted({LEAST_ROWS: 60_000, MOST: 60_000})
    for _ in range(100):
        times.note(LEAST_ROWS, 2 * LEAST_ROWS * 60_000)
    assert times.enough_rows(MOST) == MOST


def test_now_and_then_a_call_takes_all() -> None:
    times = noted({LEAST_ROWS: 60_000, MOST: 60_000})
    asked = [times.enough_rows(MOST) for _ in range(2 * LOOKS_AGAIN)]
    assert asked.count(MOST) == 2


def test_a_call_is_expected_to_take_what_the_next_smaller_one_that_is_known_does() -> None:
    times = noted({4: 30, 16: 20})
    assert [times.expected_ns(rows) for rows in (4, 9, 10, 15, 16, 17)] == [120, 180, 200, 300, 320, 340]


def test_a_call_takes_no_longer_than_one_of_more_rows() -> None:
    times = noted({1: 1000, 64: 20})
    assert [times.expected_ns(rows) for rows in (1, 2, 16, 64)] == [1000, 1280, 1280, 1280]
    assert [noted({4: 30, 16: 20}).expected_ns(rows) for rows in (0, 1, 3)] == [120, 120, 90]


def test_a_call_of_no_rows_counts_as_one() -> None:
    times = RowTimes()
    times.note(0, 50)
    assert times.expected_ns(0) == 50
    assert times.expected_ns(1) == 50


@pytest.mark.parametrize(("spare_ns", "enough"), [(13_000, MOST), (15_000, LEAST_ROWS)])
def test_a_row_may_take_longer_by_what_is_spared(spare_ns: int, enough: int) -> None:
    times = noted({LEAST_ROWS: 80_000, MOST: 60_000})
    assert times.enough_rows(MOST, spare_ns=spare_ns) == enough


def test_calls_beside_are_expected_to_take_twice_what_others_do_until_one_is_known() -> None:
    times = CallTimes()
    assert times.expected_ns(1, beside=True) == times.expected_ns(1, beside=False) == math.inf
    times.called.note(2, 200)
    assert times.expected_ns(4, beside=False) == 400
    assert times.expected_ns(4, beside=True) == SHARED * 400
    times.beside.note(2, 300)
    assert times.expected_ns(4, beside=True) == 600
    assert times.expected_ns(4, beside=False) == 400


def test_a_call_beside_that_other_work_made_long_is_not_believed() -> None:
    times = CallTimes()
    times.called.note(16, 1600)
    times.beside.note(16, 16_000)
    assert times.expected_ns(16, beside=True) == SHARED * 1600


def test_the_first_call_beside_has_few_rows_and_later_ones_as_many_as_are_worth_it() -> None:
    times = CallTimes()
    assert times.enough_rows_beside(MOST) == LEAST_ROWS
    assert times.enough_rows_beside(3) == 3
    times.beside.note(LEAST_ROWS, LEAST_ROWS * 80_000)
    assert [times.enough_rows_beside(MOST) for _ in range(LOOKS_AGAIN)].count(MOST) == 1
    times.beside.note(MOST, MOST * 40_000)
    assert times.enough_rows_beside(MOST) == LEAST_ROWS
    times.beside.note(MOST, MOST * 20_000)
    assert times.enough_rows_beside(MOST) == MOST


def test_what_is_known_is_told_by_calls() -> None:
    assert RowTimes().known() == {}
    assert noted({1: 5, 3: 2}).known() == {1: 5, 4: 8}
