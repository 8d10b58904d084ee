"""Sizes that come by way of truth values or floats: a choice between two, a part of one rounded.

Exporters compute lengths in floats, floor(f32(N) * 0.5), and choose between sizes, where(N < 512, N, 512). Neither
truth values nor fractions are sizes; they are read from the ops that compute them where an integer is made of them. f32
is taken to hold the size of an axis, which is so up to 2^24, but not products of sizes.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, Size, at_least, floordiv
from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.known_elements import LIMIT, as_elements, known_elements, picks_by_size, static_shape
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.records import record

__all__ = ["Truth", "choice", "chosen_elements", "truncated_elements", "truth_elements"]

# How many ops are looked through, and how long the text of a size may become: each choice may double it. Estimates:
# chains of exporters are shorter than ten ops, and a size that stays undecided is read by the call instead.
_DEPTH = 24
_LONGEST = 400

# f32 holds products of sizes and fractions with small parts. How small is an estimate: scales are like 1/2 or 7/32.
_LARGEST_DENOMINATOR = 64
_LARGEST_NUMERATOR = 1 << 12


@record
class Truth:
    """Whether something holds: `holds` is 1 or 0, `fails` the other, each of a form that is seen to be at least 0.

    Where it holds, `small` is at most `large`, and where it fails, at least; None where it says nothing of that kind.
    """

    holds: Dim
    fails: Dim
    small: Dim | None = None
    large: Dim | None = None

    def negated(self) -> "Truth":
        """The opposite."""
        return Truth(self.fails, self.holds, self.large, self.small)


@record
class _Ratio:
    """A float that is numerator / denominator; where that is no sum of powers of two it was rounded, once."""

    numerator: Dim
    denominator: int

    @property
    def is_exact(self) -> bool:
        return self.denominator & (self.denominator - 1) == 0

    def rounded_down(self) -> Dim:
        return floordiv(self.numerator, self.denominator)


def choice(truth: Truth, a: Dim, b: Dim) -> Dim | None:
    """`a` where it holds, else `b`; None where that would be too long."""
    if a == b or isinstance(truth.holds, int):
        return a if truth.holds else b
    if (a, b) == (truth.small, truth.large):
        return minimum(a, b)
    if (a, b) == (truth.large, truth.small):
        return maximum(a, b)
    chosen = truth.holds * a + truth.fails * b
    return chosen if isinstance(chosen, int) or len(str(chosen)) <= _LONGEST else None


def chosen_elements(condition: Value, a: Value, b: Value) -> np.ndarray | None:
    """The elements of `select(condition, a, b)` where both are known, and the condition in sizes."""
    left, right, truths = known_elements(a), known_elements(b), truth_elements(condition)
    if left is None or right is None or truths is None:
        return None
    chosen = [choice(*each) for each in zip(truths.flat, left.flat, right.flat, strict=True)]
    decided = [each for each in chosen if each is not None]
    return as_elements(decided) if len(decided) == len(chosen) else None


def truncated_elements(value: Value) -> np.ndarray | None:
    """The elements of a bool or float tensor as integers, truncated, where sizes decide them."""
    if value.dtype.is_bool:
        truths = truth_elements(value)
        return None if truths is None else as_elements([truth.holds for truth in truths.flat])
    ratios = _ratios(value, _DEPTH)
    if ratios is None or not all(each.denominator == 1 or at_least(each.numerator, 0) for each in ratios.flat):
        return None
    return as_elements([each.rounded_down() for each in ratios.flat])


# Truth values


def truth_elements(value: Value, depth: int = _DEPTH) -> np.ndarray | None:
    """The elements of a small bool tensor as Truths, or None where data decides."""
    op = _followed(value, depth)
    if op is None or not value.dtype.is_bool:
        return None
    if op.name == "constant":
        return _each(lambda bit: _decided(bool(bit)), [op.array()])
    if op.name in _COMPARED:
        return _each(_COMPARED[op.name], _of_all(op.operands, known_elements))
    if op.name == "cast" and op.operands[0].dtype.is_integer:
        return _each(lambda a: _equal(a, 0).negated(), _of_all(op.operands, known_elements))
    truths = _of_all(op.operands, lambda operand: truth_elements(operand, depth - 1))
    if op.name in _COMBINED:
        return _each(_COMBINED[op.name], truths)
    return _moved(op, truths)


def _decided(holds: bool) -> Truth:
    return Truth(int(holds), int(not holds))


def _equal(a: Dim, b: Dim) -> Truth:
    if a == b or at_least(a, b + 1) or at_least(b, a + 1):
        return _decided(a == b)
    apart = maximum(a - b, b - a)
    return Truth(maximum(0, 1 - apart), minimum(1, apart))


def _less(a: Dim, b: Dim) -> Truth:
    if at_least(a, b) or at_least(b, a + 1):
        return _decided(not at_least(a, b))
    above = maximum(0, b - a)
    return Truth(minimum(1, above), maximum(0, 1 - above), a, b)


_COMPARED: Mapping[str, Callable[[Dim, Dim], Truth]] = {
    "equal": _equal,
    "less": _less,
    "less_equal": lambda a, b: _less(b, a).negated(),
}


def _both(a: Truth, b: Truth) -> Truth:
    for one, other in ((a, b), (b, a)):
        if isinstance(one.holds, int):
            return other if one.holds else one
    return Truth(a.holds * b.holds, maximum(a.fails, b.fails))


_COMBINED: Mapping[str, Callable[..., Truth]] = {
    "not": Truth.negated,
    "and": _both,
    "or": lambda a, b: _both(a.negated(), b.negated()).negated(),
}


# Fractions of sizes


def _ratios(value: Value, depth: int) -> np.ndarray | None:
    """The elements of a small f32 or f64 tensor as _Ratios, or None where they are none."""
    op = _followed(value, depth)
    if op is None or value.dtype not in (F32, F64):
        return None
    if op.name == "constant":
        return _each(_constant_ratio, [op.array()])
    if op.name == "cast" and op.operands[0].dtype.is_integer:
        ratio_array = _each(lambda size: _Ratio(size, 1), _of_all(op.operands, known_elements))
    else:
        ratios = _of_all(op.operands, lambda operand: _ratios(operand, depth - 1))
        if op.name == "cast":
            ratio_array = None if ratios is None else ratios[0]
        else:
            ratio_array = _each(_ARITHMETIC[op.name], ratios) if op.name in _ARITHMETIC else _moved(op, ratios)
    is_held = ratio_array is None or value.dtype == F64 or all(_is_held(each.numerator) for each in ratio_array.flat)
    return ratio_array if is_held else None


def _is_held(size: Dim) -> bool:
    """Whether f32 holds it: it is a sum of single sizes, each a few times."""
    terms = size.terms if isinstance(size, Size) else ()
    return all(len(monomial) <= 1 and abs(factor) <= _LARGEST_NUMERATOR for monomial, factor in terms)


def _constant_ratio(element: np.floating) -> _Ratio | None:
    if not np.isfinite(element):
        return None
    exact = Fraction(float(element))
    is_small = exact.denominator <= _LARGEST_DENOMINATOR and abs(exact.numerator) <= _LARGEST_NUMERATOR
    return _Ratio(exact.numerator, exact.denominator) if is_small else None


def _sum(a: _Ratio, b: _Ratio) -> _Ratio | None:
    if not a.is_exact or not b.is_exact:
        return None
    return _ratio(a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator)


def _product(a: _Ratio, b: _Ratio) -> _Ratio | None:
    if not a.is_exact or not b.is_exact:
        return None
    return _ratio(a.numerator * b.numerator, a.denominator * b.denominator)


def _quotient(a: _Ratio, b: _Ratio) -> _Ratio | None:
    """By a constant above 0."""
    if not a.is_exact or not b.is_exact or not isinstance(b.numerator, int) or b.numerator <= 0:
        return None
    return _ratio(a.numerator * b.denominator, a.denominator * b.numerator)


def _ratio(numerator: Dim, denominator: int) -> _Ratio | None:
    """In lowest terms; None where the float may have been rounded too far."""
    if isinstance(numerator, Size) and len(str(numerator)) > _LONGEST:
        return None
    whole = floordiv(numerator, denominator)
    if whole * denominator == numerator:
        return _Ratio(whole, 1)
    return _Ratio(numerator, denominator) if denominator <= _LARGEST_NUMERATOR else None


_ARITHMETIC: Mapping[str, Callable[..., _Ratio | None]] = {
    "add": _sum,
    "sub": lambda a, b: _sum(a, _Ratio(-b.numerator, b.denominator)),
    "neg": lambda a: _Ratio(-a.numerator, a.denominator),
    "mul": _product,
    "div": _quotient,
    "floor": lambda a: _Ratio(a.rounded_down(), 1),
    "ceil": lambda a: _Ratio(floordiv(a.numerator + (a.denominator - 1), a.denominator), 1),
    "round": lambda a: a if a.denominator == 1 else None,
    "max": lambda a, b: _extremum(maximum, a, b),
    "min": lambda a, b: _extremum(minimum, a, b),
}


def _extremum(choose: Callable[..., Dim], a: _Ratio, b: _Ratio) -> _Ratio | None:
    if not a.is_exact or not b.is_exact:
        return None
    return _ratio(choose(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


# Of both kinds


def _followed(value: Value, depth: int) -> Op | None:
    """The op that computes a small tensor of known shape."""
    type = value.type
    if depth == 0 or not isinstance(type, TensorType) or type.shape is None or not type.is_static:
        return None
    return value.op if int(np.prod(static_shape(type))) <= LIMIT else None


def _of_all(operands: Sequence[Value], read: Callable[[Value], np.ndarray | None]) -> list[np.ndarray] | None:
    """What is read of each operand; None, and no more is read, where it is of one.

    Whatever read on would double the work at each op that two paths reach.
    """
    arrays: list[np.ndarray] = []
    for operand in operands:
        array = read(operand)
        if array is None:
            return None
        arrays.append(array)
    return arrays


def _each(function: Callable[..., object], known: Sequence[np.ndarray] | None) -> np.ndarray | None:
    """The function of the elements; None where these are not known, or a result is None."""
    if known is None:
        return None
    result = np.empty(known[0].shape, object)
    for index in np.ndindex(result.shape):
        result[index] = function(*(array[index] for array in known))
    return None if any(each is None for each in result.flat) else result


def _moved(op: Op, known: Sequence[np.ndarray] | None) -> np.ndarray | None:
    """The result of an op that only moves elements."""
    if PRIMITIVES[op.name].kind != "movement" or op.name == "pad" or known is None:
        return None
    return None if picks_by_size(op.attributes) else MEANINGS[op.name](known, op.attributes)[0]
