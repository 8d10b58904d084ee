"""Derivatives of Fourier transforms."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F64
from onnxc.compiler.ir.module import Value
from tests.ir.finite_differences import Make, N, assert_gradients

RANDOM = np.random.default_rng(14)


def transform(length: Dim, inverse: bool, onesided: bool) -> Make:
    def make(build: Builder, x: Value) -> Value:
        size = build.cast(build.size(length), F64)
        angles = build.mul(build.iota((length, 1), 0, F64), build.div(2 * np.pi, size))
        roots = build.concatenate([build.unary("cos", angles), build.unary("sin", angles)], 1)
        return build.fourier(x, roots, inverse=inverse, onesided=onesided)

    return make


# A one-sided transform takes a real signal, its inverse half a spectrum.
@pytest.mark.parametrize(
    ("inverse", "onesided", "parts"),
    [(False, False, 1), (False, False, 2), (False, True, 1), (True, False, 1), (True, False, 2), (True, True, 2)],
)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 9])
def test_fourier(inverse: bool, onesided: bool, parts: int, length: int) -> None:
    make = transform(length, inverse, onesided)
    x = RANDOM.normal(0, 1, (2, 5, parts))
    assert_gradients(lambda b, x: b.square(make(b, x)), x, tolerance=1e-5)


def test_the_second_derivative_of_a_transform() -> None:
    assert_gradients(lambda b, x: b.square(transform(6, False, True)(b, x)), RANDOM.normal(0, 1, (5, 1)), order=2)


@pytest.mark.parametrize("size", [3, 4])
def test_a_transform_of_a_size_that_the_call_tells(size: int) -> None:
    make = transform(N, True, False)
    assert_gradients(make, RANDOM.normal(0, 1, (2, size, 2)), shapes=[(2, N, 2)])
