"""Placing buffers: one arena for all intermediate values of a segment, as a row of slots.

A slot is as large as the largest value it ever holds, where "largest" must be provable for all sizes. A value moves
into a slot that is free while it lives; else it gets a slot of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Bounds, Dim, at_least, floordiv, lower_bound, upper_bound
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Lifetime

ALIGNMENT_BYTES = 64


@dataclass(eq=False)
class _Slot:
    """A part of the arena: as large as the largest of `sizes`, the others being provably at most that."""

    ordinal: int
    size_bytes: Dim
    sizes: set[Dim]
    free_after: int


Tenant = Value | int
"""What lies in the arena: a value, or the scratch memory of a launch, by its ordinal."""


@dataclass(frozen=True)
class Life:
    """What lies in the arena from launch `first` to launch `last`."""

    tenant: Tenant
    size_bytes: Dim
    first: int
    last: int


@dataclass(frozen=True)
class Placement:
    """The slot of each tenant, the bytes of each slot, and who lives where and how long."""

    slots: dict[Tenant, int]
    slot_bytes: tuple[Dim, ...]
    lifetimes: tuple[Lifetime, ...]


def place_buffers(lives: Sequence[Life], bounds: Bounds) -> Placement:
    """Places what lives in the arena, in order of the first launches."""
    slots: list[_Slot] = []
    chosen: dict[Tenant, int] = {}

    holds = _order_within(bounds)
    for life in lives:
        slot = _best_slot(slots, life.size_bytes, life.first, holds)
        if slot is None:
            slot = _Slot(len(slots), life.size_bytes, set(), life.last)
            slots.append(slot)
        elif not holds(slot.size_bytes, life.size_bytes):
            slot.size_bytes = life.size_bytes
        slot.sizes.add(life.size_bytes)
        slot.free_after = life.last
        chosen[life.tenant] = slot.ordinal
    lifetimes = tuple(Lifetime(chosen[life.tenant], life.size_bytes, life.first, life.last) for life in lives)
    return Placement(chosen, tuple(aligned(slot.size_bytes) for slot in slots), lifetimes)


def _order_within(bounds: Bounds) -> Callable[[Dim, Dim], bool]:
    """Whether one size is at least another for all values of the symbols; each pair is decided once.

    Sizes without a common symbol are compared by their ranges: of a model whose sizes all come from data, which has
    hundreds of symbols, nearly all pairs are such.
    """

    @cache
    def described(size: Dim) -> tuple[frozenset[str], int | None, int | None]:
        return symbols_of(size), lower_bound(size, bounds), upper_bound(size, bounds)

    @cache
    def holds(large: Dim, small: Dim) -> bool:
        (symbols, low, _), (others, _, high) = described(large), described(small)
        if symbols.isdisjoint(others):
            return low is not None and high is not None and low >= high
        return at_least(large, small, bounds)

    return holds


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
