"""Schedules: how a kernel is computed, typed, frozen and printable, one class for each kernel kind.

All is decided here before code is written: algorithm, tiles, splits, arithmetic, packing of weights, scratch memory.
Emitters only read. `why` says what decided it; for a general kernel, what kept a fast one away.
"""

from dataclasses import field, fields
from typing import Literal

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.planning.layouts import Layout
from onnxc.runtime.records import record

__all__ = [
    "PROGRAM_ALIGNMENT",
    "Arithmetic",
    "AttentionSchedule",
    "BlockProductSchedule",
    "CompactionSchedule",
    "ConcatenateSchedule",
    "ContractionSchedule",
    "ConvolutionSchedule",
    "Digits",
    "FourierSchedule",
    "Joining",
    "NativeCallSchedule",
    "OrderingSchedule",
    "Packing",
    "PointwiseSchedule",
    "RecurrenceSchedule",
    "ReductionSchedule",
    "ScanSchedule",
    "ScatterSchedule",
    "Schedule",
    "SuppressionSchedule",
    "Threads",
    "Tile",
    "TreeEnsembleSchedule",
    "Warps",
    "WindowSchedule",
]


@record
class Threads:
    """The threads of a processor: vectors of `lanes` elements; each claims about `grain` elements of work at a time.

    together: how many vectors of a row are computed step by step beside each other.
    """

    lanes: int
    grain: int
    together: int = 1

    def __str__(self) -> str:
        vectors = f"{self.together} vectors of " if self.together > 1 else ""
        return f"{vectors}{self.lanes} lanes, claims of {self.grain}"


@record
class Warps:
    """The warps of a program on a GPU, and the stages of its pipeline of loads."""

    count: int
    stages: int = 3

    def __str__(self) -> str:
        return f"{self.count} warps, {self.stages} stages"


@record
class Tile:
    """What is made at a time: rows by columns, `depth` products deep; of a fold, `columns` elements of `rows` rows."""

    rows: int
    columns: int
    depth: int = 1

    def __str__(self) -> str:
        return f"{self.rows} x {self.columns}" + (f" x {self.depth}" if self.depth != 1 else "")


@record
class Arithmetic:
    """How products are made: the form that operands are multiplied in, as "f32", "tf32x3", "i8", and the sums' type."""

    operands: str
    sums: DType

    def __str__(self) -> str:
        return f"{self.operands} -> {self.sums}"


@record
class Packing:
    """The layout that a kernel wants one of its parameters in, which is a constant."""

    parameter: int
    layout: Layout

    def __str__(self) -> str:
        return f"a{self.parameter} in {self.layout}"


@record
class Joining:
    """The second launch of a kernel whose work programs share: what it makes at a time of their parts."""

    tile: Tile
    workers: Warps

    def __str__(self) -> str:
        return f"{self.tile}, {self.workers}"


@record
class Digits:
    """How keys are taken apart where they are sorted by one digit after another: so many digits of so many bits."""

    count: int
    bits: int

    def __str__(self) -> str:
        return f"{self.count} of {self.bits} bits"


PROGRAM_ALIGNMENT = 128
"""Where memory that programs have for themselves begins: what describes a block copy lies on so many bytes."""


