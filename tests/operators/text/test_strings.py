"""Operators of texts, and numbers written as texts."""

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.frontend.operator_helpers.regular_expressions import UnknownSyntax, python_pattern
from onnxc.runtime.errors import InputError, UnsupportedError
from tests.operators.host_models import TARGETS, run_ml, run_text, texts
from tests.support.arrays import assert_same

RUN = {"version": 21, "domain": ""}


@pytest.mark.parametrize("target", TARGETS)
def test_concatenation_broadcasts(target: str) -> None:
    x, y = texts("a", "ä", "").reshape(3, 1), texts("x", "")
    expected = np.array([["ax", "a"], ["äx", "ä"], ["x", ""]], object)
    assert_same(*run_ml("StringConcat", {"x": x, "y": y}, symbolic=True, target=target, **RUN), expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("attributes", "words", "parts"),
    [
        ({}, [" a  b ", "c", ""], [["a", "b"], ["c", ""], ["", ""]]),
        ({"delimiter": ""}, ["a\tb"], [["a", "b"]]),
        ({"maxsplit": 0}, [" a  b ", " "], [["a  b"], [""]]),
        ({"maxsplit": 1}, [" a  b  c\t", "d "], [["a", "b  c"], ["d", ""]]),
        ({"delimiter": ","}, ["a,,b", "c"], [["a", "", "b"], ["c", "", ""]]),
        ({"delimiter": "--", "maxsplit": 1}, ["a--b--c", "d"], [["a", "b--c"], ["d", ""]]),
        ({"delimiter": ",", "maxsplit": 0}, ["a,b"], [["a,b"]]),
        ({}, [], np.empty((0, 0))),
    ],
)
def test_split(target: str, attributes: dict[str, object], words: list[str], parts: object) -> None:
    y, z = run_ml("StringSplit", {"x": texts(*words)}, outputs=2, target=target, **attributes, **RUN)
    assert_same(y, np.array(parts, object))
    counts = [len(word.split(attributes.get("delimiter") or None, attributes.get("maxsplit", -1))) for word in words]
    assert_same(z, np.array(counts, np.int64))


@pytest.mark.parametrize("shape", [(), (0, 2), (1, 2)])
def test_split_adds_an_axis_to_any_shape(shape: tuple[int, ...]) -> None:
    y, z = run_ml("StringSplit", {"x": np.full(shape, "a b", object)}, outputs=2, **RUN)
    assert isinstance(y, np.ndarray)
    assert (y.shape, z.shape) == ((*shape, 2 if 0 not in shape else 0), shape)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, ["Monday", "tuesday", "STRASSE ß"]),
        ({"case_change_action": "UPPER"}, ["MONDAY", "TUESDAY", "STRASSE ß"]),
        ({"case_change_action": "LOWER"}, ["monday", "tuesday", "strasse ß"]),
        ({"stopwords": ["monday"]}, ["tuesday", "STRASSE ß"]),
        ({"stopwords": ["monday"], "is_case_sensitive": 1}, ["Monday", "tuesday", "STRASSE ß"]),
        ({"stopwords": ["Monday", "tuesday", "strasse ß"]}, [""]),
    ],
)
def test_normalizer(rank: int, attributes: dict[str, object], expected: list[str]) -> None:
    words = texts("Monday", "tuesday", "STRASSE ß")
    wanted = texts(*expected)
    x, wanted = (words, wanted) if rank == 1 else (words[np.newaxis], wanted[np.newaxis])
    assert_same(*run_ml("StringNormalizer", {"x": x}, version=10, domain="", **attributes), wanted)


def test_normalizer_of_nothing_gives_one_empty_text() -> None:
    assert_same(*run_ml("StringNormalizer", {"x": texts()}, version=10, domain=""), texts(""))


# Regular expressions


@pytest.mark.parametrize(
    ("pattern", "word", "matches"),
    [
        (r"[\w.]+@\w+", "a.b@c", True),
        (r"[\w.]+@\w+", "a.b@c!", False),
        (r"[[:alpha:]]+\z", "abc", True),
        (r"\Qa.b\E+", "a.bb", True),
        (r"\Qa.b\E+", "axb", False),
        (r"a(?i)b|c", "AB", False),
        (r"a(?i)b|c", "C", True),
        (r"(?m)^a$\n^b$", "a\nb", True),
        (r"a$\n", "a\n", False),
        (r"\d", "٣", False),
        (r"\pL+", "äb", True),
        (r"\PL", "ä", False),
        (r"\p{Lu}\p{^Lu}[\PN]\P{^Nd}", "Äb!2", True),
        (r"\p{L}", "\U0010ffff", False),
        (r"\P{L}", "\U0010ffff", True),
        (r"[\W]", "!", True),
        (r"\x{1F600}", "😀", True),
        (r"(?P<n>a)(?<m>b)", "ab", True),
        (r"", "", True),
    ],
)
def test_regular_expressions_of_re2(pattern: str, word: str, matches: bool) -> None:
    assert_same(*run_ml("RegexFullMatch", {"x": texts(word)}, pattern=pattern, **RUN), np.array([matches]))


