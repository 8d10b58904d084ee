"""The scores of an attention: what stands between the product of queries and keys and the weights of the values."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isnan

import numpy as np

from onnxc.compiler.ir.dims import Bounds, Dim, at_least
from onnxc.compiler.ir.makers import constant_of, is_splat, made_by, splat_of, unbroadcast
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import Refusal, Rewriter
from onnxc.compiler.passes.analysis.counters import Counter, counter_of
from onnxc.compiler.passes.analysis.ranges import range_of
from onnxc.compiler.passes.recognize.product_axes import RESULT, with_merged_axes, with_split_axes
from onnxc.runtime.records import record

ABSORBS = -1e30
"""A score added to a constant below this, in f32, is that constant: neighbours are 7e22 apart there."""

HIDES = -1e4
"""A summand below this leaves nothing of a score in a row that has another: e^x is 0 in f32 from -104 down, so it hides
scores up to 9896 above the others. The least that exporters write is -10000."""

FINITE = (
    *("add", "sub", "mul", "div", "neg", "abs", "min", "max", "select", "cast"),
    *("broadcast", "reshape", "transpose", "slice", "pad", "concatenate", "gather", "gather_along", "gather_nd"),
)
"""Operations whose results are finite where their operands are, but for overflow; a division by a constant, too."""


@record
class Mask:
    """A summand of the scores; `cautious`: rows in which it hides everything keep their meaning."""

    value: Value
    cautious: bool


@record
class Scores:
    """softmax over `axis` of softcap(scale * product) + masks, with rows of NaN made 0 where `guarded`."""

    product: Op
    axis: int
    scale: float
    softcap: float
    masks: tuple[Mask, ...]
    guarded: bool


def scores_of(weights: Value, build: Rewriter) -> Scores | Refusal | None:
    """How `weights` come from the product of queries and keys, whose every step nothing else may use."""
    softmax, guarded = _softmax_of(weights, build)
    if softmax is None:
        return None
    walk = _Chain(build)
    value, masks = walk.masks(softmax.operands[0], softmax.int("axis"))
    value, softcap = walk.softcap(value)
    value, scale = walk.scaled(value)
    merged, value = value, walk.merged(value)
    if scale == 1 and not softcap:
        value, more = walk.masks(value, softmax.int("axis"))
        masks += [replace(mask, value=build.with_shape(mask.value, merged.shape)) for mask in more]
        value, softcap = walk.softcap(value)
    value, inner = walk.scaled(value)
    scale *= inner
    product = made_by(value, "dot")
    if product is not None and merged.shape != value.shape:
        in_axes = with_merged_axes(product, merged.shape, build)
        product = in_axes or with_split_axes(product, RESULT, merged.shape, build)
    if product is None:
        return None
    if walk.reason or build.uses(value) > 1 or build.uses(softmax.result) > (3 if guarded else 1):
        return Refusal(walk.reason or "the scores or their softmax are used elsewhere, too")
    return Scores(product, softmax.int("axis"), scale * (softcap or 1), softcap, tuple(masks), guarded)


def _softmax_of(weights: Value, build: Rewriter) -> tuple[Op | None, bool]:
    """The softmax, and whether a choice makes its NaN 0."""
    choice = made_by(weights, "select")
    if choice is None:
        return made_by(weights, "softmax"), False
    condition, value, other = choice.operands
    compared = made_by(condition, "equal")
    if compared is None or compared.operands != (value, value) or not is_splat(other, 0):
        return None, False
    return made_by(value, "softmax") if build.uses(weights) == 1 else None, True


class _Chain:
    """Takes steps off the scores, outermost first; `reason` is why they cannot be taken."""

    def __init__(self, build: Rewriter) -> None:
        self.build = build
        self.reason = ""

    def _step(self, value: Value, *names: str) -> Op | None:
        op = made_by(value, *names)
        if op is not None and self.build.uses(value) > 1:
            self.reason = "the scores are used elsewhere, too"
        return op

    def masks(self, value: Value, axis: int) -> tuple[Value, list[Mask]]:
        """What is added to the product, or chosen instead of it."""
        masks: list[Mask] = []
        while (op := made_by(value, "add", "select")) is not None:
            inner = next((operand for operand in op.operands if _leads_to_product(operand)), None)
            if inner is None:
                break
            self._step(value, "add", "select")
            mask = self._summand(op, inner) if op.name == "add" else self._choice(op, inner, axis)
            if mask is not None:
                masks.append(mask)
            value = inner
        return value, masks

    def _summand(self, op: Op, inner: Value) -> Mask | None:
        other = op.operands[1] if op.operands[0] == inner else op.operands[0]
        splat = splat_of(other)
        # One finite summand for all scores cancels in the softmax.
        return None if splat is not None and abs(splat) < inf else Mask(other, cautious=False)

    def _choice(self, op: Op, inner: Value, axis: int) -> Mask | None:
        """condition ? score : low, as a summand: condition ? 0 : low"""
        condition, a, b = op.operands
        low = splat_of(b if a == inner else a)
        if low is None or isnan(low) or low > HIDES or condition == inner:
            self.reason = "what is chosen in place of a score is not a large negative number"
            return None
        source, axes = unbroadcast(condition)
        zero, hidden = (self.build.full(source.shape, summand, inner.dtype) for summand in (0, low))
        mask = self.build.select(source, zero, hidden) if a == inner else self.build.select(source, hidden, zero)
        spread = self.build.broadcast(mask, axes, condition.shape)
        return Mask(spread, cautious=low > ABSORBS)

    def merged(self, value: Value) -> Value:
        """What `value` is a reshape of, as of scores whose rows are the pixels of an image."""
        op = self._step(value, "reshape")
        return value if op is None else op.operands[0]

    def softcap(self, value: Value) -> tuple[Value, float]:
        """c of c * tanh(score / c), or 0; what is left is the argument of the tanh."""
        op = made_by(value, "mul")
        curve = None if op is None else made_by(op.operands[0], "tanh")
        cap = None if op is None else splat_of(op.operands[1])
        if curve is None or cap is None or cap <= 0:
            return value, 0.0
        self._step(value, "mul")
        self._step(curve.result, "tanh")
        return curve.operands[0], float(cap)

    def scaled(self, value: Value) -> tuple[Value, float]:
        """The product, and the factor it is multiplied by."""
        scale = 1.0
        while (op := made_by(value, "mul", "div")) is not None:
            factor = splat_of(op.operands[1])
            if not factor:
                break
            self._step(value, "mul", "div")
            scale = scale * factor if op.name == "mul" else scale / factor
            value = op.operands[0]
        return value, scale


def _leads_to_product(value: Value) -> bool:
    """Whether a dot stands above `value` with only the steps of scores between."""
    for _ in range(8):
        op = made_by(value, "dot", "add", "mul", "div", "tanh", "select", "reshape")
        if op is None or op.name == "dot":
            return op is not None
        if op.name in ("add", "select"):
            return any(_leads_to_product(operand) for operand in op.operands if operand.dtype == value.dtype)
        value = op.operands[0]
    return False


# Rows in which a mask hides everything


def is_harmless(masks: Sequence[Mask], axis: int, bounds: Bounds) -> bool:
    """Whether no row, along `axis`, is hidden as a whole in a way that the attention would see differently."""
    return all(_is_finite(mask.value, bounds) or len(masks) == 1 for mask in masks) and all(
        (_is_finite(mask.value, bounds) and not mask.cautious) or _leaves_something(mask.value, axis, bounds)
        for mask in masks
    )


def _is_finite(mask: Value, bounds: Bounds, depth: int = 12) -> bool:
    """Whether no element of `mask` is infinite or NaN, but where arithmetic on finite elements overflows.

    Exporters compute (1 - m) * lowest from a mask m of integers, which for any other m than 0 and 1 would overflow. A
    product of matrices, as of queries and embeddings of positions, is as finite as the scores are.
    """
    op = mask.op
    if not mask.dtype.is_float or (op is not None and op.name == "dot"):
        return True
    if op is None or not depth:
        return False
    if op.name == "constant":
        return bool(np.isfinite(op.array().astype(np.float64)).all())
    low, high = range_of(mask, bounds).low, range_of(mask, bounds).high
    if low is not None and high is not None and -inf < low and high < inf:
        return True
    if op.name == "div" and splat_of(op.operands[1]) in (0, None):
        return False
    return op.name in FINITE and all(_is_finite(operand, bounds, depth - 1) for operand in op.operands)


def _leaves_something(mask: Value, axis: int, bounds: Bounds) -> bool:
    """Whether every row has an element that is not hidden."""
    source, axes = unbroadcast(mask)
    array = constant_of(source)
    if array is not None:
        wide = array.astype(np.float64)
        rows = wide.max(axis=axes.index(axis)) if axis in axes and wide.size else wide
        return not np.isnan(wide).any() and bool((rows > HIDES).all())
    return _shows_first(mask, axis, bounds)


def _shows_first(mask: Value, axis: int, bounds: Bounds) -> bool:
    """Whether `mask` does not hide the first column of any row: t <= s + n with n >= 0 shows t = 0."""
    source, axes = unbroadcast(mask)
    band = _band_of(source)
    if band is None or axis not in axes or set(band.column.strides) - {axes.index(axis)}:
        return False
    low = range_of(band.shown, bounds).low
    rising = all(at_least(stride, 0, bounds) for stride in band.row.strides.values())
    return low is not None and low > HIDES and rising and at_least(band.reach, 0, bounds)


def is_causal(mask: Value, rows: int, columns: int) -> bool:
    """Whether `mask` hides from row s exactly the columns t > s, and adds nothing to the others."""
    source, axes = unbroadcast(mask)
    own = sorted(axis for axis, size in zip(axes, source.shape, strict=True) if size != 1)
    if own != sorted((rows, columns)):
        return False
    array = constant_of(source)
    if array is not None:
        return _is_causal_array(array, rows_first=axes.index(rows) < axes.index(columns))
    band = _band_of(source)
    if band is None or not is_splat(band.shown, 0) or band.hidden > ABSORBS:
        return False
    along = {axes[axis]: stride for axis, stride in band.column.strides.items()}
    down = {axes[axis]: stride for axis, stride in band.row.strides.items()}
    return along == {columns: 1} and down == {rows: 1} and band.reach == 0


def _is_causal_array(array: np.ndarray, *, rows_first: bool) -> bool:
    dense = array.reshape([size for size in array.shape if size != 1]).astype(np.float64)
    table = dense if rows_first else dense.T
    rows, columns = table.shape
    shown = np.tri(rows, columns, k=0, dtype=np.bool_)
    return bool((table[shown] == 0).all() and (table[~shown] <= ABSORBS).all())


@record
class _Band:
    """A choice by index: `shown` where column <= row, both counters over the axes of the choice, else `hidden`."""

    column: Counter
    row: Counter
    reach: Dim
    shown: Value
    hidden: float


def _band_of(value: Value) -> _Band | None:
    """`value` as a choice between what two counters show and what they hide, a low constant."""
    choice = made_by(value, "select")
    if choice is None:
        return None
    condition, shown, other = choice.operands
    source, axes = unbroadcast(condition)
    compared = made_by(source, "less", "less_equal")
    if compared is None:
        return None
    first, second = compared.operands
    strict = compared.name == "less"
    hidden = splat_of(other)
    if hidden is None or hidden > HIDES:
        # Where the comparison holds something is hidden; what it shows is the opposite.
        shown, hidden, first, second, strict = other, splat_of(shown), second, first, not strict
    column, row = _counter_in(first, axes), _counter_in(second, axes)
    if hidden is None or hidden > HIDES or column is None or row is None:
        return None
    return _Band(column, row, row.start - column.start - strict, shown, float(hidden))


def _counter_in(value: Value, axes: Sequence[int]) -> Counter | None:
    """How `value` counts, along `axes` of a broadcast of it."""
    counter = counter_of(value)
    if counter is None:
        return None
    return Counter(counter.start, {axes[axis]: stride for axis, stride in counter.strides.items()})
