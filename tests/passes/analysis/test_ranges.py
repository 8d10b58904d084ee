"""Ranges of values, and how integer tensors count."""

from collections.abc import Callable
from math import inf

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F16, F32, I8, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.analysis.counters import Counter, counter_of, counts_along, made_of_counters
from onnxc.compiler.passes.analysis.ranges import LONGEST_AXIS, Range, range_of
from tests.passes.golden import M, N, boolean, f32, i8, i64, u8

BOUNDS = {"N": (0, None), "M": (1, 64)}
I64_RANGE = Range(-(2**63), 2**63 - 1)

RANGES: dict[str, tuple[Callable[[Builder], Value], Range]] = {
    "constant": (lambda b: b.constant(np.array([1.5, -2], np.float32)), Range(-2, 1.5)),
    "constant_with_nan": (lambda b: b.constant(np.array([1, np.nan], np.float32)), Range()),
    "long_constant": (lambda b: b.constant(np.zeros(1 << 17, np.float32)), Range()),
    "empty_constant": (lambda b: b.constant(np.zeros(0, np.float32)), Range()),
    "size": (lambda b: b.size(M), Range(1, 64)),
    "size_without_end": (lambda b: b.size(N), Range(0, LONGEST_AXIS)),
    "sizes": (lambda b: b.sizes((M, 3 * M)), Range(1, 192)),
    "counter": (lambda b: b.iota((M,), 0, I64), Range(0, 63)),
    "counter_and_size": (lambda b: b.add(b.iota((M,), 0, I64), b.size(M)), Range(1, 127)),
    "product_of_sizes": (lambda b: b.mul(b.iota((N,), 0, I64), b.size(N)), Range(0, (LONGEST_AXIS - 1) * LONGEST_AXIS)),
    "product_that_may_wrap": (lambda b: b.mul(b.size(N), b.mul(b.size(N), 4)), I64_RANGE),
    "parameter": (lambda b: b.parameter("x", i64(3)), I64_RANGE),
    "unsigned": (lambda b: b.parameter("x", u8(3)), Range(0, 255)),
    "float": (lambda b: b.parameter("x", f32(3)), Range()),
    "bool": (lambda b: b.parameter("x", boolean(3)), Range(0, 1)),
    "bool_in_another_type": (lambda b: b.cast(b.parameter("x", boolean(3)), F32), Range(0, 1)),
    "wrapped": (lambda b: b.add(b.parameter("x", i8(3)), 1), Range(-128, 127)),
    "bounded": (lambda b: b.min(b.max(b.parameter("x", i64(3)), 2), 5), Range(2, 5)),
    "square": (lambda b: b.square(b.parameter("x", f32(3))), Range(0, None)),
    "root_of_mean_square": (lambda b: b.add(b.mean(b.square(b.parameter("x", f32(3))), [0]), 0.5), Range(0.5, None)),
    "negated": (lambda b: b.neg(b.constant(np.array([1, 2], np.float32))), Range(-2, -1)),
    "chosen": (lambda b: b.select(b.parameter("c", boolean(3)), b.full((3,), 1, F32), -inf), Range(-inf, 1)),
    "overflow": (lambda b: b.add(b.full((3,), -3e38, F32), b.full((3,), -3e38, F32)), Range(-inf, -inf)),
    "narrowed": (lambda b: b.cast(b.full((3,), 1e6, F32), F16), Range(inf, inf)),
    "truncated": (lambda b: b.cast(b.min(b.abs(b.parameter("x", f32(3))), 7.9), I8), Range(0, 7)),
    "maximum_over_maybe_nothing": (lambda b: b.reduce(b.full((N, 2), 3, F32), "max", [0]), Range()),
    "maximum": (lambda b: b.reduce(b.full((M, 2), 3, F32), "max", [0]), Range(3, 3)),
    "picked": (lambda b: b.gather(b.constant(np.array([4, 5], np.float32)), b.parameter("i", i64(3)), 0), Range(4, 5)),
    "padded": (lambda b: b.pad(b.full((3,), 1, F32), (1,), (1,), -2), Range(-2, 1)),
    "absolute": (lambda b: b.abs(b.sub(b.iota((M,), 0, I64), 10)), Range(0, 53)),
    "difference": (lambda b: b.sub(b.iota((M,), 0, I64), 10), Range(-10, 53)),
}


