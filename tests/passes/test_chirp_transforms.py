"""Transforms of lengths with a large prime factor: which become convolutions, and that they keep their meaning."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Module, Value, walk
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.lower.chirp_transforms import chirp_cost, chirp_transforms, line_cost, padded_length
from tests.codegen_cpu.support import EVERY_TARGET, Native
from tests.passes.golden import M, N, Pair, assert_same_meaning, built, check_pair, f32, f64

PRIME = 509
FORMS = [(False, False, 2), (False, False, 1), (False, True, 1), (True, False, 2), (True, False, 1), (True, True, 2)]


def _roots(length: int, b: Builder, dtype: type[np.generic] = np.float64) -> Value:
    angles = 2 * np.pi * np.arange(length) / length
    return b.constant(np.stack([np.cos(angles), np.sin(angles)], 1).astype(dtype))


def _transform(x: TensorType, length: int, *, inverse: bool, onesided: bool) -> Module:
    # NumPy's transforms of f32 are less exact than the convolution, which is in f64.
    return built((x,), lambda b, x: b.fourier(x, _roots(length, b), inverse=inverse, onesided=onesided))


@pytest.mark.parametrize(("inverse", "onesided", "parts"), FORMS)
@pytest.mark.parametrize("length", [PRIME, 2 * PRIME])
@pytest.mark.parametrize("given", [PRIME, 2 * PRIME, PRIME // 2 + 1, 3, M])
def test_the_meaning_stays(given: Dim, length: int, inverse: bool, onesided: bool, parts: int) -> None:
    before = _transform(f64(N, given, parts), length, inverse=inverse, onesided=onesided)
    after = chirp_transforms(before)
    assert sum(op.name == "fourier" for op in walk(after.main.body)) == 2
    assert_same_meaning(before, after, (0, 1, 3), rounds=True, odd=False)


def test_bins_that_are_real_stay_so() -> None:
    module = chirp_transforms(_transform(f32(2, 2 * PRIME, 1), 2 * PRIME, inverse=False, onesided=True))
    signal = np.random.default_rng(0).standard_normal((2, 2 * PRIME, 1)).astype(np.float32)
    (y,) = Native(module, EVERY_TARGET[0])(signal, np.zeros((1, 1), np.bool_))
    assert y.shape == (2, PRIME + 1, 2)
    assert not y[:, [0, PRIME], 1].any()
    assert y[:, 1:PRIME, 1].all()


PAIRS = {
    "small factors": Pair((f32(N, 1024, 2),), lambda b, x: b.fourier(x, _roots(1024, b))),
    "a prime that costs less": Pair((f32(N, 97, 2),), lambda b, x: b.fourier(x, _roots(97, b))),
    "one element": Pair((f32(N, 1, 2),), lambda b, x: b.fourier(x, _roots(1, b))),
    "a length that only the call tells": Pair((f32(N, PRIME, 2), f64(M, 2)), lambda b, x, roots: b.fourier(x, roots)),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_others_stay(pair: str) -> None:
    check_pair(chirp_transforms, PAIRS[pair])


@pytest.mark.parametrize("length", [2, 97, 509, 1009, 4099])
def test_the_padded_length_holds_the_convolution_and_is_the_cheapest(length: int) -> None:
    padded = padded_length(length)
    assert padded >= 2 * length - 1
    assert chirp_cost(padded) <= chirp_cost(1 << (2 * length - 2).bit_length())


def test_a_line_costs_a_pass_for_each_factor() -> None:
    assert [line_cost(length) // length for length in (1, 2, 4, 8, 6, 7, 35, 25)] == [20, 28, 30, 38, 37, 33, 44, 42]
