"""Depthwise convolutions on a CPU: which these are, what is summed at once, and what a unit of work is."""

from bisect import bisect_left
from collections.abc import Sequence
from math import gcd, prod

from onnxc.compiler.codegen_cpu.schedules.element_threads import element_threads
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.fusion.element_cost import element_cost
from onnxc.compiler.planning.layouts import Permuted, known_sizes
from onnxc.compiler.planning.loops.views import is_dense, operand_views
from onnxc.compiler.planning.schedules import Arithmetic, ConvolutionSchedule, Packing, Threads, Tile
from onnxc.compiler.target import Target

__all__ = ["WIDEST_UNROLLED", "copied_pitch", "copied_window", "depthwise_schedule", "edge_tiles", "is_depthwise"]

MOST_COLUMNS = 8
"""Neighbouring columns that a depthwise convolution sums at once: as many additions are under way as their latency."""

WIDEST_UNROLLED = 8
"""Wider windows are a loop over their columns: the filters of more would not fit the registers beside the sums."""

UNIT_TILES, UNIT_LINES = 2, 8
"""Tiles side by side and lines of the result in a unit of work: with few lines the image above and below counts.

Of f32[112, 112, 96] by steps of 2, with 8 tiles and fewer channels: 93 to 110 us, with 2: 60 to 78. Where only units at
both ends of a line copy what they read, there is one: mobilenetv2 of any height and width takes 20.6 ms so, with two
21.1."""

LINE_TILES = 8
"""Tiles in a unit where the result has one line: enough that finding them does not count."""

MOST_EDGE_TILES = 4
"""Tiles of a line with code of their own; of lines where windows of more leave the image each column is tested."""

UNIT_BYTES = {32: 24 * 1024, 16: 16 * 1024}
"""What windows of a line of a unit read, for 32 and for 16 vector registers: half of the first-level cache of
processors with AVX-512, and with AVX2: 240 channels of 28 x 28 pixels by 5 x 5 take 117 us there so, 121 with more."""

WAY_BYTES, WAYS = 4096, 8
"""Addresses so far apart share a set of the first-level cache, of which there are so many places: nearly all processors
have 64 sets of lines of 64 bytes, and 8 places or a few more."""

MOST_COPIED_BYTES = 1 << 17
"""What a unit copies at most, on the stack and in the second-level cache."""

SMALL_GROUPS = (2, 4)
"""Channels of a group of f32: within the 128 bits that every processor exchanges at once."""

LONG_FINISH = 16
"""Simple instructions behind a sum above which the sums of a tile are finished by one loop, which compiles sooner.

Those of SiLU of 14 sums are half of a kernel: efficientnet_b0 takes LLVM 0.79 s so, 0.84 s with each finished apart,
and a call as long. A loop over ReLU6 would take calls of mobilenet_v2 2 % longer."""


def is_depthwise(op: Op) -> bool:
    """Whether filters of several groups read one channel each, or as few as there are filters in a group.

    The phases of a line, if it has several, are written out.
    """
    channels, groups = op.operands[1].shape[1], op.int("groups")
    is_square = channels in SMALL_GROUPS and op.operands[1].shape[0] == channels * groups and op.dtype() == F32
    return groups > 1 and op.result.rank > 2 and (channels == 1 or is_square) and _has_short_phases(op)


def _has_short_phases(op: Op) -> bool:
    """Whether a tile has columns of all phases, whose taps are known and few, and windows have no steps there."""
    spread, taps = op.ints("input_dilations")[-1], op.operands[1].shape[-1]
    if any(min(row) > 1 for row in zip(op.ints("input_dilations"), op.ints("strides"), strict=True)):
        return False
    if spread == 1:
        return True
    is_short = isinstance(taps, int) and taps <= WIDEST_UNROLLED and spread <= MOST_COLUMNS
    return is_short and isinstance(op.dims("low")[-1], int)


