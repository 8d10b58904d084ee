"""Convolutions whose results are planes: which these are, and what of an image a unit of work copies to read it.

Lanes are neighbouring pixels. A unit copies the channels of a window with its padding, each phase of the steps by
itself: all pixels then read a tap equally far behind their own place, across lines too.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from itertools import product as pairs
from math import prod

from onnxc.compiler.codegen_cpu.schedules.products import GRAIN_PRODUCTS
from onnxc.compiler.codegen_cpu.shuffles import LARGEST_SHUFFLED_STRIDE
from onnxc.compiler.ir.dims import Dim, at_least, floordiv, product
from onnxc.compiler.ir.dtypes import F32, F64
from onnxc.compiler.ir.module import Block, Op
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.planning.choose_schedules import KernelProblem
from onnxc.compiler.planning.filter_layouts import PackedFilters
from onnxc.compiler.planning.layouts import known_sizes
from onnxc.compiler.planning.loops.domain import epilogue_leaves
from onnxc.compiler.planning.loops.views import View, is_dense, operand_view, operand_views
from onnxc.compiler.planning.schedules import Arithmetic, ConvolutionSchedule, Packing, Threads, Tile
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

__all__ = [
    "MOST_SUMS",
    "WINDOW_ELEMENTS",
    "PlaneAxis",
    "PlaneWindow",
    "copied_elements",
    "is_flat",
    "is_planar",
    "plane_window",
    "planes_schedule",
    "reads_plane",
    "why_no_planes",
]

MOST_SUMS = 1024
"""Sums of a unit, of a filter, with those between lines: those of six filters take 24 KiB of the nearest cache."""

WINDOW_ELEMENTS = 1 << 16
"""Elements that a unit copies, unless a few pixels of one line have more: 256 KiB of the second-level cache."""

MOST_ELEMENTS = 1 << 18
"""Elements that a unit copies of one line at most: 1 MiB of the stack."""

SMALLEST_COLUMNS = 48
"""Columns of a unit if lines are that long: of fewer most of what is copied is beside them."""

MOST_PACKED = 1 << 15
"""Elements of the filters of a group that are packed on the way: 128 KiB of the stack."""

MOST_LANES = 16
"""Those of a vector of f32 of the widest processors: so many channels there is room for where they are turned."""

COPYING = {(False, False): 3, (False, True): 11, (True, False): 6, (True, True): 10}
"""An element is copied in the time of so many products, by whether each tap has a copy of its own, and whether windows
have steps: fits to 8 convolutions of 1 to 16 channels, 3 to 7 taps and 28 to 112 columns on Zen 5 with AVX-512."""

FINISHED, FINISHED_AT_ONCE = 10, 1
"""A sum goes to the result in that of so many, from memory of the unit and from that of a block of registers: on the
same machine 32 filters of 3 x 3 for 3 channels and 112 columns took 145 us so, and 114 with taps apart; 16 filters 81
and 69."""

REGISTERS = {32: ((8, 2), (4, 6), (3, 8)), 16: ((4, 2), (2, 6), (3, 4))}
"""For so many vector registers: vectors of pixels, and the most filters that are summed at once with them. 16 filters,
3x3x3, of 16 and 32 channels of 32x48x48 take 0.86 of the time with 3 and 8, a line by itself and planes sharing what is
copied, that they took with 4 and 4. 20 filters of 100x100 took 1.05 of it with 3 and 7, as 21 were computed."""

SUMS_IN_FLIGHT = 8
"""Fewer sums than that wait for each other: a processor begins two in a cycle and takes four for each."""

UNKNOWN_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""The most results that a unit may have along an axis whose size only the call knows."""


