"""Derivatives of contractions."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F16, F32
from onnxc.compiler.ir.module import Value
from tests.ir.finite_differences import K, M, N, Shape, assert_gradients, gradients_at

RANDOM = np.random.default_rng(8)
SIZES = dict(zip("abmknc", (2, 3, 2, 3, 4, 1), strict=True))


def values(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape)


@pytest.mark.parametrize(
    "equation",
    [
        "mk,kn->mn",
        "km,nk->nm",
        "bmk,bkn->nbm",
        "k,k->",
        "a,b->ab",
        "ak,b->ab",
        "ak,bn->a",
        ",a->a",
        ",->",
        "ab,ab->ab",
        "ab,ba->b",
        "abk,k->b",
    ],
)
@pytest.mark.parametrize("order", [1, 2])
def test_dot(equation: str, order: int) -> None:
    left, right = equation.split("->", maxsplit=1)[0].split(",")
    a, b = (values(*(SIZES[letter] for letter in letters)) for letters in (left, right))
    assert_gradients(lambda build, x, y: build.square(build.dot(x, y, equation)), a, b, order=order, tolerance=1e-5)


@pytest.mark.parametrize("sizes", [(2, 3, 2), (0, 3, 2), (2, 0, 2), (1, 1, 1)])
def test_dot_of_sizes_that_the_call_tells(sizes: tuple[int, int, int]) -> None:
    n, k, m = sizes
    shapes: list[Shape] = [(N, K), (K, M)]
    assert_gradients(
        lambda build, x, y: build.exp(build.dot(x, y, "mk,kn->mn")), values(n, k), values(k, m), shapes=shapes
    )


def test_dot_into_another_type() -> None:
    def make(b: Builder, x: Value, y: Value) -> Value:
        return b.cast(b.dot(b.cast(x, F16), b.cast(y, F16), "mk,kn->mn", F32), x.dtype)

    gx, gy = gradients_at(make, np.array([[1.0, 2]]), np.array([[3.0], [4]]))
    np.testing.assert_array_equal(gx, [[3, 4]])
    np.testing.assert_array_equal(gy, [[1], [2]])


INNERMOST = "n01c,oi01->n01c"

CONVOLUTIONS = {
    "plain": ((2, 2, 5), (3, 2, 3), {}),
    "one tap": ((1, 1, 1), (1, 1, 1), {}),
    "padded": ((1, 2, 4), (2, 2, 3), {"low": (2,), "high": (1,)}),
    "padded far": ((1, 1, 3), (1, 1, 2), {"low": (4,), "high": (3,)}),
    "strides": ((1, 2, 7), (2, 2, 3), {"strides": (2,)}),
    "strides that leave over": ((1, 1, 8), (1, 1, 2), {"strides": (3,), "high": (1,)}),
    "strides beyond the kernel": ((1, 1, 9), (1, 1, 1), {"strides": (4,)}),
    "dilations": ((1, 1, 8), (2, 1, 3), {"dilations": (3,), "low": (1,)}),
    "input dilations": ((1, 2, 4), (2, 2, 3), {"input_dilations": (3,), "low": (1,), "high": (2,)}),
    "groups": ((2, 4, 4), (6, 2, 2), {"groups": 2}),
    "depthwise": ((1, 3, 5), (3, 1, 3), {"groups": 3, "low": (1,), "high": (1,)}),
    "everything": (
        (2, 4, 5, 4),
        (2, 2, 2, 3),
        {"groups": 2, "strides": (2, 3), "dilations": (2, 1), "input_dilations": (1, 2), "low": (1, 3), "high": (2, 0)},
    ),
    "channels innermost": ((2, 5, 4, 4), (6, 2, 2, 3), {"groups": 2, "dimensions": INNERMOST, "strides": (2, 1)}),
    "axes in any order": (
        (4, 5, 2, 4),
        (2, 6, 3, 2),
        {"groups": 2, "dimensions": "c0n1,0o1i->1nc0", "strides": (2, 1), "low": (1, 0)},
    ),
    "points": ((2, 3), (4, 3), {}),
    "no batch": ((0, 1, 4), (2, 1, 3), {}),
    "no places": ((1, 1, 2), (2, 1, 3), {}),
    "no places for strides": ((1, 1, 2), (2, 1, 3), {"strides": (2,)}),
    "no filters": ((1, 2, 4), (0, 2, 3), {}),
    "no channels": ((1, 0, 4), (2, 0, 3), {}),
}


def convolution(**changes: tuple[int, ...] | int | str):  # type: ignore[no-untyped-def]
    def make(build: Builder, x: Value, w: Value) -> Value:
        ones, zeros = (1,) * (x.rank - 2), (0,) * (x.rank - 2)
        given = {"strides": ones, "low": zeros, "high": zeros, "dilations": ones, "groups": 1, **changes}
        return build.convolution(x, w, **given)  # type: ignore[arg-type]

    return make


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    x, w, changes = CONVOLUTIONS[name]
    assert_gradients(convolution(**changes), values(*x), values(*w), tolerance=1e-5)


@pytest.mark.parametrize("name", ["strides", "groups", "everything"])
def test_second_derivatives_of_convolution(name: str) -> None:
    x, w, changes = CONVOLUTIONS[name]
    assert_gradients(
        lambda b, x, w: b.square(convolution(**changes)(b, x, w)), values(*x), values(*w), order=2, tolerance=1e-4
    )


@pytest.mark.parametrize(
    "changes",
    [{}, {"low": (1,), "high": (1,)}, {"strides": (2,), "low": (1,)}, {"dilations": (2,)}, {"input_dilations": (2,)}],
)
@pytest.mark.parametrize("size", [5, 6])
def test_convolution_of_sizes_that_the_call_tells(changes: dict[str, tuple[int, ...]], size: int) -> None:
    shapes: list[Shape] = [(N, 2, M), (3, 2, 3)]
    assert_gradients(convolution(**changes), values(2, 2, size), values(3, 2, 3), shapes=shapes, tolerance=1e-5)
