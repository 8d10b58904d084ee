"""Transposed convolutions that the CPU computes by columns: a pixel times all taps, added to the results they meet.

Their results are planes, and lanes are pixels. Channels last, lanes are filters, of which those that there are no more
of are computed for nothing.
"""

from math import prod

from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.makers import constant_of
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitives.contractions import channels_innermost
from onnxc.runtime.records import record

LANES = 16
"""Filters of a vector where channels lie last, and pixels of one here."""

MULTIPLIED, ADDED, LINE, FINISHED, PACKED = 1.0, 6.0, 6.0, 10.6, 3.8
"""What columns take for a vector of products, to add one to its sums, for a line of these, for a vector of results, and
to pack a number of a filter."""

ROW_PRODUCT, ROW_RESULT, ROW_WINDOW, ROW_PACKED = 1.2, 21.5, 2.6, 1.9
"""What rows take for a vector of products, for the results of a pixel in vectors of filters, which are turned behind,
for each tap of a window, and to pack a number of a filter that only a call knows.

Both are fits to 585 transposed convolutions of 1 to 64 channels and filters, 1 to 16 groups, and 1 to 3 axes on an
Intel Xeon with AVX-512. Of 83 others these choose columns for two thirds; none takes more than 1.04 of the time then,
and all together 0.47, 1.02 of what the better one of either would.
"""

SPREAD_PRODUCT, SPREAD_WINDOW = 5.3, 1.45
"""What a vector of products of several filters for each channel takes, whose lanes are channels, and each tap of a
window: a fit to 79 of these. Of 71 those by columns take 0.5 of the time, and none longer."""

SMALL_GROUPS = (2, 4)
"""Channels and filters of groups that have a kernel whose lanes are channels."""

MARGIN = 0.9
"""Columns are taken where they surely take less."""

MOST_SUMS = 1 << 17
"""Results of a filter: its sums, with those beyond an edge, are to fit the stack."""

MOST_TAPS = 1 << 15
"""Taps of all channels of a filter, which a unit of work packs."""

MOST_LINES, MOST_SPREAD = 1 << 12, 8
"""Lines of an image, and steps along the last axis, that the kernel has room for."""


def adds_columns(op: Op) -> bool:
    """Whether a transposed convolution whose channels lie last takes less time by columns."""
    x, w = op.operands
    if op.text("dimensions") != channels_innermost(x.rank - 2) or max(op.ints("input_dilations")) == 1:
        return False
    dtypes = {x.dtype, w.dtype, op.dtype()}
    if len(dtypes) > 1 or not dtypes <= {F32, F64} or set(op.ints("strides")) != {1}:
        return False
    sizes = _known_sizes(op)
    return sizes is not None and _has_room(sizes, op) and _gains(sizes, op)


@record
class _Sizes:
    """Those of a convolution: the filters of a group, the channels that each reads, and along each spatial axis."""

    filters: int
    channels: int
    taps: tuple[int, ...]
    image: tuple[int, ...]
    result: tuple[int, ...]


def _known_sizes(op: Op) -> _Sizes | None:
    """None where only a call knows one, or nothing is multiplied."""
    x, w = op.operands
    sizes = [size for size in (*w.shape, *x.shape[1:-1], *op.result.shape[1:-1]) if isinstance(size, int) and size]
    if len(sizes) < 3 * w.rank - 4 or not all(isinstance(size, int) for size in op.dims("low")):
        return None
    filters, channels, *spatial = sizes
    count = w.rank - 2
    taps, image, result = (tuple(spatial[first : first + count]) for first in range(0, 3 * count, count))
    return _Sizes(filters // op.int("groups"), channels, taps, image, result)


def _has_room(sizes: _Sizes, op: Op) -> bool:
    """Whether what a unit of work adds up fits the stack."""
    if prod(sizes.image[:-1]) > MOST_LINES or op.ints("input_dilations")[-1] > MOST_SPREAD:
        return False
    reach = [(size - 1) * step for size, step in zip(sizes.image, op.ints("input_dilations"), strict=True)]
    taps = [(size - 1) * step for size, step in zip(sizes.taps, op.ints("dilations"), strict=True)]
    sums = prod(max(size, far + wide + 1) for size, far, wide in zip(sizes.result, reach, taps, strict=True))
    return sums <= MOST_SUMS and prod(sizes.taps) * sizes.channels <= MOST_TAPS


def _gains(sizes: _Sizes, op: Op) -> bool:
    """Whether columns take less than a kernel that reads channels last."""
    is_square = sizes.filters == sizes.channels and sizes.channels in (1, *SMALL_GROUPS)
    if op.int("groups") > 1 and is_square:
        return False
    if op.int("groups") > 1 and sizes.channels == 1:
        return _columns(sizes) < _spread_channels(sizes, op)
    return _columns(sizes) < MARGIN * _rows(sizes, op)


def _columns(sizes: _Sizes) -> float:
    """What a group takes by columns."""
    taps, lines = prod(sizes.taps), prod(sizes.image[:-1])
    multiplied = taps * sizes.channels * (MULTIPLIED * _vectors(prod(sizes.image)) + PACKED)
    added = taps * lines * (ADDED * _vectors(sizes.image[-1]) + LINE)
    return sizes.filters * (multiplied + added + FINISHED * prod(sizes.result) / LANES)


def _rows(sizes: _Sizes, op: Op) -> float:
    """What a group takes by rows."""
    vectors, read, results = _vectors(sizes.filters), _read(sizes, op), prod(sizes.result)
    packed = 0 if constant_of(op.operands[1]) is not None else sizes.filters * prod(sizes.taps) * sizes.channels
    each = ROW_PRODUCT * read * sizes.channels * vectors + ROW_RESULT * results * vectors + ROW_PACKED * packed
    return each + ROW_WINDOW * read / op.int("groups")


def _spread_channels(sizes: _Sizes, op: Op) -> float:
    """What a group of one channel takes where lanes of an image are spread over those of its filters."""
    groups, read = op.int("groups"), _read(sizes, op)
    products = SPREAD_PRODUCT * read * _vectors(groups * sizes.filters) / groups
    return products + FINISHED * sizes.filters * prod(sizes.result) / LANES + SPREAD_WINDOW * read / groups


def _read(sizes: _Sizes, op: Op) -> float:
    """The taps of all results that meet an element."""
    return prod(sizes.result) * prod(sizes.taps) / prod(op.ints("input_dilations"))


def _vectors(count: int) -> int:
    return -(-count // LANES)
