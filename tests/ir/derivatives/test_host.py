"""Derivatives of functions of the host."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.differentiation.derivative import NotDifferentiable
from onnxc.compiler.ir.differentiation.differentiate import gradients
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F64, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from tests.ir.finite_differences import Make, N, assert_gradients

RANDOM = np.random.default_rng(14)


def transform(length: Dim, axis: int, inverse: bool, onesided: bool) -> Make:
    def make(build: Builder, x: Value) -> Value:
        shape = list(x.shape)
        shape[axis] = length // 2 + 1 if onesided and not inverse else length
        shape[-1] = 1 if onesided and inverse else 2
        operands = (x, build.size(length), build.scalar(axis, I64))
        attributes = {"inverse": inverse, "onesided": onesided}
        return build.host("fourier_transform", operands, [TensorType(F64, tuple(shape))], attributes)[0]

    return make


# A one-sided transform takes a real signal.
@pytest.mark.parametrize(
    ("inverse", "onesided", "parts"),
    [
        (False, False, 1),
        (False, False, 2),
        (False, True, 1),
        (True, False, 1),
        (True, False, 2),
        (True, True, 1),
        (True, True, 2),
    ],
)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 9])
@pytest.mark.parametrize("axis", [0, 1])
def test_fourier_transform(inverse: bool, onesided: bool, parts: int, length: int, axis: int) -> None:
    make = transform(length, axis, inverse, onesided)
    x = RANDOM.normal(0, 1, (5, 4, parts))
    assert_gradients(lambda b, x: b.square(make(b, x)), x, tolerance=1e-5)


def test_the_second_derivative_of_a_transform() -> None:
    assert_gradients(lambda b, x: b.square(transform(6, 0, False, True)(b, x)), RANDOM.normal(0, 1, (5, 1)), order=2)


@pytest.mark.parametrize("size", [3, 4])
def test_a_transform_of_a_size_that_the_call_tells(size: int) -> None:
    make = transform(N, 1, True, False)
    assert_gradients(make, RANDOM.normal(0, 1, (2, size, 2)), shapes=[(2, N, 2)])


@pytest.mark.parametrize("onesided", [False, True])
@pytest.mark.parametrize(("samples", "step", "length"), [(7, 2, 3), (6, 1, 4), (5, 3, 2), (4, 1, 4), (9, 4, 1)])
def test_short_time_fourier_transform(onesided: bool, samples: int, step: int, length: int) -> None:
    def make(build: Builder, x: Value, window: Value) -> Value:
        bins = length // 2 + 1 if onesided else length
        type = TensorType(F64, (2, (samples - length) // step + 1, bins, 2))
        operands = (x, build.size(step), window)
        return build.square(build.host("short_time_fourier_transform", operands, [type], {"onesided": onesided})[0])

    for parts in (1,) if onesided else (1, 2):
        assert_gradients(make, RANDOM.normal(0, 1, (2, samples, parts)), RANDOM.normal(0, 1, length), tolerance=1e-5)


def test_an_axis_that_only_data_tells_is_unsupported() -> None:
    build = Builder()
    x, axis = build.parameter("x", TensorType(F64, (4, 2))), build.parameter("axis", TensorType(I64, ()))
    flags = {"inverse": False, "onesided": False}
    (y,) = build.host("fourier_transform", (x, build.size(4), axis), [x.type], flags)
    with pytest.raises(NotDifferentiable, match="along an axis that only data tells"):
        gradients(y, [x], build)
