"""What a convolution takes that writes planes, and what one takes that writes channels last and is then turned.

Both are in products of one pixel, and compared with each other only. The figures began as fits to 31 convolutions of 3
to 1024 channels and 7 to 128 columns on an Intel Xeon with AVX-512. On an EPYC of Zen 5, of 88 drawn ones of 1 to 64
channels, 4 to 512 filters and 4 to 256 columns, both ways timed, what they choose takes at most 1.07 of the better one.
"""

from math import prod

from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.makers import constant_of, made_by
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.passes.lower.pixel_products import is_of_pixels

LANES = 16
"""Filters of a vector where channels lie last: of fewer the rest is computed for nothing."""

VECTORS = (4, 3, 2, 1)
"""Vectors that are summed at once. Each step takes the time of one product more, to load what it multiplies."""

FILTERS = (6, 5, 4, 3, 2, 1)
"""Filters that planes sum at once."""

PLANE_PRODUCT, FLAT_PRODUCT = 1.35, 1.3
"""A product of planes, whose lines lie across lines of the cache; of one tap they do not."""

PIXEL_PRODUCT, PRODUCT_ROWS = 1.05, 6
"""A product of single pixels, of planes as they lie: matrices, of which so many filters are summed at once."""

FEW_CHANNELS, SHORT_RUN = 16, 1.35
"""Of fewer channels a product takes so much longer channels last: runs are short, and padding is written first."""

TURNED, TURNED_FAR = 10, 40
"""To turn an element: 64 channels of 28 x 28 pixels, and 128 of 56 x 56, which no second-level cache holds."""

NEAR_BYTES = 3 << 19
"""Image and result of so many bytes are still turned in the second-level cache."""

DEPTHWISE_PRODUCT, SMALL_GROUPS = 1.5, (2, 4)
"""A product of one filter for each channel, or of groups of so many filters and channels, whose lanes are channels."""

SPREAD_PRODUCTS, SPREAD_PRODUCT = {1: DEPTHWISE_PRODUCT, 2: 12}, 60
"""The same of two filters for each channel, and of more: lanes of an image are spread over those of its filters. 4
filters of 15 x 15 for each of 16 channels of 64 x 64 pixels took 32.5 ms on Zen 5 so, and 0.47 as planes."""

COPIED, COPIED_APART = 15, 45
"""What planes copy of an image for groups of few channels, by the element; more where windows have steps. One filter of
3 x 3 for each of 32 channels of 56 x 56 pixels, in steps of 2, took 36 us as planes on Zen 5 and 11 channels last."""

COPIED_FAR = 90
"""The same of images that no second-level cache holds."""

COPIED_ROW = 800
"""What begins a row that is copied apart: most of it where rows are short."""

DEPTHWISE_TURNED_FAR, DEPTHWISE_TURNED_FARTHER = 12, 18
"""To turn an element of such images that no second-level cache holds, and of those with their results beyond FAR_BYTES,
on Zen 5, whose third level is near; 40 on the Xeon. f32[4, 384, 16, 16] under 3 x 3 took 214 us as planes on Zen 5 and
140 channels last, f32[1, 512, 20, 20] 85 and 70; f32[1, 384, 80, 80] 740 and 1843, f32[8, 512, 20, 20] 703 and 779."""

FAR_BYTES = 1 << 22
"""Of image and result."""

PLANE_UNIT = 2000
"""What begins a plane: one of 7 x 7 pixels for each of 512 channels took 1.3 times as long, of 56 x 56 pixels 0.4."""

PACKED = 10
"""To pack an element of a filter that only a call knows."""

LONG_LINE = 200
"""Of 70 convolutions of 16 to 256 channels, 32 to 256 filters of 3 to 7 taps and lines of 200 to 2000, no steps, all
took 1.01 to 1.3 times as long channels last; of lines of 100 0.85 to 0.98."""

