"""The error function, which NumPy lacks."""

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.polynomial import Chebyshev, Polynomial

# erf(6) is 1 - 2.2e-17, which rounds to 1.
_END = 6.0


def _interpolate(function: Callable[[float], float], terms: int, low: float, high: float) -> "Chebyshev":
    """The Chebyshev series through `function` at the `terms` Chebyshev points of [low, high]."""
    # The angle of every cosine is reduced in integers: a rounded angle of 40 would cost 20 units in the last place.
    cosines = [math.cos(math.pi * step / (2 * terms)) for step in range(4 * terms)]
    points = range(1, 2 * terms, 2)
    values = [function(low + (high - low) * (cosines[step] + 1.0) / 2.0) for step in points]
    series = [
        2.0 / terms * math.fsum(y * cosines[step * j % (4 * terms)] for y, step in zip(values, points, strict=True))
        for j in range(terms)
    ]
    return np.polynomial.Chebyshev([series[0] / 2.0, *series[1:]], domain=[low, high])


# NumPy imports its polynomials, in 2 ms, where they are first named.


@cache
def _near() -> "Polynomial":
    """erf(x)/x in x²: the series 2/√π Σ (-1)ⁿ x²ⁿ / (n! (2n + 1)), good to the last bit on [0, 1]."""
    terms = [2.0 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(19)]
    return np.polynomial.Polynomial(terms)


@cache
def _far() -> "Chebyshev":
    """exp(x²) erfc(x) on [1, 6], a smooth and slow curve; with more terms the error falls no further."""
    return _interpolate(lambda x: math.exp(x * x) * math.erfc(x), terms=28, low=1.0, high=_END)


def erf(x: np.ndarray) -> np.ndarray:
    """erf of each element of an f64 array, within 2 units in the last place; erf(±inf) = ±1, erf(-0.0) = -0.0.

    The bound is measured in tests/runtime/host/test_pointwise.py.
    """
    distance = np.minimum(np.abs(x), _END)
    near = distance * _near()(distance * distance)
    far = 1.0 - np.exp(-distance * distance) * _far()(distance)
    return np.asarray(np.copysign(np.where(distance < 1.0, near, far), x))
