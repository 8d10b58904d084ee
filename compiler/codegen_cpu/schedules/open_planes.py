"""Windows of planes whose sizes only a call knows: how many planes, lines and columns a unit of work then has.

Units are equal parts of an axis. Where lines may be short, a unit has as many as there is room for, so that its sums
fill vectors and what lies between lines is copied for all of them.
"""

from dataclasses import replace

from onnxc.compiler.codegen_cpu.schedules.planes import (
    MOST_SUMS,
    WINDOW_ELEMENTS,
    PlaneAxis,
    PlaneWindow,
)
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.planning.layouts import known_sizes

__all__ = ["channel_room", "window_at_call"]

MOST_PIXELS = 128
"""The most that are summed at once: so many sums may be behind the last one that is wanted."""


def window_at_call(most: PlaneWindow) -> PlaneWindow:
    """The window of a unit, of that with the most planes, lines and columns."""
    *outer, last = (_part(axis, axis.count) for axis in most.axes)
    if most.is_open and outer:
        outer[-1] = _part(outer[-1], _most_lines(most, last))
    return replace(most, axes=(*outer, last))


def channel_room(most: PlaneWindow) -> int:
    """How many elements a unit copies of a channel at most."""
    room, *_ = known_sizes((most.channel_step,))
    if not most.is_open or len(most.axes) == 1:
        return room
    # More lines than there may be sums of need no room.
    line, last = most.axes[-2:]
    needed = _rows_of_a_line(most) * (MOST_SUMS + line.reach * known_sizes((last.extent,))[0]) + _between_phases(most)
    channels = most.copied_channels
    return max(room, min(needed, WINDOW_ELEMENTS // channels))


def _part(axis: PlaneAxis, most: Dim) -> PlaneAxis:
    """An axis with as many results in a unit as make the fewest equal parts of at most so many."""
    if isinstance(axis.size, int) and isinstance(most, int):
        return replace(axis, count=most)
    if most == 1:
        return replace(axis, count=1)
    parts = maximum(floordiv(axis.size + most - 1, most), 1)
    return replace(axis, count=maximum(floordiv(axis.size + parts - 1, parts), 1))


def _most_lines(most: PlaneWindow, last: PlaneAxis) -> Dim:
    """How many lines of the columns of `last` there is room for, with what their windows read between them."""
    copied = (
        floordiv((channel_room(most) - _between_phases(most)) // _rows_of_a_line(most), last.extent)
        - most.axes[-2].reach
    )
    return maximum(minimum(copied, floordiv(MOST_SUMS - MOST_PIXELS, last.extent)), 1)


def _rows_of_a_line(most: PlaneWindow) -> int:
    """How many rows are copied for each line of elements that is read: of each phase, and of each plane."""
    return known_sizes((product(most.rows),))[0] // known_sizes((most.axes[-2].extent,))[0]


def _between_phases(most: PlaneWindow) -> int:
    """What of the room of a channel lies between the phases of the last axis."""
    return most.axes[-1].phases * most.lanes