@pytest.mark.parametrize(
    "pattern", [r"(?=a)", r"(a)\1", "a)", "(a", "[a", r"\p{Xx}", r"\P{Xx}", r"\p{lu}", "*a", r"\y"]
)
def test_what_re2_does_not_take_is_refused(pattern: str) -> None:
    with pytest.raises(DiagnosedModelError, match="regular-expression"):
        run_ml("RegexFullMatch", {"x": texts("a")}, pattern=pattern, **RUN)


@pytest.mark.parametrize("pattern", ["(?U)a", r"\p{Greek}"])
def test_what_python_cannot_say_is_not_supported(pattern: str) -> None:
    with pytest.raises(UnsupportedError, match="pattern"):
        run_ml("RegexFullMatch", {"x": texts("a")}, pattern=pattern, **RUN)


def test_translation_is_shortest_where_the_syntax_is_the_same() -> None:
    assert python_pattern("a(b|[cd])*e{2,3}?") == "a(b|[cd])*e{2,3}?"
    with pytest.raises(UnknownSyntax, match="position 1"):
        python_pattern("a(?!b)")


# Numbers


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("words", "kind", "expected"),
    [
        (["1.5", "-1e3", " 3"], "float", np.array([1.5, -1000, 3], np.float32)),
        (["NaN", "+INF", "-inf"], "float", np.array([np.nan, np.inf, -np.inf], np.float32)),
        (["0.1"], "double", np.array([0.1])),
        (["15", "-2", "1e2"], "int8", np.array([15, -2, 100], np.int8)),
        (["18446744073709551615"], "uint64", np.array([2**64 - 1], np.uint64)),
        (["0", "2"], "bool", np.array([False, True])),
        (["-9223372036854775808", "9223372036854775807"], "int64", np.array([-(2**63), 2**63 - 1], np.int64)),
        ([], "int64", np.empty(0, np.int64)),
    ],
)
def test_numbers_are_read(target: str, words: list[str], kind: str, expected: np.ndarray) -> None:
    text = f"g (string[N] x, {kind}[1] like) => ({kind}[N] y) {{ y = CastLike(x, like) }}"
    assert_same(*run_text(text, {"x": texts(*words), "like": np.ones(1, expected.dtype)}, target), expected)


@pytest.mark.parametrize(("word", "kind"), [("-1", 13), ("9223372036854775808", 7), ("1e30", 7), ("inf", 7)])
def test_a_number_that_does_not_fit_is_an_error_of_the_call(word: str, kind: int) -> None:
    with pytest.raises(InputError, match="a text is no number of this type"):
        run_ml("Cast", {"x": texts("1", word)}, to=kind, **RUN)


def test_texts_without_axes_are_tensors() -> None:
    (joined,) = run_ml("StringConcat", {"x": texts("a").reshape(()), "y": texts("b").reshape(())}, **RUN)
    assert_same(joined, np.array("ab", object))
    assert_same(*run_ml("Cast", {"x": np.array(1.5, np.float32)}, to=8, **RUN), np.array("1.5", object))


def test_what_is_no_number_is_an_error_of_the_call() -> None:
    with pytest.raises(InputError, match="could not convert string to float: 'Hello'"):
        run_ml("Cast", {"x": texts("Hello")}, to=1, **RUN)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (np.array([0.1, 1, -0.0, 314.15926, 1e20, np.nan, np.inf, -np.inf], np.float32),
         ["0.1", "1", "-0", "314.15927", "1e+20", "NaN", "INF", "-INF"]),
        (np.array([1 / 3, 2], np.float64), ["0.3333333333333333", "2"]),
        (np.array([0.1], np.float16), ["0.099975586"]),
        (np.array([-128, 127], np.int8), ["-128", "127"]),
        (np.array([2**64 - 1], np.uint64), ["18446744073709551615"]),
        (np.array([True, False]), ["1", "0"]),
    ],
)  # fmt: skip
def test_numbers_are_written(target: str, numbers: np.ndarray, expected: list[str]) -> None:
    assert_same(*run_ml("Cast", {"x": numbers}, to=8, target=target, **RUN), texts(*expected))


# Movement


@pytest.mark.parametrize("target", TARGETS)
def test_texts_move_as_numbers_do(target: str) -> None:
    text = """g (string[N] x, bool[N] c) => (string[N, 2] y, int64[K] i, bool[N] e) {
        other = Constant<value = string {"z"}>()
        two = Constant<value = int64[1] {1}>()
        chosen = Where(c, x, other)
        a = Unsqueeze(x, two)
        b = Unsqueeze(chosen, two)
        y = Concat<axis = 1>(a, b)
        e = Equal(x, other)
        u, i = Unique(x)
    }"""
    y, i, e = run_text(text, {"x": texts("b", "a", "z", "b"), "c": np.array([True, False, True, False])}, target)
    assert_same(y, np.array([["b", "b"], ["a", "z"], ["z", "z"], ["b", "z"]], object))
    assert_same(i, np.array([1, 0, 2]))
    assert_same(e, np.array([False, False, True, False]))
