"""Transposed convolutions as products of taps and pixels that are added up: which these are, and how units share them.

A pixel of the image is multiplied by all taps of a filter, and each product is added to the result that it belongs to
(col2im). No element of the zeros that spread the image is multiplied, whichever taps a phase of the result has, and
lanes are neighbouring pixels, however few filters there are. The sums of each phase of the last axis lie together until
all are there, so that what is added is whole vectors.
"""

from functools import cached_property
from math import prod

from onnxc.compiler.codegen_cpu.schedules.products import GRAIN_PRODUCTS
from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.views import View
from onnxc.compiler.planning.schedules import Arithmetic, ConvolutionSchedule, Threads, Tile
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

__all__ = ["ColumnAxis", "ColumnSums", "column_sums", "columns_schedule", "reads_pixels", "why_no_columns"]

MOST_SUMS = 1 << 18
"""Sums of a unit: 1 MiB of the stack in f32."""

MOST_LANES = 16
"""Those of a vector of f32 of the widest processors."""

MOST_FILTER_ELEMENTS = 1 << 16
"""Elements of filters that a unit packs."""

MOST_LINES = 1 << 12
"""Lines of an image, of each of which a unit notes where its sums begin."""

MOST_SPREAD = 8
"""Phases of a line, which are brought between each other in registers."""

FULL_ROWS = 24
"""Taps of a unit, if its filters have so many: the pixels of a block are read once for them."""

SHARED_SUMS = 1 << 15
"""Sums of several filters of a unit at most, 128 KiB of the second-level cache."""

PIXELS = 512
"""Pixels whose products with some taps wait in the nearest cache, 16 KiB of it."""

REGISTERS = {32: (8, 3), 16: (4, 2)}
"""For so many vector registers: the most taps that are multiplied at once, and vectors of pixels."""


@record
class ColumnAxis:
    """A spatial axis: pixel i and tap t meet in result i * spread + low - t * dilation, where there is one."""

    size: int
    image: int
    spread: int
    low: int
    dilation: int
    taps: int

    @property
    def least(self) -> int:
        """Where the last tap of the first pixel adds to."""
        return self.low - (self.taps - 1) * self.dilation

    @property
    def before(self) -> int:
        """How many sums there are before those of the first result."""
        return max(-self.least, 0)

    @property
    def extent(self) -> int:
        """How many sums there are, with those that are no results."""
        return self.before + max(self.size, (self.image - 1) * self.spread + self.low + 1)

    @property
    def phase_before(self) -> int:
        """How many sums of a phase there are before that of the first result."""
        return max(-(self.least // self.spread), 0)

    @property
    def phase_extent(self) -> int:
        """How many sums a phase has: whole vectors are added, and those of one line are to meet none of the next, whose
        loads would wait for them."""
        added = -(-self.image // MOST_LANES) * MOST_LANES
        return self.phase_before + max(-(-self.size // self.spread), added + self.low // self.spread)


@record
class ColumnSums:
    """The sums of a filter, [*outer axes][phase][column], and what pixels of an image are."""

    axes: tuple[ColumnAxis, ...]
    filters: int
    channels: int

    @property
    def last(self) -> ColumnAxis:
        return self.axes[-1]

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """How far apart sums are along each axis but the last."""
        extents = [axis.extent for axis in self.axes[1:-1]] + [self.pitch]
        return tuple(prod(extents[ordinal:]) for ordinal in range(len(self.axes) - 1))

    @property
    def pitch(self) -> int:
        """How far apart lines are."""
        return self.last.spread * self.last.phase_extent

    @property
    def elements(self) -> int:
        """The sums of a filter."""
        return prod(axis.extent for axis in self.axes[:-1]) * self.pitch

    @property
    def taps(self) -> int:
        return prod(axis.taps for axis in self.axes)

    @property
    def lines(self) -> int:
        """Those of a channel of an image."""
        return prod(axis.image for axis in self.axes[:-1])


def column_sums(op: Op) -> ColumnSums:
    """The sums of a convolution whose sizes but for the number of images are known."""
    x, w = op.operands
    labels = parse_dimensions(op.text("dimensions"))
    columns = zip(
        known_sizes([op.result.shape[axis] for axis in labels.result.spatial]),
        known_sizes([x.shape[axis] for axis in labels.x.spatial]),
        op.ints("input_dilations"),
        known_sizes(op.dims("low")),
        op.ints("dilations"),
        known_sizes([w.shape[axis] for axis in labels.w.spatial]),
        strict=True,
    )
    filters, channels = known_sizes([w.shape[labels.w.output], w.shape[labels.w.input]])
    return ColumnSums(tuple(ColumnAxis(*column) for column in columns), filters // op.int("groups"), channels)


def why_no_columns(op: Op) -> str:
    """What of a convolution keeps it from being sums of the products of taps and pixels; nothing where they serve."""
    x, w = op.operands
    dtypes = {x.dtype, w.dtype, op.dtype()}
    if len(dtypes) > 1 or not dtypes <= {F32, F64}:
        return "sums of columns are of f32 or f64 alone"
    labels = parse_dimensions(op.text("dimensions"))
    sizes = [*w.shape, *op.dims("low")]
    sizes += [
        shape[axis] for shape, axes in ((x.shape, labels.x), (op.result.shape, labels.result)) for axis in axes.spatial
    ]
    if not all(isinstance(size, int) for size in sizes):
        return "sizes are not known"
    if 0 in sizes[: w.rank] or 0 in sizes[w.rank + len(op.dims("low")) :]:
        return "nothing is multiplied"
    if set(op.ints("strides")) != {1}:
        return "windows have steps"
    sums = column_sums(op)
    if sums.elements > MOST_SUMS or sums.lines > MOST_LINES or sums.last.spread > MOST_SPREAD:
        return "the sums of a filter are too much for the stack"
    return "the filters are too much for the stack" if sums.taps * sums.channels > MOST_FILTER_ELEMENTS else ""


def reads_pixels(op: Op, x: View) -> bool:
    """Whether all pixels of a channel lie side by side, in order."""
    spatial = parse_dimensions(op.text("dimensions")).x.spatial
    step = 1
    for axis in reversed(spatial):
        if x.shape[axis] != 1 and x.strides[axis] != step:
            return False
        step *= known_sizes([x.shape[axis]])[0]
    return True


def columns_schedule(op: Op, target: Target) -> ConvolutionSchedule:
    """A few taps at a time, against as many pixels as registers hold."""
    sums, lanes = column_sums(op), target.vector_bits // op.dtype().bits
    most, vectors = REGISTERS[target.vector_registers]
    filters = max(min(-(-FULL_ROWS // sums.taps), SHARED_SUMS // sums.elements, sums.filters), 1)
    filters = min(filters, MOST_FILTER_ELEMENTS // (sums.taps * sums.channels))
    taps = filters * sums.taps
    rows = -(-taps // -(-taps // most))
    columns = min(sums.last.image, PIXELS)
    lines = max(min(PIXELS // sums.last.image, sums.lines), 1)
    return ConvolutionSchedule(
        algorithm="columns",
        tile=Tile(lines, columns, filters),
        arithmetic=Arithmetic(str(op.dtype()), op.dtype()),
        registers=Tile(rows, vectors * lanes),
        workers=Threads(lanes, GRAIN_PRODUCTS),
        why="pixels are multiplied by all taps of few filters",
    )
