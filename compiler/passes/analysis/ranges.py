"""Ranges: bounds between which the elements of a value certainly lie, NaN aside.

Read off the ops above the value, a few levels up; None on a side where nothing is known.
"""

import math
from collections.abc import Callable

import numpy as np

from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Bounds, Dim, lower_bound, upper_bound
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Op, Value
from onnxc.runtime.records import record

Number = int | float

DEPTH = 12
"""How many ops up a range is looked for. An estimate: a range unknown costs a rewrite, never a wrong one."""

SCANNED = 1 << 16
"""The most elements of a constant that are looked at: so many of f32 take 0.13 ms, converted to f64."""


LONGEST_AXIS = (1 << 31) - 1
"""What a size without an upper bound is taken to stay below, so that index arithmetic in i64 does not wrap.

Two axes beyond it that are multiplied in an index would belong to a tensor that fits into no memory.
"""


@record
class Range:
    """`low <= x <= high` for every element x that is no NaN; None is unknown."""

    low: Number | None = None
    high: Number | None = None


UNKNOWN = Range()


def range_of(value: Value, bounds: Bounds) -> Range:
    """The range of a tensor, for symbols of sizes within `bounds`."""
    return _Search(bounds).range(value, DEPTH)


class _Search:
    """One question, with the ranges known so far."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.known: dict[Value, Range] = {}

    def range(self, value: Value, depth: int) -> Range:
        if value.dtype.is_bool:
            return Range(0, 1)
        if value not in self.known:
            computed = UNKNOWN if value.op is None or not depth else self._of_op(value.op, depth - 1)
            self.known[value] = _representable(computed, value.dtype)
        return self.known[value]

    def _of_op(self, op: Op, depth: int) -> Range:
        match op.name:
            case "constant":
                return _of_array(op.array())
            case "sizes":
                return _union([self._of_size(dim) for dim in op.dims("values")])
            case "iota":
                size = self._of_size(op.dims("shape")[op.int("axis")])
                return Range(0, None if size.high is None else max(size.high - 1, 0))
            case "mul" if op.operands[0] == op.operands[1] and op.result.dtype.is_float:
                return Range(0.0, None)
        if op.name in _SAME or op.name in _FUNCTIONS:
            ranges = [self.range(operand, depth) for operand in op.operands]
            return _FUNCTIONS[op.name](*ranges) if op.name in _FUNCTIONS else _union(ranges[_SAME[op.name]])
        if op.name == "cast":
            return _cast(op, self.range(op.operands[0], depth))
        return self._reduced(op, depth) if op.name == "reduce" else UNKNOWN

    def _of_size(self, dim: Dim) -> Range:
        capped = dict(self.bounds)
        for name in symbols_of(dim):
            low, high = capped.get(name, (0, None))
            if not name.startswith("?"):
                capped[name] = (low, LONGEST_AXIS if high is None else high)
        return Range(lower_bound(dim, capped), upper_bound(dim, capped))

    def _reduced(self, op: Op, depth: int) -> Range:
        operand = self.range(op.operands[0], depth)
        if op.text("kind") == "sum" and op.result.dtype.is_float:
            return Range(0.0 if operand.low is not None and operand.low >= 0 else None, None)
        sizes = [lower_bound(op.operands[0].shape[axis], self.bounds) for axis in op.ints("axes")]
        inhabited = all(size is not None and size >= 1 for size in sizes)
        return operand if inhabited and op.text("kind") in ("min", "max") else UNKNOWN


def _representable(exact: Range, dtype: DType) -> Range:
    """`exact` rounded as floats of `dtype` are; of integers all that there are, where they may have wrapped."""
    if dtype.is_float:
        return Range(_rounded(exact.low, dtype), _rounded(exact.high, dtype))
    if not dtype.is_integer:
        return UNKNOWN
    least = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
    low, high = exact.low, exact.high
    if low is None or high is None or low < least or high >= least + 2**dtype.bits:
        return Range(least, least + 2**dtype.bits - 1)
    return exact


def _of_array(array: np.ndarray) -> Range:
    if not array.size or array.size > SCANNED:
        return UNKNOWN
    wide = array if array.dtype.kind in "iu" else array.astype(np.float64)
    low, high = wide.min().item(), wide.max().item()
    return UNKNOWN if math.isnan(low) else Range(low, high)


def _union(ranges: list[Range]) -> Range:
    lows, highs = [each.low for each in ranges], [each.high for each in ranges]
    known_lows, known_highs = [x for x in lows if x is not None], [x for x in highs if x is not None]
    return Range(
        min(known_lows) if known_lows and len(known_lows) == len(lows) else None,
        max(known_highs) if known_highs and len(known_highs) == len(highs) else None,
    )


def _cast(op: Op, exact: Range) -> Range:
    """Between bounds that the new type holds; rounding may move a bound past one that it does not hold exactly."""
    source, target = op.operands[0].dtype, op.result.dtype
    if source.is_float and target.is_integer:
        low = None if exact.low is None or math.isinf(exact.low) else min(math.trunc(exact.low), 0)
        high = None if exact.high is None or math.isinf(exact.high) else max(math.trunc(exact.high), 0)
        return Range(low, high)
    if target.is_float:
        return Range(_rounded(exact.low, target), _rounded(exact.high, target))
    return exact


def _rounded(bound: Number | None, dtype: DType) -> Number | None:
    if bound is None:
        return None
    with np.errstate(over="ignore"):
        return float(np.array(bound, np.float64).astype(dtype.numpy))


def _combine(function: Callable[[Number, Number], Number], a: Number | None, b: Number | None) -> Number | None:
    if a is None or b is None:
        return None
    result = function(a, b)
    return None if math.isnan(result) else result


def _add(a: Range, b: Range) -> Range:
    return Range(_combine(lambda x, y: x + y, a.low, b.low), _combine(lambda x, y: x + y, a.high, b.high))


def _neg(a: Range) -> Range:
    return Range(None if a.high is None else -a.high, None if a.low is None else -a.low)


def _mul(a: Range, b: Range) -> Range:
    if None not in (a.low, a.high, b.low, b.high):
        corners = [_combine(lambda x, y: x * y, x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        known = [corner for corner in corners if corner is not None]
        return Range(min(known), max(known)) if len(known) == 4 else UNKNOWN
    nonnegative = a.low is not None and a.low >= 0 and b.low is not None and b.low >= 0
    return Range(0, None) if nonnegative else UNKNOWN


def _div(a: Range, b: Range) -> Range:
    nonnegative = a.low is not None and a.low >= 0 and b.low is not None and b.low > 0
    return Range(0, None) if nonnegative else UNKNOWN


def _min(a: Range, b: Range) -> Range:
    highs = [x for x in (a.high, b.high) if x is not None]
    return Range(None if a.low is None or b.low is None else min(a.low, b.low), min(highs, default=None))


def _max(a: Range, b: Range) -> Range:
    lows = [x for x in (a.low, b.low) if x is not None]
    return Range(max(lows, default=None), None if a.high is None or b.high is None else max(a.high, b.high))


# Which operands the elements of the result come from.
_SAME: dict[str, slice] = {
    **dict.fromkeys(("broadcast", "reshape", "transpose", "slice", "gather", "gather_along", "gather_nd"), slice(1)),
    **dict.fromkeys(("concatenate", "pad"), slice(None)),
    "select": slice(1, None),
}

_FUNCTIONS: dict[str, Callable[..., Range]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, _neg(b)),
    "neg": _neg,
    "mul": _mul,
    "div": _div,
    "min": _min,
    "max": _max,
    "abs": lambda a: Range(0, None) if a.low is None or a.high is None else Range(0, max(abs(a.low), abs(a.high))),
    "exp": lambda a: Range(0.0, None),
    "sqrt": lambda a: Range(0.0, None),
    "tanh": lambda a: Range(-1.0, 1.0),
    "erf": lambda a: Range(-1.0, 1.0),
    "sin": lambda a: Range(-1.0, 1.0),
    "cos": lambda a: Range(-1.0, 1.0),
    "softmax": lambda a: Range(0.0, 1.0),
}