SURE, READ = 1.1, 2
"""How much longer planes are taken to take where their result is turned behind them, and what it takes to turn what
they read, in elements of the result. Of 300 convolutions of 1 to 256 channels and 1 to 7 taps on an AMD EPYC with
AVX-512 those that are turned so take 0.15 to 0.95 of the time, with AVX2 nearly all."""

TRANSFORMED = 0.55
"""A product of 3 x 3 taps of enough channels, which are transformed where channels lie last."""

TRANSFORMED_CHANNELS, TRANSFORMED_PIXELS = 32, 100
"""From which on they are."""


def is_faster_as_planes(op: Op) -> bool:
    """Whether a convolution whose channels lie last in image and result, and that is turned behind, should not be."""
    return _has_long_lines(op) or _planes(op) < _channels_last(op)


def _has_long_lines(op: Op) -> bool:
    """Whether filters that only a call knows, which rows pack for each chunk, meet one line that fills most lanes."""
    line = op.result.shape[-2]
    is_line = op.result.rank == 3 and isinstance(line, int) and line >= LONG_LINE
    return is_line and op.ints("strides") == (1,) and constant_of(op.operands[1]) is None


def is_faster_turned(op: Op) -> bool:
    """Whether planes that are turned channels last take surely less than results that are written so: few filters leave
    most lanes of a vector without one."""
    filters, _ = _group(op)
    read = 0 if _is_turned(op.operands[0]) or _channels(op) == 1 else READ * _channels(op)
    written = filters * op.int("groups")
    turned = (0 if written == 1 else written) + read
    return SURE * (_planes(op) + turned * _turning(op)) < _products(op) * _factor(op, short_run=1)


def _is_turned(image: Value) -> bool:
    """Whether an image is a view of planes; one of a single channel, or pixel, is so by another name."""
    has_one = image.shape[-1] == 1 or product(image.shape[1:-1]) == 1
    return made_by(image, "transpose") is not None or (has_one and made_by(image, "reshape") is not None)


def _channels(op: Op) -> int:
    """Those of the image."""
    _, depth = _group(op)
    return op.int("groups") * depth // prod(_taps(op))


def multiplies_pixels(op: Op) -> bool:
    """Whether a convolution of planes is a product of matrices, of filters and of pixels as they lie."""
    return is_of_pixels(op) and made_by(op.operands[0], "transpose") is not None