@record(kw_only=True)
class Schedule:
    """What schedules of all kinds have.

    shared_bytes: what the launches of a kernel share, in the kernel's symbols. program_bytes: what each of so many
    `programs` has for itself besides. fallbacks: what computes the same with fewer registers, as with smaller tiles, in
    the order of their cost, should these not suffice. loop_operations, loop_bytes: what the launches compute for each
    other, write for each other and read of that, beyond one operation for each element and one access to each buffer.
    """

    workers: Threads | Warps
    packing: Packing | None = None
    joining: Joining | None = None
    shared_bytes: Dim = 0
    program_bytes: int = 0
    programs: Dim = 0
    fallbacks: "tuple[Schedule, ...]" = field(default=(), compare=False)
    loop_operations: Dim = 0
    loop_bytes: Dim = 0
    why: str = field(default="", compare=False)

    @property
    def scratch_bytes(self) -> Dim:
        """The memory that is needed while the kernel runs, also with the fallback of most programs."""
        *_, last = (each for each in (self, *self.fallbacks) if each.program_bytes or each is self)
        if not last.program_bytes:
            return self.shared_bytes
        return self.shared_bytes + PROGRAM_ALIGNMENT + last.programs * last.program_bytes

    @property
    def brief(self) -> str:
        """What tells schedules of one kernel from each other, in a few words."""
        parts = (getattr(self, name, None) for name in ("tile", "block", "workers", "split"))
        tile, block, workers, split = parts
        shared = f", {split} programs share each" if split not in (None, 1) else ""
        others = " beside those that copy" if getattr(self, "hands_over", False) else ""
        finished = ", finished in quarters" if getattr(self, "quarters", False) else ""
        return f"{tile or f'{block} elements'}, {workers}{others}{shared}{finished}"

    def layout_of(self, parameter: int) -> Layout | None:
        """The layout of a parameter that is a constant; None for row-major."""
        packing = self.packing
        return packing.layout if packing is not None and packing.parameter == parameter else None

    def __str__(self) -> str:
        shown = ((item.name, getattr(self, item.name)) for item in fields(self) if item.compare)
        text = ", ".join(f"{name} = {_shown(value)}" for name, value in shown if value not in (None, 0, ""))
        if self.fallbacks:
            text += f", fallbacks = ({'; '.join(each.brief for each in self.fallbacks)})"
        return f"{text}; {self.why}" if self.why else text


def _shown(value: object) -> str:
    """A value of a schedule; of several packings each."""
    is_packed = isinstance(value, tuple) and any(isinstance(each, Packing) for each in value)
    return "; ".join(map(str, value)) if is_packed and isinstance(value, tuple) else str(value)


@record(kw_only=True)
class PointwiseSchedule(Schedule):
    """`rows`: along rows of a box; `short`: several rows in a vector; `flat`: in order of the result; `squares`: where
    memory is crossed.

    block: the most elements of a row in a unit of work, how many short rows, the elements of a program, or the side of
    a square. straight: whether squares go from registers to the result, and not by way of a tile. ones: symbols that
    are 1 in all calls.
    """

    algorithm: Literal["rows", "short", "flat", "squares"]
    block: int
    straight: bool = False
    ones: tuple[str, ...] = ()


@record(kw_only=True)
class ConcatenateSchedule(Schedule):
    """`rows`: each operand copied into its part of a row; `short`: several rows in a vector, element after element;
    `flat`: each element looks for its operand.

    block: elements of a program, how many short rows; 0 for a whole row of the result before the joined axis.
    """

    algorithm: Literal["rows", "short", "flat"]
    block: int = 0


@record(kw_only=True)
class ReductionSchedule(Schedule):
    """`rows`: row after row, with so many `accumulators`; `short`: several rows in a vector, element after element;
    `tiles`: tiles of rows by columns.

    split: how many programs share a row; a second launch folds their parts. is_held: rows are in registers from their
    first pass to their last. staged_cost: else a value that costs more than this per element, and is wanted in two
    passes, waits in the row of the result. least_turns: so often so many searches for an extremum take turns at least.
    """

    algorithm: Literal["rows", "short", "tiles"]
    tile: Tile
    split: int = 1
    accumulators: int = 1
    staged_cost: int = 0
    is_held: bool = False
    least_turns: int = 0


@record(kw_only=True)
class ContractionSchedule(Schedule):
    """`panels`: rows against panels of columns; `shallow`: the same of few steps along k, from registers to the result;
    `bytes`: in groups of bytes; `lines`: rows against a line along k; `sweeps`: a row against rows of columns in order;
    `tiles`: on tensor cores; `general`: each element sums its products.

    tile: of a unit of work, `depth` of it at a time. registers: what is kept in registers of it. split: how many
    programs share the sum along k; a second launch adds their parts. left: which operand the rows are of. packs_rows,
    packs_columns: these are copied before they are multiplied, in the type of the sums. keeps_rows: once for all
    panels. resident: how many programs there are at most, each of which makes one tile after the other; 0 for one tile
    of each. hands_over: warps of their own copy blocks, and leave registers to those that multiply. quarters: what
    follows a tile of many sums is computed for a quarter of its columns at a time, not for half of them. products: how
    many are made of the same rows, each in tiles of their own.
    """

    algorithm: Literal["panels", "shallow", "bytes", "lines", "sweeps", "tiles", "general"]
    tile: Tile
    arithmetic: Arithmetic
    registers: Tile | None = None
    left: int = 0
    packs_rows: bool = False
    keeps_rows: bool = False
    packs_columns: bool = False
    split: int = 1
    block_copies: bool = False
    resident: int = 0
    hands_over: bool = False
    quarters: bool = False
    products: int = 1


