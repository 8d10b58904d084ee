"""Transposed convolutions as ordinary ones: no product with the zeros between the elements of the input.

With input dilation d, output element q * d + r reads only the taps k with k = (low - r) mod d. Each of the d phases r
is an ordinary convolution with those taps; as filters of one convolution, they give the phases side by side.
"""

from collections.abc import Sequence
from itertools import product as box
from math import prod
from types import EllipsisType

import numpy as np

from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import channels_first
from onnxc.compiler.ir.rewriter import Outcome, Refusal, Rewriter, rewrite, rule
from onnxc.compiler.passes.notes import note_refusal

# Phases beyond this multiple of the taps have none of their own: they are zeros, to be stored and multiplied.
# An estimate: 3 x 3 filters reach it with an upsampling of 9 along both axes, and models have 2 to 4.
PHASES_PER_TAP = 8


def split_dilated_convolution(module: Module) -> Module:
    """Turns transposed convolutions with constant filters into ordinary ones whose results are interleaved."""
    return rewrite(module, [split], note_refusal)


@rule("convolution")
def split(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, w, input_dilations = d)[q * d + r] = convolution(x, taps of phase r)[q]"""
    spread, (x, w) = op.ints("input_dilations"), op.operands
    if max(spread) == 1:
        return None
    weights, lows = build.known_array(w), op.dims("low")
    if op.text("dimensions") != channels_first(len(spread)):
        return Refusal("the axes are in another order")
    if weights is None or set(op.ints("strides")) | set(op.ints("dilations")) != {1}:
        return Refusal("the filters are no constant, or the windows have steps")
    if prod(spread) > PHASES_PER_TAP * prod(weights.shape[2:]):
        return Refusal("most phases of the result have no taps")
    if not all(isinstance(low, int) for low in lows):
        return Refusal("the padding is not a number")
    low = [size for size in lows if isinstance(size, int)]
    first = [size // step for size, step in zip(low, spread, strict=True)]
    filters = build.constant(phase_filters(weights, low, spread, op.int("groups")))
    counts = [floordiv(size + step - 1, step) for size, step in zip(op.results[0].shape[2:], spread, strict=True)]
    high = _high(x.shape[2:], counts, filters.shape[2:], first)
    ones = [1] * len(spread)
    phases = build.convolution(x, filters, ones, first, high, ones, op.int("groups"), dtype=op.dtype())
    return _interleave(phases, op, counts, build)


def phase_filters(weights: np.ndarray, low: Sequence[int], spread: Sequence[int], groups: int) -> np.ndarray:
    """w: T[M, C, *K] -> T[phases * M, C, *T], the taps of each phase where the common padding wants them.

    Phase r starts floor(low / d) - floor((low - r) / d) taps late.
    """
    shape = weights.shape[2:]
    rows = list(zip(low, spread, shape, strict=True))
    taps = [max(_late(pad, step, r) + _taps(pad, step, size, r) for r in range(step)) for pad, step, size in rows]
    grouped = weights.reshape(groups, -1, *weights.shape[1:])
    result = np.zeros((groups, prod(spread), *grouped.shape[1:3], *taps), weights.dtype)
    for ordinal, phase in enumerate(box(*map(range, spread))):
        starts = [(pad - r) % step for (pad, step, _), r in zip(rows, phase, strict=True)]
        read = [slice(start, None, step) for start, step in zip(starts, spread, strict=True)]
        late = [_late(pad, step, r) for (pad, step, _), r in zip(rows, phase, strict=True)]
        chosen = grouped[_last_axes(read)]
        write = [slice(at, at + size) for at, size in zip(late, chosen.shape[3:], strict=True)]
        result[:, ordinal][_last_axes(write)] = chosen
    return result.reshape(-1, *weights.shape[1:2], *taps)


def _last_axes(slices: Sequence[slice]) -> tuple[slice | EllipsisType, ...]:
    return (..., *slices)


def _late(low: int, step: int, phase: int) -> int:
    return low // step - (low - phase) // step


def _taps(low: int, step: int, size: int, phase: int) -> int:
    return len(range((low - phase) % step, size, step))


def _high(sizes: Sequence[Dim], counts: Sequence[Dim], taps: Sequence[Dim], first: Sequence[int]) -> list[Dim]:
    """The padding behind each axis that gives at least as many results as a phase has."""
    rows = zip(sizes, counts, taps, first, strict=True)
    return [maximum(count + tap - 1 - before - size, 0) for size, count, tap, before in rows]


def _interleave(phases: Value, op: Op, counts: Sequence[Dim], build: Rewriter) -> Value:
    """[N, (group, phase..., filter), *Q] -> [N, (group, filter), *(Q, phase)], cut to the size of the result."""
    spread, groups, result = op.ints("input_dilations"), op.int("groups"), op.results[0].shape
    axes = len(spread)
    filters = floordiv(result[1], groups)
    x = build.slice(phases, [0] * phases.rank, (*phases.shape[:2], *counts))
    x = build.reshape(x, (result[0], groups, *spread, filters, *counts))
    pairs = [axis for dimension in range(axes) for axis in (3 + axes + dimension, 2 + dimension)]
    x = build.transpose(x, (0, 1, 2 + axes, *pairs))
    sizes = [count * step for count, step in zip(counts, spread, strict=True)]
    x = build.reshape(x, (*result[:2], *sizes))
    return build.slice(x, [0] * x.rank, result)
