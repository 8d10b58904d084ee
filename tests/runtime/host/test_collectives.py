"""Collectives over the values of a group: what each device receives."""

import numpy as np
import pytest

from onnxc.runtime.host import MEANINGS


def group(*rows: list[float]) -> list[np.ndarray]:
    return [np.array(row, np.float32) for row in rows]


def check(results: tuple[np.ndarray, ...], *expected: list[float]) -> None:
    assert len(results) == len(expected)
    for result, row in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, np.array(row, np.float32), strict=True)


@pytest.mark.parametrize(("kind", "expected"), [("sum", [5, 1]), ("max", [4, 2]), ("min", [1, -1]), ("prod", [4, -2])])
def test_all_reduce_gives_everyone_the_combination(kind: str, expected: list[float]) -> None:
    results = MEANINGS["all_reduce"](group([1, 2], [4, -1]), {"kind": kind})
    check(results, expected, expected)
    assert not np.shares_memory(results[0], results[1])


def test_all_reduce_of_float16_rounds_once() -> None:
    values = [np.array(2048.0, np.float16), *(np.array(1.0, np.float16) for _ in range(4))]
    for result in MEANINGS["all_reduce"](values, {"kind": "sum"}):
        np.testing.assert_array_equal(result, np.array(2052.0, np.float16), strict=True)


def test_all_gather_joins_along_the_axis() -> None:
    results = MEANINGS["all_gather"](group([1, 2], [3, 4]), {"axis": 0})
    check(results, [1, 2, 3, 4], [1, 2, 3, 4])
    assert not np.shares_memory(results[0], results[1])


def test_reduce_scatter_gives_each_its_block() -> None:
    operands = group([1, 2, 3, 4], [10, 20, 30, 40])
    check(MEANINGS["reduce_scatter"](operands, {"kind": "sum", "axis": 0}), [11, 22], [33, 44])


def test_blocks_of_an_uneven_axis_are_rounded_up_and_the_last_short() -> None:
    operands = [np.arange(5, dtype=np.float32)] + [np.zeros(5, np.float32)] * 3
    results = MEANINGS["reduce_scatter"](operands, {"kind": "sum", "axis": 0})
    check(results, [0, 1], [2, 3], [4], [])


def test_all_to_all_exchanges_blocks() -> None:
    operands = [np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])]
    first, second = MEANINGS["all_to_all"](operands, {"split_axis": 0, "concat_axis": 1})
    np.testing.assert_array_equal(first, [[1, 2, 5, 6]], strict=True)
    np.testing.assert_array_equal(second, [[3, 4, 7, 8]], strict=True)


def test_all_to_all_there_and_back_is_nothing() -> None:
    operands = [np.arange(24).reshape(4, 6) + 100 * device for device in range(2)]
    there = MEANINGS["all_to_all"](operands, {"split_axis": 1, "concat_axis": 0})
    back = MEANINGS["all_to_all"](there, {"split_axis": 0, "concat_axis": 1})
    for before, after in zip(operands, back, strict=True):
        np.testing.assert_array_equal(before, after, strict=True)


def test_permute_leaves_zeros_where_nothing_arrives() -> None:
    results = MEANINGS["permute"](group([1, 2], [3, 4], [5, 6]), {"pairs": ((0, 1), (1, 2))})
    check(results, [0, 0], [1, 2], [3, 4])


def test_a_group_of_one_exchanges_nothing() -> None:
    for name, attributes in (
        ("all_reduce", {"kind": "sum"}),
        ("all_gather", {"axis": 0}),
        ("reduce_scatter", {"kind": "max", "axis": 0}),
        ("all_to_all", {"split_axis": 0, "concat_axis": 0}),
        ("permute", {"pairs": ((0, 0),)}),
    ):
        operands = group([1, 2])
        results = MEANINGS[name](operands, attributes)
        check(results, [1, 2])
        assert not np.shares_memory(results[0], operands[0])
