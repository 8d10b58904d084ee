"""The kernel of Fourier transforms: every factor of a length, lines cut and filled up, views, many lines."""

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.schedules.transforms import MOST_UNITS
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, Native, make

RANDOM = np.random.default_rng(0)
# A 2 without a partner, pairs of them, each odd factor, a large prime; 1 has no factor.
LENGTHS = (1, 2, 3, 4, 6, 7, 8, 10, 25, 32, 60, 97, 154)


def roots(length: int, dtype: type[np.generic]) -> np.ndarray:
    angles = 2 * np.pi * np.arange(length) / length
    return np.stack([np.cos(angles), np.sin(angles)], 1).astype(dtype)


def transform(types: list[str], target: Target, *, inverse: bool = False, onesided: bool = False) -> Native:
    def build(ir: Builder, x: Value, roots: Value) -> Value:
        return ir.fourier(x, roots, inverse=inverse, onesided=onesided)

    native = Native(make(types, build), target)
    assert native.kernels() == ["fourier"]
    return native


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
@pytest.mark.parametrize(
    ("inverse", "onesided", "parts", "dtype"),
    [(False, False, 2, "f64"), (False, True, 1, "f64"), (True, False, 1, "f32"), (True, True, 2, "f32")],
)
def test_every_length(inverse: bool, onesided: bool, parts: int, dtype: str, target: Target) -> None:
    types = [f"f32[B, M, {parts}]", f"{dtype}[L, 2]"]
    native = transform(types, target, inverse=inverse, onesided=onesided)
    for length in LENGTHS:
        for lines, given in ((1, length), (19, length), (2, length + 3), (0, length), (2, length // 2)):
            x = RANDOM.standard_normal((lines, given, parts)).astype(np.float32)
            native.check(x, roots(length, np.float64 if dtype == "f64" else np.float32), bound=2e-6)


def test_an_inverse_of_f32_has_the_bits_of_numpy() -> None:
    native = transform(["f32[B, M, 2]", "f32[L, 2]"], EVERY_TARGET[0], inverse=True)
    for length in (2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 20, 36, 100, 210):
        x = RANDOM.standard_normal((5, length, 2)).astype(np.float32)
        native.check(x, roots(length, np.float32))


def test_more_lines_than_units_have_memory_for() -> None:
    native = transform(["f64[B, 3, 2]", "f64[3, 2]"], EVERY_TARGET[0])
    native.check(RANDOM.standard_normal((MOST_UNITS * 16 + 5, 3, 2)), roots(3, np.float64), bound=1e-15)


def test_no_lines_need_no_memory() -> None:
    native = transform(["f32[0, 6, 1]", "f64[6, 2]"], EVERY_TARGET[0])
    native.check(np.zeros((0, 6, 1), np.float32), roots(6, np.float64))


def test_infinities_are_not_turned_where_nothing_turns() -> None:
    native = transform(["f32[1, 6, 1]", "f64[6, 2]"], EVERY_TARGET[0])
    x = np.zeros((1, 6, 1), np.float32)
    x[0, 2] = np.inf
    (y,) = native(x, roots(6, np.float64))
    assert y[0, 0, 0] == np.inf


@pytest.mark.parametrize("target", EVERY_TARGET, ids=str)
def test_signals_are_read_where_they_lie(target: Target) -> None:
    def build(ir: Builder, x: Value, roots: Value) -> Value:
        return ir.fourier(ir.transpose(ir.slice_axis(x, 2, 1, 2), (1, 0, 2)), roots)

    native = Native(make(["f32[M, B, 4]", "f64[9, 2]"], build), target)
    assert native.kernels() == ["fourier"]
    native.check(RANDOM.standard_normal((9, 11, 4)).astype(np.float32), roots(9, np.float64), bound=2e-6)
