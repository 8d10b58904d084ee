"""Texts as bytes that say which of the distinct ones each is, and numbers in decimal against Python's own."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxc.runtime.errors import InputError
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.host.decimals import decimals_of, parsed_decimals
from onnxc.runtime.host.functions import FUNCTIONS
from onnxc.runtime.host.text_codes import MOST_DISTINCT, SAMPLE, coded_texts
from onnxc.runtime.host.values import HostValue, as_array
from tests.support.arrays import assert_same

WORDS = ("b", "", "é a", "a,a", "a", "nan")
F64, I64, U64 = (np.dtype(name) for name in ("float64", "int64", "uint64"))


def call(name: str, x: np.ndarray, *others: HostValue, **attributes: object) -> tuple[np.ndarray, ...]:
    return tuple(as_array(result) for result in FUNCTIONS[name]([x, *others], attributes))


def repeated(words: Sequence[str], times: int = 100) -> np.ndarray:
    return np.array(list(words) * times, object)


def test_codes_name_the_distinct_texts_in_ascending_order() -> None:
    words = repeated(WORDS)
    coded = coded_texts(words)
    assert coded is not None
    assert (coded.distinct.tolist(), coded.codes.dtype) == (sorted(WORDS), np.uint8)
    assert_same(coded.distinct[coded.codes], words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["a"] * (2 * SAMPLE - 1),
        list(map(str, range(1000))),
        ["a"] * SAMPLE + list(map(str, range(MOST_DISTINCT))) * 3,
    ],
    ids=["none", "few", "distinct", "distinct behind the first"],
)
def test_few_texts_and_distinct_ones_have_no_codes(words: list[str]) -> None:
    assert coded_texts(np.array(words, object)) is None


@pytest.mark.parametrize("distinct", [MOST_DISTINCT - 1, MOST_DISTINCT])
def test_as_many_distinct_texts_as_bytes_have_codes(distinct: int) -> None:
    words = repeated(["a"] * SAMPLE + list(map(str, range(distinct - 1))), 3)
    coded = coded_texts(words)
    assert coded is not None
    assert_same(coded.distinct[coded.codes], words)


@pytest.mark.parametrize("shape", [(600,), (6, 100), (6, 1, 100)], ids=str)
def test_texts_that_repeat_are_computed_as_each_alone(shape: tuple[int, ...]) -> None:
    x, alone = repeated(WORDS).reshape(shape), np.array(WORDS, object)
    pick = np.arange(x.size) % len(WORDS)
    for name, others, attributes in (
        ("string_split", (), {"delimiter": "a", "maxsplit": -1}),
        ("string_split", (), {"delimiter": "", "maxsplit": 1}),
        ("string_full_match", (), {"pattern": "a.*"}),
        ("text_positions", (np.array(["nan", "", "a"], object),), {}),
    ):
        many, few = call(name, x, *others, **attributes), call(name, alone, *others, **attributes)
        for result, expected in zip(many, few, strict=True):
            assert_same(result, expected[pick].reshape(*shape, *expected.shape[1:]))


def test_texts_that_repeat_are_sorted_in_their_order_where_they_are_equal() -> None:
    x = repeated(WORDS)
    values, order = MEANINGS["sort"]([x], {"axis": 0, "descending": False})
    assert_same(order, np.array(sorted(range(x.size), key=x.tolist().__getitem__), np.int64))
    assert values.tolist() == sorted(x.tolist())


def test_a_text_that_is_no_number_is_refused_wherever_it_repeats() -> None:
    with pytest.raises(InputError, match="'b'"):
        call("numbers_from_strings", repeated(["1", "b"]), dtype=F64)


@given(
    st.lists(st.one_of(st.integers(-(2**70), 2**70).map(str), st.text("0123456789-+._, e\0²", max_size=4)), max_size=4)
)
def test_numbers_are_read_as_python_reads_each(words: list[str]) -> None:
    x = np.array([*words, ""], object)[:-1]
    for dtype, parse in ((F64, float), (I64, _integer), (U64, _integer)):
        try:
            expected = np.fromiter(map(parse, words), dtype, len(words))
        except (ValueError, OverflowError) as problem:
            with pytest.raises(type(problem)):
                parsed_decimals(x, dtype)
        else:
            assert_same(parsed_decimals(x, dtype), expected)


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (I64, ["9223372036854775807", "-9223372036854775808", "0"]),
        (U64, ["18446744073709551615", "0"]),
        (I64, ["-5", "007", "-0"]),
        (I64, ["5", "1e3", "2.5"]),
        (F64, ["-0", "0", "5"]),
        (F64, ["0", "5", "-0"]),
        (F64, ["-0.0", "-0.5", "1e5"]),
        (F64, ["9007199254740993", "-9223372036854775809", "1" * 400]),
        (F64, ["9007199254740993", "123456789012345678"]),
        (F64, ["0.1", "1e999", "4.9e-324", "2.2250738585072011e-308"]),
        (F64, [".5", "5.", "+5", " 5 ", "1_0"]),
        (F64, ["nan", "-inf", "Infinity"]),
    ],
    ids=str,
)
def test_numbers_that_are_read_together_are_what_each_is_alone(dtype: np.dtype, words: list[str]) -> None:
    parse = float if dtype == F64 else _integer
    assert_same(parsed_decimals(np.array(words, object), dtype), np.array([parse(word) for word in words], dtype))


@pytest.mark.parametrize(
    "words", [["1,2", ""], ["", "1,2"], ["1", "", "2"], ["1", "2,"], ["1", "-"], ["-", "1"], ["[1", "2],3"]]
)
@pytest.mark.parametrize("dtype", [F64, I64, U64], ids=str)
def test_texts_with_commas_are_no_numbers(dtype: np.dtype, words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"invalid literal|could not convert"):
        parsed_decimals(np.array(words, object), dtype)


@pytest.mark.parametrize("words", [["9223372036854775808", "0"], ["-9223372036854775809", "0"]], ids=str)
def test_integers_that_the_type_cannot_hold_are_refused(words: list[str]) -> None:
    with pytest.raises(OverflowError):
        parsed_decimals(np.array(words, object), I64)


def _integer(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        return int(float(word))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "int32"])
@pytest.mark.parametrize("count", [0, 1, 100, 1000])
def test_integers_of_a_short_range_are_written_as_each_alone(dtype: str, count: int) -> None:
    limits = np.iinfo(dtype)
    for least, most in ((limits.min, limits.min + 90), (limits.max - 90, limits.max), (limits.min, limits.max)):
        x = np.random.default_rng(0).integers(least, most, count, dtype, endpoint=True)
        written = decimals_of(x)
        assert (written.dtype, written.tolist()) == (np.dtype(object), list(map(str, x.tolist())))


@pytest.mark.parametrize("count", [0, 1, 500])
def test_truths_are_written_as_digits(count: int) -> None:
    x = np.arange(count) % 3 == 0
    written = ["1" if element else "0" for element in x]
    assert decimals_of(x).tolist() == written
    # Any byte but 0 is true.
    assert decimals_of((7 * x.astype(np.uint8)).view(np.bool_)).tolist() == written


@pytest.mark.parametrize(
    ("dtype", "values", "written"),
    [
        ("float32", [0.0, 5.0, -5.0], ["0", "5", "-5"]),
        ("float32", [-0.0, 5.0], ["-0", "5"]),
        ("float32", [99999992.0, 100000000.0], ["99999992", "1e+08"]),
        ("float32", [5.0, 0.5], ["5", "0.5"]),
        ("float16", [2048.0, -1.0], ["2048", "-1"]),
        ("float64", [5.0, 9999999999999998.0], ["5", "9999999999999998"]),
        ("float64", [1e16, 5.0], ["1e+16", "5"]),
        ("float64", [-0.0, 5.0], ["-0", "5"]),
        ("float64", [np.nan, 5.0], ["NaN", "5"]),
        ("float64", [-np.inf, 5.0], ["-INF", "5"]),
    ],
    ids=str,
)
def test_floats_that_are_integers_are_written_as_other_floats_are(
    dtype: str, values: list[float], written: list[str]
) -> None:
    assert decimals_of(np.array(values, dtype)).tolist() == written
    assert [decimals_of(np.array([value], dtype)).tolist()[0] for value in values] == written


NOT_FINITE = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}


@given(st.lists(st.floats(allow_nan=False) | st.integers(-(10**17), 10**17).map(float), max_size=4))
def test_doubles_are_written_as_python_writes_them(values: list[float]) -> None:
    written = [repr(value).removesuffix(".0") for value in values]
    assert decimals_of(np.array(values, np.float64)).tolist() == [NOT_FINITE.get(each, each) for each in written]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_other_floats_are_written_with_eight_digits(dtype: type[np.floating]) -> None:
    """Also next to powers of ten, and where what has more digits is half between two of eight."""
    rng = np.random.default_rng(0)
    powers = (10.0 ** rng.integers(-5, 5, 500)).astype(dtype)
    next_to = np.nextafter(powers, rng.choice([-9, 9], 500).astype(dtype))
    halves = (rng.integers(-(2**10), 2**10, 500) / 2.0 ** rng.integers(0, 24, 500)).astype(dtype)
    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
    for x in (powers, next_to, halves, odd, rng.standard_normal(500).astype(dtype)):
        expected = [f"{value:.8g}" for value in x.astype(np.float32).tolist()]
        assert decimals_of(x).tolist() == [NOT_FINITE.get(each, each) for each in expected]


@pytest.mark.parametrize("is_exact", [False, True])
@pytest.mark.parametrize("case", ["NONE", "LOWER", "UPPER"])
def test_texts_that_repeat_are_normalized_as_each_alone(case: str, is_exact: bool) -> None:
    words, stops = ["Ab", "", "\u00df\u0130 x", "AB", "Ab", "\u03a3a"], np.array(["ab", "\u03c3A"], object)
    alone = [
        kept
        for word in words
        for kept in call(
            "string_normalize", np.array([word, "k"], object), stops, case=case, is_case_sensitive=is_exact
        )[0].tolist()[:-1]
    ]
    (y,) = call("string_normalize", repeated(words), stops, case=case, is_case_sensitive=is_exact)
    assert y.tolist() == alone * 100
    assert len(alone) == (6 if is_exact else 2)
