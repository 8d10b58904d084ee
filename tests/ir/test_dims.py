"""Symbolic sizes: canonical forms, and that they always stand for the number that plain arithmetic gives."""

import math
import time
import weakref
from collections.abc import Mapping
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onnxc.compiler.ir import dim_symbols
from onnxc.compiler.ir import dims as sizes
from onnxc.compiler.ir.dim_functions import bcast, maximum, minimum
from onnxc.compiler.ir.dim_symbols import evaluate, substitute, symbols_of
from onnxc.compiler.ir.dim_text import DimSyntaxError, parse_dim
from onnxc.compiler.ir.dims import (
    Dim,
    Size,
    SizeTooComplex,
    at_least,
    floordiv,
    lower_bound,
    mod,
    product,
    render,
    sum_of,
    upper_bound,
)
from tests.ir.programs import dims, symbol_names

A, B, C, N, M = (Size.symbol(name) for name in "ABCNM")
Q = Size.symbol("?q")

# Expressions as trees, which are built in sizes and computed in integers

Tree: TypeAlias = "int | str | tuple[str, Tree, Tree]"

FUNCTIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
    "bcast": bcast,
}
trees: st.SearchStrategy[Tree] = st.recursive(
    st.integers(-4, 12) | st.sampled_from(["N", "M", "?q"]),
    lambda inner: st.tuples(st.sampled_from(sorted(FUNCTIONS)), inner, inner),
    max_leaves=8,
)
numbers = st.fixed_dictionaries({"N": st.integers(0, 9), "M": st.integers(0, 9), "?q": st.integers(-9, 9)})


def size_of(tree: Tree) -> Dim:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return Size.symbol(tree)
    function, a, b = tree
    return FUNCTIONS[function](size_of(a), size_of(b))


