"""Fourier transforms of lengths with a large prime factor, as convolutions with a chirp (Bluestein).

A pass of the kernel with a prime factor p computes p products for each element. As j k = (j² + k² - (k - j)²) / 2, the
transform of x is the convolution of x w with the chirp w̄, times w, where w[j] = exp(-πi j² / n). The convolution is a
product of two transforms of any length of 2n - 1 or more; one of small factors is taken, the chirp's is known. All is
computed in f64, which leaves results of f32 as exact as they were.
Source: L. Bluestein, A linear filtering approach to the computation of discrete Fourier transform, 1970.
"""

import numpy as np

from onnxc.compiler.ir.dim_functions import minimum
from onnxc.compiler.ir.dtypes import F64
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule

SMALL_FACTORS = (2, 3, 5)

PASS_COST, LINE_COST, CHIRP_COST = 6, 20, 60
"""What an element costs: p + 6 in a pass with factor p, 20 to be read and written, 60 for the products with the chirp
and its transform. The unit is 0.7 ns of one core with AVX-512. Measured with 8 lines: 97, 211, 509 and 1009 take 71,
143, 381 and 712 ns for each element, 625, 729, 1024 and 4096 take 50 to 56; by the chirp 509 takes 1024 times 138."""

LONGEST = 1 << 20
"""Of a length beyond it no constants are made: those of this one take 0.5 s and 300 MB to be made, and a model of 2 KB
may have fifteen of such lengths."""


def chirp_transforms(module: Module) -> Module:
    """Computes Fourier transforms of lengths with a large prime factor by those of lengths without."""
    return rewrite(module, [with_chirp])


@rule("fourier")
def with_chirp(op: Op, build: Rewriter) -> Outcome:
    """fourier(x)[k] = w[k] ifourier(fourier(x w) fourier(w̄))[k], w[j] = exp(-πi j² / n)"""
    x, roots = op.operands
    length, bins = roots.shape[0], op.result.shape[-2]
    if not isinstance(length, int) or not isinstance(bins, int):
        return None
    if not 2 <= length <= LONGEST:
        return None
    padded = padded_length(length)
    if chirp_cost(padded) >= line_cost(length):
        return None
    inverse, onesided = op.flag("inverse"), op.flag("onesided")
    chirp = _chirp(length, inverse=inverse)
    turned = _of_chirp(x, _spectrum_weights(length, chirp) if inverse and onesided else chirp, build)
    unit = build.constant(_pairs(np.exp(2j * np.pi * np.arange(padded) / padded)))
    filtered = _times(build.fourier(turned, unit), _filter(chirp, padded), build)
    y = build.slice_axis(build.fourier(filtered, unit, inverse=True), x.rank - 2, 0, bins)
    y = _times(y, chirp[:bins] / (length if inverse else 1), build)
    if onesided and inverse:
        y = build.slice_axis(y, x.rank - 1, 0, 1)
    elif onesided:
        y = build.select(build.broadcast_to(build.constant(_real_parts(length, bins)), y.shape), 0.0, y)
    return (build.cast(y, op.result.dtype),)


def line_cost(length: int) -> int:
    """What the kernel costs for a line of so many elements: a pass for each prime factor, but pairs of 2 together."""
    cost, rest, divisor = LINE_COST, length, 2
    while rest > 1:
        if rest % divisor and divisor * divisor <= rest:
            divisor += 1
            continue
        factor = 4 if rest % 4 == 0 else rest if rest % divisor else divisor
        cost, rest = cost + PASS_COST + factor, rest // factor
    return length * cost


def padded_length(length: int) -> int:
    """Of the lengths of small factors that hold a convolution of so many elements, the cheapest."""
    least = 2 * length - 1
    lengths = [1]
    for factor in SMALL_FACTORS:
        for known in tuple(lengths):
            while (known := known * factor) < 2 * least:
                lengths.append(known)
    return min((each for each in lengths if each >= least), key=lambda each: (chirp_cost(each), each))


def chirp_cost(padded: int) -> int:
    """What a line costs by way of a convolution of so many elements: two transforms, and the product between them."""
    return 2 * line_cost(padded) + padded * CHIRP_COST


def _chirp(length: int, *, inverse: bool) -> np.ndarray:
    """c128[n]: exp(-πi j² / n), the other way round for an inverse; j² by whole turns, which keeps the angle exact."""
    j = np.arange(length, dtype=np.int64)
    chirp: np.ndarray = np.exp((1j if inverse else -1j) * np.pi * (j * j % (2 * length)) / length)
    return chirp


def _filter(chirp: np.ndarray, padded: int) -> np.ndarray:
    """c128[padded]: the transform of the conjugate of the chirp, at positions before 0 as behind it."""
    line = np.zeros(padded, np.complex128)
    line[: len(chirp)] = chirp.conj()
    line[padded - len(chirp) + 1 :] = chirp[:0:-1].conj()
    return np.fft.fft(line)


def _spectrum_weights(length: int, chirp: np.ndarray) -> np.ndarray:
    """c128[n / 2 + 1]: the chirp over half a spectrum, whose bins count twice where the other half has their mirror.

    The real part of the result is that of the whole spectrum: imaginary parts of bins without a mirror do not meet it.
    """
    weights = np.where(_is_unpaired(length), 1.0, 2.0)
    return chirp[: len(weights)] * weights


def _is_unpaired(length: int) -> np.ndarray:
    """Which bins of half a spectrum have no mirror: the first one, and the one in the middle."""
    bins = np.arange(length // 2 + 1)
    unpaired: np.ndarray = (bins == 0) | (2 * bins == length)
    return unpaired


def _real_parts(length: int, bins: int) -> np.ndarray:
    """bool[bins, 2]: the imaginary parts of bins that are real for a real signal"""
    return np.stack([np.zeros(bins, np.bool_), _is_unpaired(length)], 1)


def _of_chirp(x: Value, chirp: np.ndarray, build: Rewriter) -> Value:
    """f64[..., m, 2]: the signal times as much of the chirp, cut to its length; what is missing the kernel adds."""
    axis = x.rank - 2
    kept = minimum(x.shape[axis], len(chirp))
    cut = build.cast(build.slice_axis(x, axis, 0, kept), F64)
    weights = build.slice_axis(build.constant(_pairs(chirp)), 0, 0, kept)
    if x.shape[-1] == 2:
        return _turned(cut, weights, build.slice_axis(build.constant(_across(chirp)), 0, 0, kept), build)
    shape = (*cut.shape[:-1], 2)
    real = build.broadcast_to(cut, shape)
    return build.mul(real, build.broadcast_to(weights, shape))


def _times(x: Value, factors: np.ndarray, build: Rewriter) -> Value:
    """f64[..., n, 2], pairs times c128[n]"""
    return _turned(x, build.constant(_pairs(factors)), build.constant(_across(factors)), build)


def _turned(x: Value, factors: Value, across: Value, build: Rewriter) -> Value:
    """(a, b) (c, d) = (a c - b d, b c + a d), of `factors` (c, d) and `across` (-d, d)"""
    cosines = build.broadcast_to(build.slice_axis(factors, 1, 0, 1), x.shape)
    swapped = build.reverse(x, x.rank - 1)
    return build.add(build.mul(x, cosines), build.mul(swapped, build.broadcast_to(across, x.shape)))


def _pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


def _across(x: np.ndarray) -> np.ndarray:
    return np.stack([-x.imag, x.imag], -1)
