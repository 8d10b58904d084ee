"""Placing buffers: one arena for all intermediate values of a segment, its offsets closed expressions of the sizes.

The arena is a row of slots, each as large as the largest value it ever holds, where "largest" must be provable for all
sizes. A value moves into a slot that is free while it lives; else it gets a slot of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from onnxc.compiler.ir.dims import Bounds, Dim, at_least, floordiv
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Lifetime

ALIGNMENT_BYTES = 64


@dataclass(eq=False)
class _Slot:
    """A part of the arena: as large as the largest of `sizes`, the others being provably at most that."""

    size_bytes: Dim
    sizes: set[Dim]
    free_after: int


@dataclass(frozen=True)
class Placement:
    """The offset of each value, the size of the arena, and who lives where and how long."""

    offsets: dict[Value, Dim]
    arena_bytes: Dim
    lifetimes: tuple[Lifetime, ...]


def place_buffers(lives: Sequence[tuple[Value, int, int]], bounds: Bounds) -> Placement:
    """Places values given as (value, first launch, last launch), in order of their first launch."""
    slots: list[_Slot] = []
    chosen: dict[Value, _Slot] = {}

    @cache
    def holds(large: Dim, small: Dim) -> bool:
        return at_least(large, small, bounds)

    for value, first, last in lives:
        size = value_bytes(value)
        slot = _best_slot(slots, size, first, holds)
        if slot is None:
            slot = _Slot(size, set(), last)
            slots.append(slot)
        elif not holds(slot.size_bytes, size):
            slot.size_bytes = size
        slot.sizes.add(size)
        slot.free_after = last
        chosen[value] = slot
    starts: dict[int, Dim] = {}
    end: Dim = 0
    for slot in slots:
        starts[id(slot)] = end
        end = end + aligned(slot.size_bytes)
    offsets = {value: starts[id(slot)] for value, slot in chosen.items()}
    lifetimes = tuple(Lifetime(offsets[value], value_bytes(value), first, last) for value, first, last in lives)
    return Placement(offsets, end, lifetimes)


def _best_slot(slots: Sequence[_Slot], size: Dim, first: int, holds: Callable[[Dim, Dim], bool]) -> _Slot | None:
    """A slot free from launch `first` on: the first that is large enough, else the last that may grow to be."""
    free = [slot for slot in slots if slot.free_after < first]
    fitting = [slot for slot in free if holds(slot.size_bytes, size)]
    if fitting:
        return min(fitting, key=lambda slot: sum(holds(slot.size_bytes, other.size_bytes) for other in fitting))
    growing = [slot for slot in free if all(holds(size, other) for other in slot.sizes)]
    return growing[-1] if growing else None


def value_bytes(value: Value) -> Dim:
    """The bytes of a value in memory."""
    return value.tensor.elements * value.dtype.itemsize


def aligned(size_bytes: Dim) -> Dim:
    """`size_bytes` rounded up so that what follows is aligned."""
    return floordiv(size_bytes + ALIGNMENT_BYTES - 1, ALIGNMENT_BYTES) * ALIGNMENT_BYTES