@record(kw_only=True)
class BlockProductSchedule(Schedule):
    """`panels`: rows against panels of columns, whose codes become floats in registers; `tiles`: the same on tensor
    cores; `lines`: few rows, each element of a tile of codes by that of each row.

    tile: of a unit of work; from `many_rows` on, where that is not 0, panels are written out as floats, `depth` of k at
    a time. registers: the most rows that are multiplied at once, by the columns that are then. split: how many programs
    share the sum along k; a second launch adds their parts. spreads: how the scales lie, and the zero points where
    there are any.
    """

    algorithm: Literal["panels", "tiles", "lines"]
    tile: Tile
    arithmetic: Arithmetic
    spreads: tuple[Packing, ...]
    registers: Tile | None = None
    many_rows: int = 0
    split: int = 1

    def layout_of(self, parameter: int) -> Layout | None:
        """The layout of a parameter that is a constant; None for row-major."""
        spread = next((each.layout for each in self.spreads if each.parameter == parameter), None)
        return super().layout_of(parameter) if spread is None else spread


@record(kw_only=True)
class ConvolutionSchedule(Schedule):
    """`rows`: pixels against panels of filters; `winograd`: tiles of 2 x 2 pixels, transformed; `planes`:
    pixels side by side, of which each filter makes a plane; `columns`: pixels by all taps, whose products are added to
    the results that they belong to; `bytes`, `tiles` as of contractions; `depthwise`: a filter for each channel;
    `direct`, `general`: each element sums its own window.

    tile: pixels by filters, `depth` products of a window at a time; of the depthwise kernel neighbouring pixels by the
    channels of a unit of work, and `unit` the lines and columns of the result in one; of `planes` the lines and columns
    of a unit, in `depth` planes of a volume; of `columns` the lines and columns of an image that are multiplied at a
    time, and in `depth` the filters of a unit; of `direct` on a GPU the neighbouring results of a lane.
    packs_rows: windows are copied before they are multiplied. surrounds: those that may leave the image are copied with
    zeros beside it. finishes_in_turn: the sums of a tile wait in memory for one loop that has what follows them.
    group: how many pixels of `rows` are finished together, once they are multiplied.
    flat: k is one axis of taps and channels; else no step has channels of two taps. small_image: images of at most so
    many elements are read again for each panel of filters, rather than the filters for each chunk of pixels.
    taps_apart: `planes` copy what windows read once for each tap of a line. chunks: into how many the pixels of `rows`
    are parted at least, where each has two blocks of registers.
    """

    algorithm: Literal["rows", "winograd", "planes", "columns", "bytes", "depthwise", "tiles", "direct", "general"]
    tile: Tile
    arithmetic: Arithmetic
    registers: Tile | None = None
    unit: Tile | None = None
    packs_rows: bool = False
    surrounds: bool = False
    finishes_in_turn: bool = False
    group: int = 0
    split: int = 1
    flat: bool = False
    small_image: int = 0
    taps_apart: bool = False
    chunks: int = 1


@record(kw_only=True)
class WindowSchedule(Schedule):
    """`bands`: rows of the result that share what they fold; `lines`: what the windows of a row meet is first folded to
    one line; `flat`: each element folds its own window.

    block: rows of a band, or elements of a program. strip: the most results that a line is folded for at a time.
    line_elements: how many elements the lines of several rows have together.
    """

    algorithm: Literal["bands", "lines", "flat"]
    block: int
    strip: int = 0
    line_elements: int = 0


@record(kw_only=True)
class ScatterSchedule(Schedule):
    """`ranges`: each unit copies a range and applies its updates; `flat`: each element looks for its updates; `last`:
    the last update of each row is looked for first; `sorted`: updates are sorted by the row that they go to.

    units: how many ranges. block: elements of a program. digits: of the rows that updates go to.
    """

    algorithm: Literal["ranges", "flat", "last", "sorted"]
    units: Dim = 0
    block: int = 0
    digits: Digits | None = None


