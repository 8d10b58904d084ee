"""Derivatives of folds and of running folds."""

import numpy as np
import pytest

from tests.ir.finite_differences import M, N, assert_gradients, gradients_at

RANDOM = np.random.default_rng(6)
KINDS = ("sum", "prod", "min", "max")


def values(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3,), (0,)),
        ((2, 3), (0,)),
        ((2, 3, 2), (0, 2)),
        ((2, 0), (1,)),
        ((0, 2), (1,)),
        ((1, 2), (0,)),
        ((2, 2), (0, 1)),
    ],
)
def test_folds(kind: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    assert_gradients(
        lambda b, x: b.exp(b.reduce(x, kind, axes)) if 0 not in shape else b.reduce(x, kind, axes), values(*shape)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_folds_over_sizes_of_the_call(kind: str) -> None:
    assert_gradients(lambda b, x: b.reduce(x, kind, (0, 2)), values(2, 2, 3), shapes=[(N, 2, M)])


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives_of_folds(kind: str) -> None:
    assert_gradients(lambda b, x: b.square(b.reduce(x, kind, (1,))), values(2, 3), order=2)


@pytest.mark.parametrize("row", [[0.0, 2, 3], [0, 0, 3], [0, 0, 0], [5, 0, -2]])
def test_a_product_with_zeros_is_exact(row: list[float]) -> None:
    x = np.array(row)
    (g,) = assert_gradients(lambda b, x: b.reduce(x, "prod", (0,)), x)
    assert np.isfinite(g).all()
    assert_gradients(lambda b, x: b.reduce(x, "prod", (0,)), x, order=2)


@pytest.mark.parametrize("kind", ["min", "max"])
def test_equal_extrema_share(kind: str) -> None:
    (g,) = gradients_at(lambda b, x: b.reduce(x, kind, (1,)), np.array([[2.0, 2, 2, 2], [1, 0, 1, 0]]))
    np.testing.assert_array_equal(g, [[0.25] * 4, [0.5, 0, 0.5, 0] if kind == "max" else [0, 0.5, 0, 0.5]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((4,), 0), ((3, 2), 0), ((2, 3, 2), 1), ((1,), 0), ((0, 2), 0), ((2, 0), 0)]
)
def test_running_folds(kind: str, exclusive: bool, reverse: bool, shape: tuple[int, ...], axis: int) -> None:
    def make(b, x):  # type: ignore[no-untyped-def]
        folded = b.scan_axis(x, kind, axis, exclusive, reverse)
        # The identity of an exclusive minimum or maximum is infinite.
        return b.clamp(folded, -100, 100)

    assert_gradients(make, values(*shape))


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_running_product_with_zeros_is_exact(exclusive: bool) -> None:
    x = np.array([[2.0, 0, 3, 0], [0, 0, 1, 5]])
    assert_gradients(lambda b, x: b.scan_axis(x, "prod", 1, exclusive), x)
    assert_gradients(lambda b, x: b.scan_axis(x, "prod", 1, exclusive), x, order=2)


@pytest.mark.parametrize("kind", KINDS)
def test_running_folds_over_a_size_of_the_call(kind: str) -> None:
    assert_gradients(lambda b, x: b.scan_axis(x, kind, 0), values(3, 2), shapes=[(N, M)])
    assert_gradients(lambda b, x: b.scan_axis(x, kind, 0), values(0, 2), shapes=[(N, M)])


def test_the_first_of_equal_running_extrema_gets_all() -> None:
    (g,) = gradients_at(lambda b, x: b.scan_axis(x, "max", 0), np.array([1.0, 1, 0, 2, 2]))
    np.testing.assert_array_equal(g, [3, 0, 0, 2, 0])
