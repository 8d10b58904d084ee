"""Derivatives of indexed access."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from tests.ir.finite_differences import M, Make, N, assert_gradients, gradients_at

RANDOM = np.random.default_rng(9)
KINDS = ("set", "add", "mul", "min", "max")


def values(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape)


def indices(limit: int, *shape: int) -> np.ndarray:
    return RANDOM.integers(0, max(limit, 1), shape)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(), (5,), (2, 4), (0,)])
def test_gather_adds_what_repeats(axis: int, shape: tuple[int, ...]) -> None:
    at = indices(2, *shape)
    assert_gradients(lambda b, x: b.exp(b.gather(x, b.constant(at), axis)), values(2, 3, 2), order=1)


def test_gather_from_nothing_and_beyond_the_end() -> None:
    assert_gradients(lambda b, x: b.gather(x, b.constant(np.array([0])), 0), values(0, 2))
    (g,) = gradients_at(lambda b, x: b.gather(x, b.constant(np.array([7, -3, 1])), 0), values(3))
    np.testing.assert_array_equal(g, [1, 1, 1])


def test_gather_along_a_size_of_the_call() -> None:
    assert_gradients(lambda b, x: b.gather(x, b.constant(np.array([1, 1, 0])), 1), values(2, 2), shapes=[(M, N)])


@pytest.mark.parametrize(
    ("shape", "picked", "axis"),
    [((3, 4), (3, 2), 1), ((3, 4), (5, 2), 0), ((2, 3, 2), (1, 4, 2), 1), ((0, 2), (0, 3), 1)],
)
def test_gather_along(shape: tuple[int, ...], picked: tuple[int, ...], axis: int) -> None:
    at = indices(shape[axis], *picked)
    assert_gradients(lambda b, x: b.exp(b.gather_along(x, b.constant(at), axis)), values(*shape))


@pytest.mark.parametrize(
    ("shape", "at", "batch"),
    [
        ((3, 4), (5, 2), 0),
        ((3, 4), (5, 1), 0),
        ((2, 3, 4), (2, 5, 1), 1),
        ((2, 3, 4), (2, 3, 2, 1), 2),
        ((2, 3), (4, 0), 0),
        ((2, 3), (0, 2), 0),
    ],
)
def test_gather_nd(shape: tuple[int, ...], at: tuple[int, ...], batch: int) -> None:
    places = indices(2, *at)
    assert_gradients(lambda b, x: b.exp(b.gather_nd(x, b.constant(places), batch)), values(*shape))


def along(at: np.ndarray, axis: int, kind: str) -> Make:
    return lambda b, x, u: b.square(b.scatter_along(x, b.constant(at), u, axis, kind))


def by_coordinates(at: np.ndarray, kind: str) -> Make:
    return lambda b, x, u: b.square(b.scatter_nd(x, b.constant(at), u, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "updates", "axis"),
    [((3, 2), (5, 2), 0), ((2, 4), (2, 3), 1), ((2, 3), (1, 0), 1), ((0, 2), (0, 2), 1), ((4,), (6,), 0)],
)
@pytest.mark.parametrize("order", [1, 2])
def test_scatter_along(kind: str, shape: tuple[int, ...], updates: tuple[int, ...], axis: int, order: int) -> None:
    at = indices(shape[axis], *updates)
    assert_gradients(along(at, axis, kind), values(*shape), values(*updates), order=order, tolerance=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "at"), [((3, 2), (5, 1)), ((3, 2), (4, 2)), ((2, 2), (0, 1)), ((2, 3, 2), (2, 2, 2))]
)
@pytest.mark.parametrize("order", [1, 2])
def test_scatter_by_coordinates(kind: str, shape: tuple[int, ...], at: tuple[int, ...], order: int) -> None:
    updates = values(*at[:-1], *shape[at[-1] :])
    assert_gradients(by_coordinates(indices(2, *at), kind), values(*shape), updates, order=order, tolerance=1e-5)


def test_the_last_of_the_updates_that_are_set_has_all() -> None:
    def make(b: Builder, x: Value, u: Value) -> Value:
        return b.scatter_along(x, b.constant(np.array([1, 1, 0, 1])), u, 0, "set")

    gx, gu = gradients_at(make, np.zeros(3), np.array([5.0, 5, 5, 5]))
    np.testing.assert_array_equal(gx, [0, 0, 1])
    np.testing.assert_array_equal(gu, [0, 0, 1, 1])


@pytest.mark.parametrize("updates", [[0.0, 3, 2], [0, 0, 2], [4, 3, 0], [0, 0, 0]])
def test_products_with_zeros_are_exact(updates: list[float]) -> None:
    at = np.array([1, 1, 0])
    for data in (values(2), np.zeros(2)):
        for g in assert_gradients(
            lambda b, x, u: b.scatter_along(x, b.constant(at), u, 0, "mul"), data, np.array(updates)
        ):
            assert np.isfinite(g).all()


def test_equal_extrema_of_a_place_share() -> None:
    def make(b: Builder, x: Value, u: Value) -> Value:
        return b.scatter_along(x, b.constant(np.array([0, 0, 1])), u, 0, "max")

    gx, gu = gradients_at(make, np.array([2.0, 3, 4]), np.array([2.0, 2, 1]))
    np.testing.assert_array_equal(gx, [1 / 3, 1, 1])
    np.testing.assert_array_equal(gu, [1 / 3, 1 / 3, 0])