@record(kw_only=True)
class ScanSchedule(Schedule):
    """`lines`: each line by one thread; `tiles`: lines side by side, tile by tile. tile: lines by elements of each.

    split: how many programs share a line; a first launch folds their parts.
    """

    algorithm: Literal["lines", "tiles"]
    tile: Tile
    split: int = 1


@record(kw_only=True)
class CompactionSchedule(Schedule):
    """How the positions of what is true are written, in so many ranges: `units`.

    `bits`: one after another; `vectors`: where there are many, as many at once as a vector of 512 bits has; `blocks`:
    so many elements at a time as `block` says.
    """

    algorithm: Literal["bits", "vectors", "blocks"]
    units: Dim
    block: int = 0


@record(kw_only=True)
class OrderingSchedule(Schedule):
    """`heap` and `radix`: each line by one thread; `lanes`: a line in each lane; `counting`: every element counts those
    before it, tile by tile; `digits`: lines are sorted by one digit after another; `rounds`: each round leaves the best
    of each block.

    tile: elements that are placed, by elements that they are compared with. block: elements of a block. lane_axis: the
    axis of the operand along which lines are in lanes.
    """

    algorithm: Literal["heap", "radix", "lanes", "counting", "digits", "rounds"]
    tile: Tile = Tile(1, 1)
    lane_axis: int | None = None
    digits: Digits | None = None
    rounds: int = 0
    block: int = 0


@record(kw_only=True)
class AttentionSchedule(Schedule):
    """Tiles of queries (rows) by keys (columns), heads padded to `widths` (of queries and keys, of values).

    `tiles`: on tensor cores; `panels`: queries in the lanes of vectors; `lines`: few queries, keys in
    the lanes.
    registers: what is kept in registers where weights are multiplied by values. split: how many programs share the
    keys, with all heads of a group in one tile; a second launch joins their parts.
    slice_bytes: what one number of each slice takes. mask_columns: how many columns may be read of those parts
    of the mask that have more than there are keys.
    """

    tile: Tile
    widths: tuple[int, int]
    arithmetic: Arithmetic
    registers: Tile | None = None
    split: int = 1
    slice_bytes: Dim = 0
    mask_columns: Dim = 0
    algorithm: Literal["tiles", "panels", "lines"] = "tiles"


@record(kw_only=True)
class RecurrenceSchedule(Schedule):
    """`whole`: a program computes all units of some rows; `shared`: so many `parts` of them are computed by a program
    each, and these wait for each other in every round.

    tile: rows by units of a program, `depth` products at a time. groups: of how many tiles of rows the programs run at
    the same time, 0 for all.
    """

    algorithm: Literal["whole", "shared"]
    tile: Tile
    arithmetic: Arithmetic
    parts: int = 1
    groups: int = 0


@record(kw_only=True)
class SuppressionSchedule(Schedule):
    """How each class of each image takes the best box that is left.

    `blocks`: one thread looks at the best of each block of boxes; `rounds`: one program looks at all boxes, `block` at
    a time.
    """

    algorithm: Literal["blocks", "rounds"]
    block: int = 0


@record(kw_only=True)
class NativeCallSchedule(Schedule):
    """What workers share of the work of a caller's code: ranges of elements, ranges of rows, or nothing.

    block: how many of them a program of a GPU takes; threads take any number.
    """

    algorithm: Literal["elements", "rows", "whole"]
    block: int = 0


@record(kw_only=True)
class FourierSchedule(Schedule):
    """`passes`: one over all elements for each factor of the length."""

    algorithm: Literal["passes"]


@record(kw_only=True)
class TreeEnsembleSchedule(Schedule):
    """`walks`: a unit is a block of rows, of which so many at once walk down a tree; a row alone, down so many trees.

    block: the rows of a unit. walks: how many are under way at once. scores: where those of a block are added up, in
    the result itself or, in a wider type, in memory of their own. looks_for_missing: whether a block is looked through
    for NaN, without which no test asks where it goes.
    """

    algorithm: Literal["walks"]
    block: int
    walks: int
    scores: Literal["result", "block"]
    looks_for_missing: bool
