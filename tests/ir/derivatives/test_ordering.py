"""Derivatives of sort and top_k."""

import numpy as np
import pytest

from tests.ir.finite_differences import N, assert_gradients, gradients_at

RANDOM = np.random.default_rng(10)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((4,), 0), ((3, 2), 0), ((2, 3), 1), ((1,), 0), ((2, 0), 1)])
def test_sort(descending: bool, shape: tuple[int, ...], axis: int) -> None:
    assert_gradients(lambda b, x: b.exp(b.sort(x, axis, descending)[0]), RANDOM.normal(0, 1, shape))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("shape", "k"), [((4,), 2), ((2, 3), 1), ((2, 3), 3), ((2, 3), 0)])
def test_top_k(largest: bool, shape: tuple[int, ...], k: int) -> None:
    axis = len(shape) - 1
    assert_gradients(lambda b, x: b.exp(b.top_k(x, k, axis, largest)[0]), RANDOM.normal(0, 1, shape))


def test_sort_of_a_size_that_the_call_tells() -> None:
    assert_gradients(
        lambda b, x: b.mul(b.sort(x, 0)[0], b.iota((N,), 0, x.dtype)), RANDOM.normal(0, 1, 5), shapes=[(N,)]
    )


def test_of_equals_the_first_gets_what_comes_first() -> None:
    (g,) = gradients_at(lambda b, x: b.top_k(x, 1, 0)[0], np.array([1.0, 3, 3]))
    np.testing.assert_array_equal(g, [0, 1, 0])


def test_the_places_carry_nothing() -> None:
    (g,) = gradients_at(lambda b, x: b.cast(b.sort(x, 0)[1], x.dtype), np.array([1.0, 3, 2]))
    np.testing.assert_array_equal(g, [0, 0, 0])
