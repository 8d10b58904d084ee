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

MOST_LANES = 16
"""Those of a vector of f32 of the widest processors: so many channels there is room for where they are turned."""

COPYING = 4
"""An element is copied in the time of so many products."""

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
    """A spatial axis: `size` results and `image` elements of it, these `stride` apart; a unit has `count` results."""

    size: Dim
    image: Dim
    stride: Dim
    low: Dim
    step: int
    dilation: int
    taps: int
    count: Dim = 1

    @property
    def phases(self) -> int:
        """How many parts with elements `step` apart the windows read."""
        return 1 if self.taps == 1 or self.dilation % self.step == 0 else self.step

    @property
    def reach(self) -> int:
        """How many elements of a phase a unit reads beside one for each result."""
        return (self.taps - 1) * self.dilation // self.step

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
    """What a unit reads of `channels`: each as [phase of the last axis][phase, extent of the others][extent]."""

    axes: tuple[PlaneAxis, ...]
    channels: int
    lanes: int

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
    def channel_step(self) -> Dim:
        """How far apart channels are: whole vectors are written of the last row, too."""
        return product(self.rows) * self.pitch + self.lanes

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
    if max(op.ints("input_dilations")) > 1:
        return "the input is dilated"
    x, w = map(operand_view, op.operands)
    if x is None or w is None:
        return "an operand does not lie in strides"
    if not problem.is_constant(problem.block.parameters.index(w.base)) or not is_dense(w):
        return "the filters are no constant"
    smallest = plane_window(op, problem.block, x, MOST_LANES, (1, 1, SMALLEST_COLUMNS))
    return "" if copied_elements(smallest) <= MOST_ELEMENTS else "a line of windows is too much for the stack"


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
        packing=Packing(problem.block.parameters.index(w.base), layout),
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

    def cost(choice: tuple[_Registers, PlaneWindow]) -> float:
        registers, window = choice
        sums, copied, results = known_sizes((window.sums(registers.pixels), window.channel_step, window.results))
        return (sums * prod(window.taps) * registers.time + COPYING * copied) / results

    columns = [count for count in last.counts if count >= SMALLEST_COLUMNS] or last.counts[-1:]
    planes, lines = [(1,), (1,), *((1,) if whole.is_open else axis.counts for axis in outer)][-2:]
    counts = pairs(planes, lines, columns)
    windows = (_with_counts(whole, *count) for count in counts if prod(count) <= MOST_SUMS)
    small = [
        (registers, window)
        for registers, window in pairs(shapes, windows)
        if at_least(MOST_SUMS, window.sums(registers.pixels)) and copied_elements(window) <= WINDOW_ELEMENTS
    ]
    few = _with_counts(whole, 1, 1, min(SMALLEST_COLUMNS, last.counts[-1]))
    registers, window = min(small or pairs(shapes, [few]), key=cost)
    return registers.filters, registers.pixels, window


def _whole(count: Dim, step: int) -> Dim:
    """The least number of whole steps from `count` on."""
    return floordiv(count + step - 1, step) * step


def copied_elements(window: PlaneWindow) -> int:
    """What a unit copies, of whole vectors of channels."""
    channels = -(-window.channels // window.lanes) * window.lanes
    return channels * known_sizes((window.channel_step,))[0]


def plane_window(op: Op, block: Block, x: View, lanes: int, counts: tuple[int, int, int]) -> PlaneWindow:
    """The window of a unit with so many planes, lines and columns, which are the most where only a call knows how many
    there are; spatial axes that nothing tells apart are one."""
    axes = _axes(op, x)
    if is_flat(op, block, x):
        last = axes[-1]
        axes = (replace(last, size=product(op.result.shape[2:]), image=product(axis.image for axis in axes)),)
    window = PlaneWindow(axes, known_sizes(op.operands[1].shape[1:2])[0], lanes)
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