def depthwise_schedule(op: Op, problem: KernelProblem, target: Target) -> ConvolutionSchedule:
    """Filters with their channels side by side, as those of the image lie."""
    _, w = operand_views(op)
    parameter = problem.block.parameters.index(w.base)
    packed = problem.is_constant(parameter) and is_dense(w)
    sizes = known_sizes(w.shape)
    packing = Packing(parameter, Permuted((*range(1, len(sizes)), 0), sizes)) if packed else None
    columns = _columns(op.result.shape[-2], op.ints("input_dilations")[-1])
    lanes = target.vector_bits // op.dtype().bits
    unit = Tile(UNIT_LINES, _tiles(op) * columns) if op.result.rank > 3 else Tile(1, LINE_TILES * columns)
    tile = Tile(columns, _channels(op, unit.columns, sizes[2:], lanes, target))
    is_open = _tests_columns(op, columns)
    can_copy = _is_plain(op) and copied_bytes(op, tile, unit, is_open) <= MOST_COPIED_BYTES
    copies = can_copy and _share_sets(op, unit, sizes[2:])
    why = "filters of each channel" if op.operands[1].shape[1] == 1 else "groups of few filters"
    return ConvolutionSchedule(
        algorithm="depthwise",
        tile=tile,
        unit=unit,
        packs_rows=copies,
        surrounds=can_copy and is_open,
        finishes_in_turn=sum(map(element_cost, problem.block.ops)) > LONG_FINISH,
        arithmetic=Arithmetic(str(op.dtype()), op.dtype()),
        workers=Threads(lanes, element_threads(target).grain),
        packing=packing,
        why=why + _why_copied(copies, is_open, can_copy),
    )


def _why_copied(shares_sets: bool, is_open: bool, can_copy: bool) -> str:
    if shares_sets:
        return ", of windows that are copied: their pixels share sets of the cache"
    if not is_open:
        return ""
    return ", of windows that are copied at the ends of lines" if can_copy else ", columns tested at the ends of lines"


def edge_tiles(op: Op, columns: int) -> tuple[range, range] | None:
    """The tiles at either end of a line, by their columns, whose windows leave the image or which are not whole.

    None where sizes are not known or there are too many.
    """
    length, width, low = op.result.shape[-2], op.operands[0].shape[-2], op.dims("low")[-1]
    if not isinstance(length, int) or not isinstance(width, int) or not isinstance(low, int):
        return None
    step, dilation, spread = op.ints("strides")[-1], op.ints("dilations")[-1], op.ints("input_dilations")[-1]
    taps = known_sizes(op.operands[1].shape[-1:])[0]
    tiles = range(0, length, columns)

    def begins_within(column: int) -> bool:
        return column * step - low > -spread

    def ends_outside(column: int) -> bool:
        last = (column + columns - 1) * step - low + (taps - 1) * dilation
        return last >= width * spread or column + columns > length

    # Lines may be longer than anybody could look at tile by tile.
    left, right = bisect_left(tiles, True, key=begins_within), bisect_left(tiles, True, key=ends_outside)
    if left >= right:
        left = right = len(tiles)
    return (tiles[:left], tiles[right:]) if left + len(tiles) - right <= MOST_EDGE_TILES else None


def _tests_columns(op: Op, columns: int) -> bool:
    """Whether tiles whose windows leave the image test each column that they read, unless that is copied.

    So do all where a loop runs over the taps of a line: 96 channels of 28 x 28 pixels by 31 x 31 took 30 ms, now 4.4.
    """
    ends = edge_tiles(op, columns)
    return ends is None or (any(ends) and known_sizes(op.operands[1].shape[-1:])[0] > WIDEST_UNROLLED)