def number_of(tree: Tree, values: Mapping[str, int]) -> int:
    """What Python's integers give; trees that divide by 0, or broadcast what cannot be, are passed over."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return values[tree]
    function, a, b = tree[0], number_of(tree[1], values), number_of(tree[2], values)
    if function in ("floordiv", "mod"):
        assume(b != 0)
        return a // b if function == "floordiv" else a % b
    if function == "bcast":
        assume(min(a, b) >= 0 and (a == b or 1 in (a, b)))
        return b if a == 1 else a
    return {"add": a + b, "sub": a - b, "mul": a * b, "min": min(a, b), "max": max(a, b)}[function]


@given(trees, numbers)
@settings(max_examples=600, deadline=None)
def test_a_size_is_the_number_that_arithmetic_gives(tree: Tree, values: dict[str, int]) -> None:
    assert evaluate(size_of(tree), values) == number_of(tree, values)


@given(trees, trees, numbers)
@settings(max_examples=300, deadline=None)
def test_substituting_a_size_is_substituting_its_number(tree: Tree, other: Tree, values: dict[str, int]) -> None:
    replaced = number_of(other, values)
    expected = number_of(tree, {**values, "?q": replaced})
    assert evaluate(substitute(size_of(tree), {"?q": size_of(other)}), values) == expected


@given(trees, numbers)
@settings(max_examples=300, deadline=None)
def test_substituting_numbers_gives_the_number(tree: Tree, values: dict[str, int]) -> None:
    expected = number_of(tree, values)
    assert substitute(size_of(tree), dict(values)) == expected


@given(trees, numbers)
@settings(max_examples=400, deadline=None)
def test_bounds_are_never_passed(tree: Tree, values: dict[str, int]) -> None:
    number = number_of(tree, values)
    for bounds in ({}, {name: (value - 1, value + 2) for name, value in values.items()}):
        low, high = lower_bound(size_of(tree), bounds), upper_bound(size_of(tree), bounds)
        assert low is None or low <= number
        assert high is None or number <= high


@given(trees, trees, numbers)
@settings(max_examples=250, deadline=None)
def test_what_is_at_least_another_is_so_for_all_numbers(a: Tree, b: Tree, values: dict[str, int]) -> None:
    if at_least(size_of(a), size_of(b)):
        assert number_of(a, values) >= number_of(b, values)


@given(trees, numbers)
@settings(max_examples=300, deadline=None)
def test_the_text_of_a_size_reads_back(tree: Tree, values: dict[str, int]) -> None:
    dim = size_of(tree)
    assert parse_dim(str(dim)) == dim


@given(dims())
@settings(max_examples=300, deadline=None)
def test_the_text_reads_back_whatever_the_names(dim: Dim) -> None:
    assert parse_dim(str(dim)) == dim


@given(trees, numbers)
@settings(max_examples=300, deadline=None)
def test_the_same_number_is_rendered_for_other_languages(tree: Tree, values: dict[str, int]) -> None:
    expected = number_of(tree, values)
    text = render(size_of(tree), lambda name: f"({values[name]})")
    assert parse_dim(text) == expected


ring = st.recursive(
    st.integers(-3, 3) | st.sampled_from(["N", "M"]),
    lambda inner: st.tuples(st.sampled_from(["add", "sub", "mul"]), inner, inner),
    max_leaves=6,
)


@given(ring, ring, ring)
@settings(max_examples=200, deadline=None)
def test_sums_and_products_obey_the_laws_of_rings(x: Tree, y: Tree, z: Tree) -> None:
    a, b, c = size_of(x), size_of(y), size_of(z)
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a * b == b * a
    assert (a * b) * c == a * (b * c) == product([a, b, c])
    assert a * (b + c) == a * b + a * c
    assert a - a == 0
    assert hash(a + b) == hash(b + a)


@given(trees, trees)
@settings(max_examples=200, deadline=None)
def test_the_order_of_operands_does_not_show(x: Tree, y: Tree) -> None:
    a, b = size_of(x), size_of(y)
    for function in (minimum, maximum):
        assert function(a, b) == function(b, a)
    if not isinstance(a, int) and not isinstance(b, int):
        assert bcast(a, b) == bcast(b, a)


@given(trees, trees, trees)
@settings(max_examples=250, deadline=None)
def test_the_grouping_of_operands_does_not_show(x: Tree, y: Tree, z: Tree) -> None:
    a, b, c = size_of(x), size_of(y), size_of(z)
    for function in (minimum, maximum):
        assert function(a, function(b, c)) == function(function(a, b), c) == function(a, b, c)
    if not any(isinstance(dim, int) for dim in (a, b, c)):
        assert bcast(a, bcast(b, c)) == bcast(bcast(a, b), c) == bcast(a, b, c)


# Canonical forms


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (N + N, "2*N"),
        (N - N, "0"),
        (1 + N * 1 + 0, "N + 1"),
        (1 - N, "-N + 1"),
        (-N, "-N"),
        ((N + 1) * (N - 1), "N*N - 1"),
        (M * N - N * M + 3, "3"),
        (2 * (N + M) - M, "M + 2*N"),
        (floordiv(4 * N, 4), "N"),
        (floordiv(4 * N + 3, 4), "N"),
        (floordiv(4 * N - 1, 4), "N - 1"),
        (floordiv(3 * N, 6), "floordiv(3*N, 6)"),
        (floordiv(N + 7, 3), "floordiv(N + 1, 3) + 2"),
        (floordiv(N * M, M), "N"),
        (floordiv(N * N - 1, N + 1), "N - 1"),
        (floordiv(N, 1), "N"),
        (floordiv(floordiv(N + 1, 2) + 1, 2), "floordiv(N + 3, 4)"),
        (floordiv(floordiv(N, 2) + M, 3), "floordiv(2*M + N, 6)"),
        (floordiv(2 * floordiv(N, 2) + 1, 4), "floordiv(2*floordiv(N, 2) + 1, 4)"),
        (floordiv(floordiv(N, 1 << 19), 4), "floordiv(floordiv(N, 524288), 4)"),
        (floordiv(minimum(N, 3), 4), "0"),
        (floordiv(mod(Q, 4), 4), "0"),
        (floordiv(-N, 4), "-floordiv(N + 3, 4)"),
        (-floordiv(-floordiv(N + 1, 2), 2), "floordiv(N + 3, 4)"),
        (floordiv(1 - 2 * N, 4), "-floordiv(2*N + 2, 4)"),
        (floordiv(M - N, 4), "floordiv(M - N, 4)"),
        (floordiv(N, 0), "0"),
        (floordiv(0, N), "0"),
        (floordiv(N, M), "floordiv(N, M)"),
        (N // 2, "floordiv(N, 2)"),
        (7 // N, "floordiv(7, N)"),
        (mod(4 * N + 1, 4), "1"),
        (mod(5 * N + 1, 4), "mod(N + 1, 4)"),
        (mod(-N, 4), "mod(3*N, 4)"),
        (mod(N * M, M), "0"),
        (mod(N, 0), "N"),
        (mod(N, 1), "0"),
        (N % M, "mod(N, M)"),
        (7 % N, "mod(7, N)"),
        (minimum(N, N + 1), "N"),
        (maximum(2 * floordiv(N + 3, 4) - floordiv(N + 1, 2), 0), "-floordiv(N + 1, 2) + 2*floordiv(N + 3, 4)"),
        (minimum(N, -1), "-1"),
        (minimum(3, 5), "3"),
        (minimum(N, 3, minimum(M, 5)), "min(3, M, N)"),
        (maximum(N, 0), "N"),
        (maximum(Q, 0), "max(0, ?q)"),
        (maximum(N, M, N), "max(M, N)"),
        (maximum(N, 1), "max(0, N - 1) + 1"),
        (maximum(N - 1, 0) + 1, "max(0, N - 1) + 1"),
        (maximum(maximum(N, 2), M), "max(0, M - 2, N - 2) + 2"),
        (bcast(N, 1), "N"),
        (bcast(1, 1), "1"),
        (bcast(N, N), "N"),
        (bcast(N, 3), "3"),
        (bcast(0, N), "0"),
        (bcast(minimum(N, 512), N), "N"),
        (bcast(minimum(N, 512), M), "bcast(M, min(512, N))"),
        (bcast(maximum(N, 1), N), "N"),
        (bcast(maximum(N, 2), N), "bcast(N, max(0, N - 2) + 2)"),
        (bcast(minimum(Q, 0), Q), "bcast(?q, min(0, ?q))"),
        (bcast(minimum(N, M), N), "bcast(N, min(M, N))"),
        (bcast(N, bcast(M, A)), "bcast(A, M, N)"),
        (product([]), "1"),
        (product([N, 2, M, 3]), "6*M*N"),
        (product([N, 0]), "0"),
    ],
)
def test_canonical_forms(dim: Dim, text: str) -> None:
    assert str(dim) == text


def test_a_plain_number_is_an_int_again() -> None:
    assert type(N - N + 4) is int
    assert type(substitute(N * 2, {"N": 3})) is int
    assert type(parse_dim("N - N")) is int


@pytest.mark.parametrize("a", [-7, -1, 0, 1, 7])
@pytest.mark.parametrize("b", [-3, -1, 1, 3])
def test_division_floors_and_the_remainder_has_the_sign_of_the_divisor(a: int, b: int) -> None:
    assert floordiv(a, b) == a // b
    assert mod(a, b) == a % b
    for function in (floordiv, mod):
        dim = function(Q + a, b)
        assert evaluate(dim, {"?q": 0}) == function(a, b)
        assert evaluate(dim, {"?q": 5}) == function(a + 5, b)


def test_division_by_zero_is_zero_unless_the_divisor_cancels() -> None:
    assert evaluate(floordiv(N, M), {"N": 5, "M": 0}) == 0
    assert evaluate(mod(N, M), {"N": 5, "M": 0}) == 5
    assert evaluate(floordiv(N * M, M), {"N": 5, "M": 0}) == 5


def test_division_and_remainder_belong_together() -> None:
    for a in range(-9, 10):
        for b in (-4, -1, 0, 1, 4):
            assert b * floordiv(a, b) + mod(a, b) == a


def test_equal_sizes_are_one_object() -> None:
    size = 2 * N + 3 * M + floordiv(N, 2)
    assert floordiv(N, 2) + M * 3 + N + N is size
    assert (size * 1, 1 * size, size + 0, 0 + size, size - 0) == (size,) * 5
    assert (size * 0, size * -1 + size) == (0, 0)


def test_a_size_ends_with_its_last_use() -> None:
    size = Size.symbol("only_here") * 3
    alive = weakref.ref(size)
    assert Size.symbol("only_here") * 3 is size
    del size
    assert alive() is None


def test_sizes_are_compared_by_value() -> None:
    assert Size.symbol("N") + Size.symbol("N") == N * 2
    assert len({N + 1, 1 + N, N}) == 2
    assert N != "N"
    assert N != 1


# Bounds


@pytest.mark.parametrize(
    ("dim", "low", "high"),
    [
        (7, 7, 7),
        (N, 0, None),
        (-N + 3, None, 3),
        (Q, None, None),
        (N * M + 2, 2, None),
        (N - M, None, None),
        (Q * N, None, None),
        (minimum(N, 8), 0, 8),
        (maximum(Q, 2), 2, None),
        (mod(Q, 5), 0, 4),
        (mod(N, M), 0, None),
        (floordiv(N + 5, 2), 2, None),
        (floordiv(minimum(N, 9), 2), 0, 4),
        (floordiv(minimum(N, 9), M), 0, 9),
        (bcast(minimum(N, 8), minimum(M, 4)), 0, 8),
        (N - 4 * floordiv(N, 4), 0, 3),
        (floordiv(N, 2) - 2 * floordiv(N, 4), 0, 1),
        (floordiv(N + 1, 2) - 2 * floordiv(N + 3, 4), -1, 0),
        (4 * floordiv(N, 4) - N, -3, 0),
        (4 * floordiv(N + 3, 4) - N, 0, 3),
        (2 * floordiv(N + 7, 8) - floordiv(N + 3, 4), 0, 1),
        (6 * floordiv(N + 2, 3) - 2 * N + M, 0, None),
        (floordiv(N + 3, 4) - floordiv(N + 1, 4), 0, 1),
        (floordiv(N + 1, 2) - floordiv(N + 1, 4) - floordiv(N + 3, 4), -1, 1),
        (N - 4 * floordiv(N, 4) + 3 * floordiv(M, 4), 0, None),
        (N + 3 * floordiv(N, 4), 0, None),
        ((1 << 254) * N - (1 << 255) * floordiv(N + 3 * M, 2), None, None),
        (M + 2 * N - 6 * floordiv(N, 3) + 1, 1, None),
    ],
)
def test_bounds(dim: Dim, low: int | None, high: int | None) -> None:
    assert (lower_bound(dim), upper_bound(dim)) == (low, high)


def test_bounds_hold_for_sums_of_quotients() -> None:
    random = Random(0)

    def quotient(of: Dim) -> Dim:
        return floordiv(of * random.choice([-1, 1, 2]) + random.randint(-3, 8), random.choice([2, 3, 4, 8]))

    for _ in range(300):
        inner = quotient(random.choice([N, M, N + M]))
        dim = sum_of(random.randint(-4, 4) * part for part in (inner, quotient(inner), quotient(N), N, M))
        for bounds in ({}, {"N": (3, 30)}, {"N": (0, 25), "M": (1, 25)}):
            low, high = lower_bound(dim, bounds), upper_bound(dim, bounds)
            for _ in range(20):
                sizes = {name: random.randint(*bounds.get(name, (0, 99))) for name in "NM"}
                assert low is None or low <= evaluate(dim, sizes), (dim, sizes, low)
                assert high is None or evaluate(dim, sizes) <= high, (dim, sizes, high)


def test_bounds_of_symbols_narrow_those_of_sizes() -> None:
    bounds = {"N": (2, 5), "M": (1, None)}
    assert (lower_bound(3 * N - 1, bounds), upper_bound(3 * N - 1, bounds)) == (5, 14)
    assert (lower_bound(N * M, bounds), upper_bound(N * M, bounds)) == (2, None)
    assert at_least(N, 2, bounds)
    assert not at_least(N, 2)


def test_bounds_of_deeply_nested_sizes_are_found_at_once() -> None:
    dim: Dim = N
    for _ in range(60):
        dim = floordiv(dim + 3, 2) + mod(dim, 2) * 0
    start = time.perf_counter()
    assert lower_bound(dim) is not None
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("bounds", [{}, {"elsewhere": (1, 2)}])
def test_bounds_of_functions_are_worked_out_once(
    bounds: Mapping[str, tuple[int, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    work_out = sizes._applied_range

    def count(atom: sizes.Apply, bounds: sizes.Bounds) -> sizes.Range:
        nonlocal asked
        asked += 1
        return work_out(atom, bounds)

    parts = [minimum(300, Size.symbol(f"once{k}")) for k in range(90)]
    monkeypatch.setattr(sizes, "_applied_range", count)
    assert [upper_bound(sum_of(parts[:most]), bounds) for most in range(91)] == [300 * most for most in range(91)]
    assert asked <= 90


LEVELS = 12


def doubled() -> Dim:
    """A size in which each level stands twice in the next one."""
    dim: Dim = N
    for _ in range(LEVELS):
        dim = mod(2 * dim + 7, dim + 1)
    return dim


def test_the_bounds_of_what_stands_often_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[sizes.Apply] = []
    work_out = sizes._applied_range

    def count(atom: sizes.Apply, *others: object) -> sizes.Range:
        asked.append(atom)
        return work_out(atom, *others)

    monkeypatch.setattr(sizes, "_applied_range", count)
    dim = doubled()
    asked.clear()
    assert lower_bound(dim, {"N": (3, 5)}) == 0
    assert len(asked) == LEVELS


def test_the_number_of_what_stands_often_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    dim, number = doubled(), 3000
    for _ in range(LEVELS):
        number = (2 * number + 7) % (number + 1)

    def count(a: int, b: int) -> int:
        asked.append(a)
        return a % b

    monkeypatch.setitem(dim_symbols.FUNCTIONS, "mod", count)
    assert evaluate(dim, {"N": 3000}) == number
    assert len(asked) == LEVELS


def test_what_stands_often_is_written_once() -> None:
    asked: list[str] = []

    def count(name: str) -> str:
        asked.append(name)
        return "n"

    assert render(doubled(), count) == str(doubled()).replace("N", "n")
    assert len(asked) == 2


# Symbols and text


def test_each_size_is_substituted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    replace = dim_symbols._replaced

    def count(*arguments: object) -> Dim:
        nonlocal asked
        asked += 1
        return replace(*arguments)

    monkeypatch.setattr(dim_symbols, "_replaced", count)
    dim: Dim = N
    for divisor in range(2, 10):
        dim = mod(dim, divisor) * floordiv(dim, divisor)
    known: dict[Size, Dim] = {}
    assert str(substitute(dim, {"N": M}, known)) == str(dim).replace("N", "M")
    assert asked == 9
    substitute(dim, {"N": M}, known)
    assert asked == 9


def test_symbols_are_found_at_any_depth() -> None:
    assert symbols_of(floordiv(minimum(N, M * A), B + 1) * C) == {"N", "M", "A", "B", "C"}
    assert symbols_of(4) == frozenset()


def test_a_symbol_without_a_number_is_named() -> None:
    with pytest.raises(KeyError, match="M"):
        evaluate(N + M, {"N": 1})


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("s0 + 1", Size.symbol("s0") + 1),
        ("Min(512, s50)", minimum(512, Size.symbol("s50"))),
        ("Max(1,N)", maximum(1, N)),
        ("((N*M)//A)", floordiv(N * M, A)),
        ("N//2", floordiv(N, 2)),
        ("-N", -N),
        ("- - N", N),
        ("N % 4 * 2", mod(N, 4) * 2),
        ("N - M - 1", N - M - 1),
        ("`a//b` * 2", Size.symbol("a//b") * 2),
        ("``", Size.symbol("")),
        ("`a``b`", Size.symbol("a`b")),
        ("batch.size/2:x", Size.symbol("batch.size/2:x")),
        ("min", Size.symbol("min")),
        ("007", 7),
        ("\u0663", 3),
    ],
)
def test_texts_are_read(text: str, dim: Dim) -> None:
    assert parse_dim(text) == dim


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "N +",
        "N M",
        "(N",
        "N)",
        "2N",
        "min(",
        "min()",
        "floordiv(N)",
        "mod(1, 2, 3)",
        "N ** 2",
        "N / 2 +",
        "`a",
        "N & M",
        "import os;",
        "(" * 3000,
        "-" * 3000 + "1",
        "9" * 3000,
        "*".join(["(A+B+C+N+M+E+F+G+H)"] * 12),
    ],
)
def test_what_is_no_size_is_an_error(text: str) -> None:
    with pytest.raises(DimSyntaxError):
        parse_dim(text)


@given(st.text(max_size=20) | st.text("N2+-*/%(),`min ", max_size=20))
@settings(max_examples=250, deadline=None)
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        dim = parse_dim(text)
    except DimSyntaxError:
        return
    assert parse_dim(str(dim)) == dim


@given(symbol_names | st.text(max_size=8))
def test_a_symbol_of_any_name_reads_back(name: str) -> None:
    dim = Size.symbol(name)
    assert parse_dim(str(dim)) == dim
    assert symbols_of(parse_dim(f"2*{dim} + 1")) == {name}


def test_a_product_of_sizes_of_shapes_is_exact() -> None:
    assert product([2**40, 2**40]) == 2**80
    assert evaluate(product([N] * 20), {"N": 7}) == math.prod([7] * 20)


def test_a_product_of_very_many_terms_is_refused_before_it_is_made() -> None:
    sums = [Size.symbol(f"a{k}") + Size.symbol(f"b{k}") for k in range(16)]
    with pytest.raises(SizeTooComplex, match="at most 20000"):
        product(sums)


def test_sizes_whose_difference_is_too_long_are_not_known_to_be_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "LARGEST_SIZE", 20)
    large, small = (sizes.sum_of([Size.symbol(f"{letter}{k}") for k in range(12)]) for letter in "ab")
    with pytest.raises(SizeTooComplex):
        large - small
    assert not at_least(large, small)
    assert not at_least(small, large)
    assert at_least(large + 3, large)


def test_a_size_is_at_least_the_least_of_it_and_others() -> None:
    assert at_least(N, minimum(3, N))
    assert at_least(N * M, minimum(N * M, N, 7))
    assert not at_least(N, minimum(3, M))
    assert not at_least(minimum(3, N), N)


def test_a_size_that_is_filled_up_to_a_number_is_at_least_that() -> None:
    filled = N + maximum(0, 100 - N)
    assert at_least(filled, 100)
    assert at_least(filled, N)
    assert minimum(100, filled) == 100
    assert not at_least(filled, 101)
    assert not at_least(M + maximum(0, 100 - N), 100)
    assert not at_least(2 * N + maximum(0, 100 - 3 * N), 100)
    # Of long sums it is not looked for.
    assert not at_least(filled + sizes.sum_of(Size.symbol(f"x{k}") for k in range(9)), 100)
    assert {evaluate(filled, {"N": n}) for n in (0, 1, 99, 100)} == {100}
    assert evaluate(filled, {"N": 103}) == 103


def test_a_multiple_that_no_float_could_hold_is_refused() -> None:
    largest = N * (2**256 - 1)
    assert evaluate(largest, {"N": 0}) == 0
    for grow in (lambda: largest + N, lambda: largest * 2, lambda: -largest - N, lambda: N * 2**200 * N * 2**56):
        with pytest.raises(SizeTooComplex, match="a factor of 257 bits; at most 256 are supported"):
            grow()