def reached(build: Builder, make: Callable[[Builder], Value]) -> Value:
    """What `make` makes, through a broadcast, so that nothing folds into a constant first."""
    value = make(build)
    return build.broadcast(value, range(1, value.rank + 1), (7, *value.shape))


@pytest.mark.parametrize("name", RANGES)
def test_range(name: str) -> None:
    make, expected = RANGES[name]
    found = range_of(reached(Builder(), make), BOUNDS)
    assert (found.low, found.high) == (expected.low, expected.high) or _close(found, expected)


def _close(found: Range, expected: Range) -> bool:
    pairs = ((found.low, expected.low), (found.high, expected.high))
    return all(a == b or (a is not None and b is not None and abs(a - b) < 1e-6) for a, b in pairs)


def test_long_chains_are_followed_a_few_steps_only() -> None:
    build = Builder()
    value = build.abs(build.parameter("x", f32(3)))
    for _ in range(100):
        value = build.neg(build.neg(value))
    assert range_of(value, {}) == Range()


def _flat(build: Builder) -> Value:
    down = build.mul(build.broadcast(build.iota((N,), 0, I64), (0,), (N, M)), build.size(M))
    return build.add(down, build.broadcast(build.iota((M,), 0, I64), (1,), (N, M)))


COUNTERS: dict[str, tuple[Callable[[Builder], Value], Counter | None]] = {
    "iota": (lambda b: b.iota((N,), 0, I64), Counter(0, {0: 1}, N)),
    "number": (lambda b: b.full((3, 4), 5, I64), Counter(5, {})),
    "size": (lambda b: b.broadcast(b.size(N), (), (M,)), Counter(N, {})),
    "shifted": (lambda b: b.add(b.iota((N,), 0, I64), b.size(M)), Counter(M, {0: 1})),
    "scaled": (lambda b: b.mul(b.add(b.iota((N,), 0, I64), 1), 3), Counter(3, {0: 3})),
    "flat": (_flat, Counter(0, {0: M, 1: 1})),
    "part": (lambda b: b.slice(b.iota((9,), 0, I64), (2,), (3,), (2,)), Counter(2, {0: 2}, 9)),
    "units": (lambda b: b.reshape(b.iota((N,), 0, I64), (1, N, 1)), Counter(0, {1: 1}, N)),
    "two_counters": (lambda b: b.mul(b.iota((N,), 0, I64), b.iota((N,), 0, I64)), None),
    "data": (lambda b: b.parameter("x", i64(3)), None),
    "float": (lambda b: b.iota((N,), 0, F32), None),
    "regrouped": (lambda b: b.reshape(b.iota((6,), 0, I64), (2, 3)), None),
    "undecided": (lambda b: b.broadcast(b.iota((N,), 0, I64), (0,), (M,)), None),
}


@pytest.mark.parametrize("name", COUNTERS)
def test_counter(name: str) -> None:
    make, expected = COUNTERS[name]
    assert counter_of(make(Builder())) == expected


@pytest.mark.parametrize(("size", "expected"), [(N, 1), (M, None), (3, None)])
def test_an_axis_is_counted_along_in_full(size: Dim, expected: int | None) -> None:
    build = Builder()
    assert counts_along(build.broadcast(build.iota((N,), 0, I64), (1,), (M, N)), size) == expected


def test_coordinates_are_joined_along_the_last_axis() -> None:
    build = Builder()
    parts = [build.parameter(name, i64(N, 1)) for name in "ab"]
    assert made_of_counters(build.concatenate(parts, 1)) == tuple(parts)
    assert made_of_counters(build.concatenate(parts, 0)) is None
    assert made_of_counters(parts[0]) is None