def copied_window(op: Op, unit: Tile, surrounds: bool) -> tuple[int, int]:
    """How many lines and columns of an image, of two spatial axes, the windows of a unit read at most: those beside it
    too, if it is surrounded by zeros."""
    taps, image, low = known_sizes(op.operands[1].shape[2:]), op.operands[0].shape[1:-1], op.dims("low")
    rows = zip((unit.rows, unit.columns), op.ints("strides"), taps, op.ints("dilations"), strict=True)
    read = ((count - 1) * step + (size - 1) * dilation + 1 for count, step, size, dilation in rows)
    # Of a smaller image of known size there is nothing but its elements, and the room for what is before them.
    ends = (size + before for size, before in zip(image, low, strict=True))
    lines, columns = (
        min(each, end) if isinstance(end, int) and not surrounds else each for each, end in zip(read, ends, strict=True)
    )
    return lines, columns


def copied_pitch(op: Op, tile: Tile) -> int:
    """How far apart pixels are in what is copied, in elements: the channels of a unit, and a line of the cache behind
    them where these would share sets again."""
    item = op.operands[0].dtype.itemsize
    line = WAY_BYTES // 64 // item
    return tile.columns + (line if tile.columns * item % (WAY_BYTES // 4) == 0 else 0)


def copied_bytes(op: Op, tile: Tile, unit: Tile, surrounds: bool) -> int:
    """What a unit copies."""
    lines, columns = copied_window(op, unit, surrounds)
    return lines * columns * copied_pitch(op, tile) * op.operands[0].dtype.itemsize


def _share_sets(op: Op, unit: Tile, taps: Sequence[int]) -> bool:
    """Whether so many pixels under the windows of a line of a unit share a set of the cache that they push each other
    out. With 1024 channels, all that are read at one channel do: 19 x 19 pixels took 915 us, and 112 of 1008 channels.
    """
    x, (view, _) = op.operands[0], operand_views(op)
    stride, width = view.strides[-2], x.shape[-2]
    if not isinstance(stride, int):
        return False
    reach = (unit.columns - 1) * op.ints("strides")[-1] + (taps[-1] - 1) * op.ints("dilations")[-1] + 1
    pixels = prod(taps[:-1]) * (min(width, reach) if isinstance(width, int) else reach)
    sets = WAY_BYTES // gcd(stride * x.dtype.itemsize, WAY_BYTES)
    return pixels > 2 * sets * WAYS


def _tiles(op: Op) -> int:
    return UNIT_TILES if isinstance(op.result.shape[-2], int) else 1


def _is_plain(op: Op) -> bool:
    """Whether the image has two spatial axes, no zeros between its elements, and as many channels as there are filters:
    what can be copied."""
    x = op.operands[0]
    return x.rank == 4 and set(op.ints("input_dilations")) == {1} and x.shape[-1] == op.result.shape[-1]


def _columns(length: Dim, phases: int) -> int:
    """Columns of a tile: the most of which a line has whole tiles, if there are nearly as many; all phases of them."""
    if phases > 1 or not isinstance(length, int) or length <= 0:
        return MOST_COLUMNS // phases * phases
    tiles = -(-length // MOST_COLUMNS)
    return -(-length // tiles)


def _channels(op: Op, columns: int, taps: Sequence[int], lanes: int, target: Target) -> int:
    """Channels of a unit of so many columns: whole vectors for which the cache holds what windows read.

    Where these are several units, they have about as many each.
    """
    reach = (columns - 1) * op.ints("strides")[-1] + (taps[-1] - 1) * op.ints("dilations")[-1] + 1
    width = op.operands[0].shape[-2]
    line = min(width, reach) if isinstance(width, int) else reach
    vector = -(-op.operands[0].dtype.bits * lanes // 8)
    most = max(UNIT_BYTES[target.vector_registers] // max(line * prod(taps[:-1]) * vector, 1), 1)
    channels, *_ = known_sizes(op.result.shape[-1:])
    vectors = max(-(-channels // lanes), 1)
    units = -(-vectors // most)
    return -(-vectors // units) * lanes
