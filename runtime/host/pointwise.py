"""Pointwise primitives: every result element comes from the operand elements at its index; all shapes are equal."""

from collections.abc import Callable

import numpy as np

from onnxc.runtime.host.elements import in_double, is_integer, narrow, widen
from onnxc.runtime.host.erf import erf
from onnxc.runtime.host.registry import Arrays, Attributes, Meaning, meaning

Elementwise = Callable[..., np.ndarray]


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Integers truncate toward zero, x / 0 = 0 and INT_MIN / -1 = INT_MIN; floats follow IEEE 754."""
    if not is_integer(x.dtype):
        return np.asarray(np.divide(x, y))
    divisor = np.where(y == 0, 1, y)
    quotient = np.floor_divide(x, divisor)
    inexact = x - quotient * divisor != 0
    truncated = quotient + (inexact & ((x < 0) != (divisor < 0))).astype(x.dtype)
    return np.where(y == 0, 0, truncated)


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """C's fmod, with the sign of the dividend; integers have x rem 0 = 0."""
    if not is_integer(x.dtype):
        return np.asarray(np.fmod(x, y))
    return np.where(y == 0, 0, np.fmod(x, np.where(y == 0, 1, y)))


def _power(x: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Integers wrap; below a negative exponent stands the truncated 1 / xⁿ, which is 0 unless x is 1 or -1.

    Squares and reciprocals of doubles are rounded once: of NumPy's, 1 in 40 is off by the last bit where a vector is.
    """
    if x.dtype == np.float64:
        return np.where(exponent == 2, x * x, np.where(exponent == -1, 1 / x, np.power(x, exponent)))
    if not is_integer(x.dtype):
        return in_double(np.power)(x, exponent)
    power: np.ndarray = np.power(x, np.maximum(exponent, exponent.dtype.type(0)))
    if x.dtype.kind == "u":
        return power
    reciprocal = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (exponent & 1), 0))
    return np.where(exponent < 0, reciprocal, power)


def _shift_left(x: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Counts outside [0, width) shift everything out."""
    inside = (count >= 0) & (count < 8 * x.dtype.itemsize)
    return np.where(inside, np.left_shift(x, np.where(inside, count, 0)), 0)


def _shift_right(x: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Counts outside [0, width) leave the sign of signed types and 0 of unsigned ones."""
    width = 8 * x.dtype.itemsize
    inside = (count >= 0) & (count < width)
    shifted = np.right_shift(x, np.where(inside, count, width - 1))
    return np.where(inside | (x.dtype.kind == "i"), shifted, 0)


def _unless_integer(function: Elementwise) -> Elementwise:
    """Rounding leaves integers as they are."""
    return lambda x: x.copy() if is_integer(x.dtype) else function(x)


SAME_TYPE: dict[str, Elementwise] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "rem": _remainder,
    "pow": _power,
    "min": np.minimum,
    "max": np.maximum,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": _unless_integer(np.floor),
    "ceil": _unless_integer(np.ceil),
    "round": _unless_integer(np.rint),
    "sqrt": np.sqrt,
    "exp": in_double(np.exp),
    "log": in_double(np.log),
    "sin": in_double(np.sin),
    "cos": in_double(np.cos),
    "tan": in_double(np.tan),
    "asin": in_double(np.arcsin),
    "acos": in_double(np.arccos),
    "atan": in_double(np.arctan),
    "sinh": in_double(np.sinh),
    "cosh": in_double(np.cosh),
    "tanh": in_double(np.tanh),
    "asinh": in_double(np.arcsinh),
    "acosh": in_double(np.arccosh),
    "atanh": in_double(np.arctanh),
    "erf": in_double(erf),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
}

COMPARISONS: dict[str, Elementwise] = {"equal": np.equal, "less": np.less, "less_equal": np.less_equal}


def _same_type(function: Elementwise) -> Meaning:
    """x: T[...], ...  ->  T[...]"""

    def evaluate(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
        return (narrow(function(*map(widen, operands)), operands[0].dtype),)

    return evaluate


def _comparison(function: Elementwise) -> Meaning:
    """x: T[...], y: T[...]  ->  bool[...]"""

    def evaluate(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
        return (narrow(function(*map(widen, operands)), np.dtype(np.bool_)),)

    return evaluate


for _name, _function in SAME_TYPE.items():
    meaning(_name)(_same_type(_function))
for _name, _function in COMPARISONS.items():
    meaning(_name)(_comparison(_function))


@meaning("select")
def select(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """condition: bool[...], x: T[...], y: T[...]  ->  T[...], x where the condition holds."""
    condition, x, y = operands
    return (np.where(condition, x, y),)