def _planes(op: Op) -> float:
    filters, depth = _group(op)
    if multiplies_pixels(op):
        pixels = _pixels(op)
        lanes = -(-pixels // LANES) * LANES / pixels
        multiplied = PIXEL_PRODUCT * lanes * depth * -(-filters // PRODUCT_ROWS) * (PRODUCT_ROWS + 1)
        copied = COPIED_APART * depth if prod(op.ints("strides")) > 1 else 0
        return op.int("groups") * (multiplied + copied)
    summed = min(-(-filters // count) * (count + 1) for count in FILTERS)
    product = FLAT_PRODUCT if set(_taps(op)) == {1} else PLANE_PRODUCT * _lanes_of_lines(op)
    packed = 0 if constant_of(op.operands[1]) is not None else PACKED * filters * depth
    each = product * depth * summed + (PLANE_UNIT + packed) / _pixels(op) + _apart(op) + _copied(op)
    return op.int("groups") * each


def _lanes_of_lines(op: Op) -> float:
    """Lanes for each pixel: lines are summed as one, with what windows read beside them, in whole vectors."""
    lines, line = (1, *op.result.shape[1:-1])[-2:]
    if not isinstance(lines, int) or not isinstance(line, int) or not lines * line:
        return 1
    reach = (_taps(op)[-1] - 1) * op.ints("dilations")[-1] // op.ints("strides")[-1]
    return -(-((lines - 1) * (line + reach) + line) // LANES) * LANES / (lines * line)


def _copied(op: Op) -> float:
    """What a group takes to copy what it reads: where its channels are few, or windows have steps."""
    steps, (_, depth) = prod(op.ints("strides")), _group(op)
    elements = steps * depth // prod(_taps(op))
    if _has_channel_lanes(op):
        return (COPIED if steps == 1 else COPIED_APART) * elements
    if steps == 1:
        return 0
    line = op.result.shape[-2]
    rows = elements / (op.ints("strides")[-1] * line) if isinstance(line, int) and line else 0
    return (COPIED_FAR if _is_far(op) else COPIED_APART) * elements + COPIED_ROW * rows


def _apart(op: Op) -> float:
    """What it takes a group to take its few channels out of pixels that lie with their channels last: whole vectors
    are turned for them. 24 groups of one channel of 13 x 48 x 48 pixels took 1.9 ms so, and 0.16 as planes."""
    _, depth = _group(op)
    channels = depth // prod(_taps(op))
    if op.int("groups") == 1 or channels >= LANES or _is_turned(op.operands[0]):
        return 0
    return (LANES - channels) * _turning(op) / 2


def _channels_last(op: Op) -> float:
    filters, _ = _group(op)
    steps = prod(op.ints("strides"))
    turned = filters * op.int("groups")
    if _is_turned(op.operands[0]):
        turned += _channels(op) * steps
    factor = 1 if _has_channel_lanes(op) else _factor(op, SHORT_RUN)
    return _products(op) * factor + turned * _turning(op)


def _products(op: Op) -> float:
    """Those of a pixel where channels lie last."""
    filters, depth = _group(op)
    if _has_channel_lanes(op):
        lanes = -(-op.int("groups") * filters // LANES) * LANES
        each = 1 if filters == depth // prod(_taps(op)) else filters
        return SPREAD_PRODUCTS.get(each, SPREAD_PRODUCT) * depth * lanes
    vectors = min(-(-filters // (count * LANES)) * (count + 1) for count in VECTORS)
    return depth * vectors * LANES * op.int("groups")


def _has_channel_lanes(op: Op) -> bool:
    """Whether there is a kernel for the groups whose lanes are channels."""
    filters, depth = _group(op)
    channels = depth // prod(_taps(op))
    is_square = channels == filters and channels in SMALL_GROUPS
    return op.int("groups") > 1 and (channels == 1 or is_square)


def _group(op: Op) -> tuple[int, int]:
    """The filters of a group, and how much each sums."""
    filters, *inner = (size for size in op.operands[1].shape if isinstance(size, int))
    return filters // op.int("groups"), prod(inner)


def _taps(op: Op) -> tuple[int, ...]:
    return tuple(size for size in op.operands[1].shape[2:] if isinstance(size, int))


def _factor(op: Op, short_run: float) -> float:
    """How long a product takes where channels lie last; `short_run` of few channels."""
    filters, channels, *taps = op.operands[1].shape
    assert isinstance(filters, int), op
    assert isinstance(channels, int), op
    if channels < FEW_CHANNELS:
        return short_run
    steps = {*op.ints("strides"), *op.ints("dilations"), op.int("groups")}
    is_transformed = taps == [1] * (len(taps) - 2) + [3, 3] and steps == {1} and _pixels(op) >= TRANSFORMED_PIXELS
    return TRANSFORMED if is_transformed and min(filters, channels) >= TRANSFORMED_CHANNELS else 1


def _pixels(op: Op) -> int:
    """Those of an image; where only the call knows, some of the usual ones."""
    pixels = product(op.result.shape[1:-1])
    return max(pixels, 1) if isinstance(pixels, int) else 1 << 10


def _turning(op: Op) -> int:
    if not _is_far(op):
        return TURNED
    if not _has_channel_lanes(op):
        return TURNED_FAR
    return DEPTHWISE_TURNED_FARTHER if _is_far(op, FAR_BYTES) else DEPTHWISE_TURNED_FAR


def _is_far(op: Op, most: int = NEAR_BYTES) -> bool:
    """Whether image and result have more bytes than that: by default, than a second-level cache holds."""
    elements = product(op.operands[0].shape) + product(op.result.shape)
    return isinstance(elements, int) and elements * op.dtype().itemsize > most