@record
class PlaneAxis:
    """A spatial axis: `size` results and `image` elements of it, these `stride` apart; a unit has `count` results.

    taps_apart: what windows read is copied once for each tap, so that it lies as the results do.
    """

    size: Dim
    image: Dim
    stride: Dim
    low: Dim
    step: int
    dilation: int
    taps: int
    count: Dim = 1
    taps_apart: bool = False

    @property
    def phases(self) -> int:
        """How many parts with elements `step` apart the windows read."""
        if self.taps_apart:
            return self.taps
        return 1 if self.taps == 1 or self.dilation % self.step == 0 else self.step

    @property
    def phase_offset(self) -> int:
        """How far in the image a phase begins behind the one before."""
        return self.dilation if self.taps_apart else 1

    @property
    def reach(self) -> int:
        """How many elements of a phase a unit reads beside one for each result."""
        return 0 if self.taps_apart else (self.taps - 1) * self.dilation // self.step

    @property
    def extent(self) -> Dim:
        """How many elements of a phase a unit reads."""
        return self.count + self.reach

    @property
    def counts(self) -> Sequence[int]:
        """How many results a unit may have: those of the whole axis in a few equal parts."""
        if not isinstance(self.size, int):
            return UNKNOWN_COUNTS
        size = max(self.size, 1)
        parts = {-(-size // count) for count in range(1, min(size, MOST_SUMS) + 1)}
        return sorted({-(-size // count) for count in parts})


@record
class PlaneWindow:
    """What a unit reads of `channels`: each as [phase of the last axis][phase, extent of the others][extent].

    channels_lie_last: the channels of a pixel lie side by side, and pixels do not, so that what is copied is turned.
    """

    axes: tuple[PlaneAxis, ...]
    channels: int
    lanes: int
    channels_lie_last: bool = False

    @property
    def is_open(self) -> bool:
        """Whether only the call knows how long lines are, so that it decides how many a unit has."""
        return not isinstance(self.axes[-1].size, int)

    @cached_property
    def rows(self) -> tuple[Dim, ...]:
        """The axes of rows: the phases of the last axis, then phases and extent of each before it."""
        return (self.axes[-1].phases, *(size for axis in self.axes[:-1] for size in (axis.phases, axis.extent)))

    @property
    def pitch(self) -> Dim:
        """How far apart lines are."""
        return self.axes[-1].extent

    @property
    def phase_step(self) -> Dim:
        """How far apart the phases of the last axis are: whole vectors are written of their last row, too."""
        return product(self.rows[1:]) * self.pitch + self.lanes

    @property
    def channel_step(self) -> Dim:
        """How far apart channels are."""
        return self.axes[-1].phases * self.phase_step

    @property
    def takes_apart(self) -> bool:
        """Whether neighbouring pixels of few channels are loaded as whole vectors, all that windows meet."""
        last = self.axes[-1]
        lie_together = last.stride == 1 or last.stride == self.channels <= LARGEST_SHUFFLED_STRIDE
        return lie_together and (last.step == 1 or last.phases > 1)

    @property
    def copies_lines(self) -> bool:
        """Whether a line is first brought into the order of pixels and then copied for each phase."""
        return self.axes[-1].phases > 1 and (self.axes[-1].taps_apart or self.takes_apart)

    @property
    def turns_lines(self) -> bool:
        """Whether lines are brought into the order of pixels: channels that lie last, or what several taps copy."""
        last = self.axes[-1]
        return self.channels_lie_last or (last.stride == 1 and last.taps_apart)

    @property
    def turned_channels(self) -> int:
        """How many channels of a line are turned at once."""
        if self.axes[-1].stride == 1:
            return 1
        return self.channels if self.takes_apart else self.lanes

    @property
    def copied_channels(self) -> int:
        """Those that there is room for: whole squares where these are turned in their place."""
        squares = self.channels_lie_last and not self.takes_apart and not self.copies_lines
        return -(-self.channels // self.lanes) * self.lanes if squares else self.channels

    @property
    def line_width(self) -> Dim:
        """How many neighbouring elements of a line the phases of a unit read, in whole vectors."""
        last = self.axes[-1]
        return _whole(_whole(self.pitch, self.lanes) * last.step + (last.phases - 1) * last.phase_offset, self.lanes)

    @property
    def written(self) -> Dim:
        """How many elements are written of a channel: whole vectors of each row, which takes that of one more."""
        return product(self.rows) * (_whole(self.pitch, self.lanes) + self.lanes)

    @property
    def lines_are_one(self) -> bool:
        """Whether all results of a unit, of a plane, lie side by side, and what a tap reads for them does too."""
        return self.axes[-1].taps_apart

    def finishes_blocks(self, pixels: int) -> bool:
        """Whether no `pixels` that are summed at once are of two lines, or of what lies between them."""
        return self.lines_are_one or self.counts[1] == 1 or self.sums_pitch(pixels) != self.pitch

    @property
    def plane_step(self) -> Dim:
        """How far apart the planes of a volume are."""
        return self.pitch * (self.axes[-2].phases * self.axes[-2].extent if len(self.axes) > 1 else 1)

    @property
    def counts(self) -> tuple[Dim, Dim, Dim]:
        """The planes, lines and columns of a unit."""
        planes, lines, columns = (1, 1, *(axis.count for axis in self.axes))[-3:]
        return planes, lines, columns

    @property
    def results(self) -> Dim:
        """Those of a unit, of a filter."""
        return product(self.counts)

    def sums_pitch(self, pixels: int) -> Dim:
        """How far apart the sums of lines are, `pixels` of which are computed at once: each line is by itself, or all
        lines of a plane are one with what lies between them, whichever computes less; the latter where the call decides
        how many there are."""
        _, lines, columns = self.counts
        apart, together = _whole(columns, pixels), _whole((lines - 1) * self.pitch + columns, pixels)
        if self.lines_are_one:
            return self.pitch
        is_known = all(isinstance(axis.size, int) for axis in self.axes[-2:])
        return apart if is_known and at_least(together, lines * apart + 1) else self.pitch

    def sums_step(self, pixels: int) -> Dim:
        """How far apart those of planes are: all that are computed of one."""
        _, lines, columns = self.counts
        return _whole((lines - 1) * self.sums_pitch(pixels) + columns, pixels)

    def sums(self, pixels: int) -> Dim:
        """Those of a unit, of a filter."""
        return self.counts[0] * self.sums_step(pixels)

    @property
    def taps(self) -> tuple[int, ...]:
        """The taps along each axis."""
        return tuple(axis.taps for axis in self.axes)


def is_planar(op: Op) -> bool:
    """Whether the result has its channels before its pixels."""
    order = parse_dimensions(op.text("dimensions")).result.order
    return order == tuple(range(len(order))) and len(order) > 2


def why_no_planes(op: Op, problem: KernelProblem) -> str:
    """What keeps the kernel of planes away; nothing where it serves."""
    dtypes = {op.operands[0].dtype, op.operands[1].dtype, op.dtype()}
    if len(dtypes) > 1 or not dtypes <= {F32, F64}:
        return "planes are of f32 or f64 alone"
    sizes = op.operands[1].shape
    if not all(isinstance(size, int) for size in sizes) or product(sizes) == 0:
        return f"the filters are {op.operands[1].type}"
    order = parse_dimensions(op.text("dimensions")).w.order
    if order != tuple(range(len(order))):
        return f"the axes lie as {op.text('dimensions')}"
    x, w = map(operand_view, op.operands)
    if x is None or w is None:
        return "an operand does not lie in strides"
    if not _are_packed(w, problem) and prod(known_sizes(sizes)) > MOST_PACKED * op.int("groups"):
        return "the filters are no constant, and too many for the stack"
    smallest = plane_window(op, problem.block, x, MOST_LANES, (1, 1, SMALLEST_COLUMNS))
    return "" if copied_elements(smallest) <= MOST_ELEMENTS else "a line of windows is too much for the stack"


def _are_packed(w: View, problem: KernelProblem) -> bool:
    """Whether filters are a constant that lies as the kernel reads it."""
    return problem.is_constant(problem.block.parameters.index(w.base)) and is_dense(w)


def reads_plane(op: Op, x: View) -> bool:
    """Whether pixels of a line or channels of a pixel lie side by side."""
    axes = parse_dimensions(op.text("dimensions")).x
    return 1 in (x.strides[axes.spatial[-1]], x.strides[axes.channel])


def planes_schedule(op: Op, problem: KernelProblem, target: Target) -> ConvolutionSchedule:
    """Few filters at a time, against as many pixels as registers hold."""
    x, w = operand_views(op)
    lanes = target.vector_bits // op.dtype().bits
    sizes, groups = known_sizes(w.shape), op.int("groups")
    shapes = [
        _registers(vectors, most, sizes[0] // groups, lanes) for vectors, most in REGISTERS[target.vector_registers]
    ]
    filters, pixels, window = _best_window(op, problem.block, x, shapes, lanes)
    layout = PackedFilters(filters, groups, sizes, tuple(range(len(sizes) - 1)))
    planes, lines, columns = known_sizes(window.counts)
    return ConvolutionSchedule(
        algorithm="planes",
        tile=Tile(lines, columns, planes),
        arithmetic=Arithmetic(str(op.dtype()), op.dtype()),
        registers=Tile(filters, pixels),
        workers=Threads(lanes, GRAIN_PRODUCTS),
        packing=Packing(problem.block.parameters.index(w.base), layout) if _are_packed(w, problem) else None,
        taps_apart=window.lines_are_one,
        why="results are written as planes",
    )


@record
class _Registers:
    """So many filters are summed at once, for so many pixels; `time` is that of a tap of a pixel, in products."""

    filters: int
    pixels: int
    time: float


def _registers(vectors: int, most: int, count: int, lanes: int) -> _Registers:
    """The filters that waste least of `count`. Of a step along k, as many products begin in a cycle as loads do; a
    vector of pixels mostly lies in two lines of the cache and so is two.
    """

    def time(filters: int) -> float:
        loads = 2 * vectors + filters + 1
        return -(-count // filters) * (max(filters * vectors, loads, SUMS_IN_FLIGHT) + 1) / vectors

    filters = min(range(most, 0, -1), key=time)
    return _Registers(filters, vectors * lanes, time(filters))


def _best_window(
    op: Op, block: Block, x: View, shapes: Sequence[_Registers], lanes: int
) -> tuple[int, int, PlaneWindow]:
    """The registers and the window of which a pixel costs least."""
    whole = plane_window(op, block, x, lanes, (1, 1, 1))
    *outer, last = whole.axes
    filters = known_sizes(op.operands[1].shape[:1])[0] // op.int("groups")

    def cost(choice: tuple[_Registers, PlaneWindow]) -> float:
        registers, window = choice
        sums, copied, results = known_sizes((window.sums(registers.pixels), window.written, window.results))
        copying = COPYING[window.axes[-1].taps_apart, window.axes[-1].step > 1] * copied
        finishing = FINISHED_AT_ONCE if window.finishes_blocks(registers.pixels) else FINISHED
        return (sums * prod(window.taps) * registers.time + copying) / results + finishing * filters / window.channels

    columns = [count for count in last.counts if count >= SMALLEST_COLUMNS] or last.counts[-1:]
    planes, lines = [(1,), (1,), *((1,) if whole.is_open else axis.counts for axis in outer)][-2:]
    counts = pairs(planes, lines, columns)
    windows = [_with_counts(whole, *count) for count in counts if prod(count) <= MOST_SUMS]
    if _can_part_taps(op, block, whole):
        apart = replace(whole, axes=(*outer, replace(last, taps_apart=True)))
        counts = pairs(planes, lines, last.counts[-1:])
        windows += [_with_counts(apart, *count) for count in counts if prod(count) <= MOST_SUMS]
    small = [
        (registers, window)
        for registers, window in pairs(shapes, windows)
        if at_least(MOST_SUMS, window.sums(registers.pixels)) and copied_elements(window) <= WINDOW_ELEMENTS
    ]
    few = _with_counts(whole, 1, 1, min(SMALLEST_COLUMNS, last.counts[-1]))
    registers, window = min(small or pairs(shapes, [few]), key=cost)
    return registers.filters, registers.pixels, window


def _can_part_taps(op: Op, block: Block, window: PlaneWindow) -> bool:
    """Whether windows overlap along the last axis, and pixels are one axis to all that the epilogue reads."""
    last = window.axes[-1]
    is_known = all(isinstance(axis.size, int) for axis in window.axes)
    return is_known and last.taps > 1 and epilogue_leaves(block, op, 2, op.result.rank) is not None


def _whole(count: Dim, step: int) -> Dim:
    """The least number of whole steps from `count` on."""
    return floordiv(count + step - 1, step) * step


def copied_elements(window: PlaneWindow) -> int:
    """What a unit copies."""
    return window.copied_channels * known_sizes((window.channel_step,))[0]


def plane_window(
    op: Op, block: Block, x: View, lanes: int, counts: tuple[int, int, int], *, taps_apart: bool = False
) -> PlaneWindow:
    """The window of a unit with so many planes, lines and columns, which are the most where only a call knows how many
    there are; spatial axes that nothing tells apart are one."""
    axes = _axes(op, x)
    axes = (*axes[:-1], replace(axes[-1], taps_apart=taps_apart))
    if is_flat(op, block, x):
        last = axes[-1]
        axes = (replace(last, size=product(op.result.shape[2:]), image=product(axis.image for axis in axes)),)
    lie_last = x.strides[parse_dimensions(op.text("dimensions")).x.channel] == 1 and axes[-1].stride != 1
    window = PlaneWindow(axes, known_sizes(op.operands[1].shape[1:2])[0], lanes, channels_lie_last=lie_last)
    return _with_counts(window, *counts)


def _with_counts(window: PlaneWindow, *last: int) -> PlaneWindow:
    counts = [*[1] * len(window.axes), *last][-len(window.axes) :]
    axes = tuple(replace(axis, count=count) for axis, count in zip(window.axes, counts, strict=True))
    return replace(window, axes=axes)


def _axes(op: Op, x: View) -> tuple[PlaneAxis, ...]:
    spatial = parse_dimensions(op.text("dimensions")).x.spatial
    rows = zip(op.ints("strides"), op.ints("dilations"), known_sizes(op.operands[1].shape[2:]), strict=True)
    return tuple(
        PlaneAxis(op.result.shape[2 + ordinal], x.shape[axis], x.strides[axis], op.dims("low")[ordinal], *row)
        for ordinal, (axis, row) in enumerate(zip(spatial, rows, strict=True))
    )


def is_flat(op: Op, block: Block, x: View) -> bool:
    """Whether image, result and all that the epilogue reads step through their pixels as one axis."""
    axes = _axes(op, x)
    if {(axis.taps, axis.step) for axis in axes} != {(1, 1)} or any((*op.dims("low"), *op.dims("high"))):
        return False
    merges = all(outer.stride == inner.stride * inner.image for outer, inner in pairwise(axes))
    return merges and epilogue_leaves(block, op, 2, op.result.rank) is not None
