"""Transposed convolutions to few filters, or of one channel in a group, as one convolution for each phase.

Where the phases have different taps they cannot be filters of one convolution, as `phases_as_filters` makes of others:
a tap of zero would make NaN of an infinity. Each by itself is a convolution of few filters, which writes planes. Where
no zeros spread the image, the depthwise kernel takes filters of one channel whose lines are wider than it writes out.
"""

import math
from collections.abc import Sequence
from itertools import product as pairs

import numpy as np

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.meanings import constant_elements
from onnxc.compiler.ir.module import Attribute, Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import image_labels, parse_dimensions
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.runtime.records import record

FEW_FILTERS = 8
"""So many leave half of the lanes of a vector without one where channels lie last."""

FEWEST_CHANNELS = 16
"""Of fewer channels the products take no longer than bringing the phases between each other."""

WRITTEN_OUT = 8
"""The widest line of taps that a depthwise kernel takes with the zeros of a spread image: phases of 2 x 2 to 8 x 8 taps
took 1.2 to 2.2 times as long apart. 12 taps in steps of 2 over 2000 samples of 64 channels took 1047 us by rows, and 83
apart, 9 x 9 taps over 32 x 32 pixels 2447 and 128."""

MOST_PHASES = 16
"""Four in each of two axes."""

MOST_WIDE_PHASES = 64
"""Of filters of one channel eight in each of two axes: 21 channels of 20 x 20 pixels, 16 x 16 taps in steps of 8, took
2465 us by rows, and 229 apart."""


def phases_apart(module: Module) -> Module:
    """Computes the phases of transposed convolutions to few filters one by one."""
    return rewrite(module, [part_phases])


@record
class _Phase:
    """One phase of an axis: its first tap, and the padding of its convolution."""

    first: int
    low: int
    high: int


@rule("convolution")
def part_phases(op: Op, build: Rewriter) -> Outcome:
    """convolution(spread(x), w)[d q + r] = convolution(x, w[first(r) + d u])[q], u the taps of phase r"""
    x, w = op.operands
    labels = parse_dimensions(op.text("dimensions"))
    axes, spreads = _axes(op), op.ints("input_dilations")
    filters = None if axes is None else constant_elements(w)
    if axes is None or filters is None:
        return None
    taps = filters.transpose(labels.w.order)
    image = build.transpose(x, labels.x.order)
    parts = [_phase(image, taps, spreads, phases, op, build) for phases in pairs(*axes)]
    sizes = [op.result.shape[axis] for axis in labels.result.spatial]
    joined = _interleaved(parts, spreads, sizes, build)
    return build.transpose(joined, labels.result.arranged(0, 1, range(2, joined.rank)))


def _axes(op: Op) -> list[list[_Phase]] | None:
    """The phases of each spatial axis; None where these are too many, or lanes have enough to do without."""
    w = op.operands[1]
    labels, spreads = parse_dimensions(op.text("dimensions")), op.ints("input_dilations")
    filters, channels = w.shape[labels.w.output], w.shape[labels.w.input]
    if {*op.ints("strides"), *op.ints("dilations")} != {1}:
        return None
    taps, count = [w.shape[axis] for axis in labels.w.spatial], math.prod(spreads)
    if not (isinstance(filters, int) and isinstance(channels, int)) or count == 1:
        return None
    if op.int("groups") > 1:
        gains = count <= MOST_WIDE_PHASES and _is_wide(channels, taps, op)
    else:
        gains = count <= MOST_PHASES and 0 < filters <= FEW_FILTERS and channels >= FEWEST_CHANNELS
    if not gains:
        return None
    columns = zip(spreads, taps, op.dims("low"), op.dims("high"), strict=True)
    axes = [phases for column in columns if (phases := _phases(*column)) is not None]
    return axes if len(axes) == len(spreads) else None


def _is_wide(channels: int, taps: Sequence[Dim], op: Op) -> bool:
    """Whether filters read one channel each, and more taps of a line than the depthwise kernel writes out."""
    last = taps[-1]
    return channels == 1 and op.dtype().is_float and isinstance(last, int) and last > WRITTEN_OUT


def _phases(spread: int, size: Dim, low: Dim, high: Dim) -> list[_Phase] | None:
    """Those of an axis; None where one has no taps, or does not read all of the image.

    All have as many results as the first, of which the last may be one too many.
    """
    if not (isinstance(size, int) and isinstance(low, int) and isinstance(high, int)) or size < spread:
        return None
    more = -(-(low + high + 2 - size) // spread)
    phases = []
    for phase in range(spread):
        first = (low - phase) % spread
        start, taps = (phase + first - low) // spread, -(-(size - first) // spread)
        phases.append(_Phase(first, -start, more + start + taps - 2))
    return phases if all(min(phase.low, phase.high) >= 0 for phase in phases) else None


def _phase(
    image: Value, filters: np.ndarray, spreads: Sequence[int], phases: Sequence[_Phase], op: Op, build: Rewriter
) -> Value:
    """[N, C, *S] -> [N, M, *Q], the results of one phase."""
    every = [slice(phase.first, None, spread) for phase, spread in zip(phases, spreads, strict=True)]
    taps = np.ascontiguousarray(filters[(slice(None), slice(None), *every)])
    images = image_labels(len(spreads))
    attributes: dict[str, Attribute] = {
        **op.attributes,
        "low": tuple(phase.low for phase in phases),
        "high": tuple(phase.high for phase in phases),
        "input_dilations": (1,) * len(spreads),
        "dimensions": f"{images},oi{images[2:]}->{images}",
    }
    return build.op("convolution", [image, build.constant(taps)], attributes)[0]


def _interleaved(parts: Sequence[Value], spreads: Sequence[int], sizes: Sequence[Dim], build: Rewriter) -> Value:
    """phases of [N, M, *Q] -> [N, M, *S]: q of phase r becomes q * spread + r, less what is too many."""
    batch, filters, *grid = parts[0].shape
    count = len(spreads)
    together = build.concatenate([build.unsqueeze(part, (0,)) for part in parts], 0)
    split = build.reshape(together, (*spreads, batch, filters, *grid))
    order = [axis for each in range(count) for axis in (count + 2 + each, each)]
    between = build.transpose(split, (count, count + 1, *order))
    whole = [size * spread for size, spread in zip(grid, spreads, strict=True)]
    joined = build.reshape(between, (batch, filters, *whole))
    return build.slice(joined, (0,) * (count + 2), (batch, filters, *sizes))
