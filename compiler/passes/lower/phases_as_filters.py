"""Transposed convolutions to few filters as convolutions to many, whose results lie between each other.

A convolution over an image that `d - 1` zeros spread computes, at each of the `d` phases of its result, with other taps
of its filters. A kernel has filters in its lanes, and one to three of them, as images and sounds have channels, leave
most of these empty. With the phases as further filters they are filled, and the image is read without the zeros.
"""

import math

import numpy as np

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.meanings import constant_elements
from onnxc.compiler.ir.module import Attribute, Module, Op, Value
from onnxc.compiler.ir.primitives.contractions import image_labels, parse_dimensions
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule
from onnxc.runtime.records import record

LANES = 16
"""Of f32, in a register of AVX-512: what filters are multiplied in."""

FEWER_LANES = 1.3
"""So many times fewer lanes for each element pay for bringing the phases between each other: at half the lanes, 64
channels of 28 x 28 to 8 filters of 2 x 2, this took 0.44 times as long; at three quarters, 24 filters of 2 x 2 and of
4 x 4 taps, 0.85 to 0.93, and 12 filters 0.75; 8 filters of 3 x 3, of one tap a phase, 0.72 to 0.77."""


def phases_as_filters(module: Module) -> Module:
    """Computes the phases of transposed convolutions to few filters side by side."""
    return rewrite(module, [unite_phases])


@record
class _Axis:
    """A spatial axis: what spreads its image, the taps of each phase, padding, and the results before the first."""

    spread: int
    taps: int
    low: int
    high: int
    skipped: int


@rule("convolution")
def unite_phases(op: Op, build: Rewriter) -> Outcome:
    """convolution(spread(x), w)[d q + r] = convolution(x, w[d - 1 - r + d u])[q, r], u the taps of a phase"""
    x, w = op.operands
    labels, axes = parse_dimensions(op.text("dimensions")), _axes(op)
    if axes is None or not _gains(w.shape[labels.w.output], axes):
        return None
    filters = constant_elements(w)
    if filters is None:
        return None
    count, images = len(axes), image_labels(len(axes))
    x_labels = op.text("dimensions").partition(",")[0]
    attributes: dict[str, Attribute] = {
        **op.attributes,
        "low": tuple(axis.low for axis in axes),
        "high": tuple(axis.high for axis in axes),
        "input_dilations": (1,) * count,
        "dimensions": f"{x_labels},oi{images[2:]}->n{images[2:]}c",
    }
    united = _united(filters.transpose(labels.w.order), axes)
    (phases,) = build.op("convolution", [x, build.constant(united)], attributes)
    sizes = [op.result.shape[axis] for axis in labels.result.spatial]
    joined = _interleaved(phases, axes, sizes, build)
    return build.transpose(joined, labels.result.arranged(0, count + 1, range(1, count + 1)))


def _axes(op: Op) -> tuple[_Axis, ...] | None:
    """The spatial axes, where each phase has as many taps: a tap of zero would make NaN of an infinity."""
    w_axes = parse_dimensions(op.text("dimensions")).w.spatial
    taps = [op.operands[1].shape[axis] for axis in w_axes]
    if {op.int("groups"), *op.ints("strides"), *op.ints("dilations")} != {1}:
        return None
    axes = []
    columns = zip(op.ints("input_dilations"), taps, op.dims("low"), op.dims("high"), strict=True)
    for spread, size, low, high in columns:
        if not (isinstance(size, int) and isinstance(low, int) and isinstance(high, int)):
            return None
        if size == 0 or size % spread or min(low, high) < 0:
            return None
        axes.append(_axis(spread, size, low, high))
    return tuple(axes)


def _axis(spread: int, size: int, low: int, high: int) -> _Axis:
    """The first phase of the first result is phase 0 where low + 1 is a multiple of `spread`; else some are skipped."""
    skipped = -(low + 1) % spread
    before, taps = (low + skipped + 1) // spread - 1, size // spread
    behind = -(-(low + skipped + high - size + 2) // spread) + taps - 2 - before
    return _Axis(spread, taps, before, max(behind, 0), skipped)


def _gains(filters: Dim, axes: tuple[_Axis, ...]) -> bool:
    """Whether lanes that a result takes are a half or less with the phases as filters."""
    if not isinstance(filters, int):
        return False
    phases = math.prod(axis.spread for axis in axes)
    return 0 < FEWER_LANES * _rounded(filters * phases) <= phases * _rounded(filters)


def _rounded(filters: int) -> int:
    return -(-filters // LANES) * LANES


def _united(filters: np.ndarray, axes: tuple[_Axis, ...]) -> np.ndarray:
    """[M, C, *K] -> [phases * M, C, *taps], the phases of the first axis outermost"""
    count = len(axes)
    split = filters.reshape(*filters.shape[:2], *(size for axis in axes for size in (axis.taps, axis.spread)))
    taps, phases = range(2, 2 + 2 * count, 2), range(3, 2 + 2 * count, 2)
    turned = np.flip(split, tuple(phases)).transpose(*phases, 0, 1, *taps)
    return np.ascontiguousarray(turned.reshape(-1, filters.shape[1], *(axis.taps for axis in axes)))


def _interleaved(phases: Value, axes: tuple[_Axis, ...], sizes: list[Dim], build: Rewriter) -> Value:
    """[N, *Q, phases * M] -> [N, *S, M]: each Q q and phase r become q * spread + r, less what is skipped."""
    count, spreads = len(axes), [axis.spread for axis in axes]
    batch, *grid, together = phases.shape
    assert isinstance(together, int), phases
    filters = together // math.prod(spreads)
    split = build.reshape(phases, (batch, *grid, *spreads, filters))
    pairs = [axis for each in range(1, count + 1) for axis in (each, each + count)]
    between = build.transpose(split, (0, *pairs, 2 * count + 1))
    whole = [size * spread for size, spread in zip(grid, spreads, strict=True)]
    joined = build.reshape(between, (batch, *whole, filters))
    return build.slice(joined, (0, *(axis.skipped for axis in axes), 0), (batch, *sizes, filters))
