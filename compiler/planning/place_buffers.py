"""Placing buffers: one arena for all intermediate values of a segment, as a row of slots.

A slot is as large as the largest value it ever holds, where "largest" must be provable for all sizes. A value moves
into a slot that is free while it lives; else it gets a slot of its own.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Bounds, Dim, at_least, floordiv, lower_bound, upper_bound
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Lifetime
from onnxc.runtime.records import record

ALIGNMENT_BYTES = 64


@record(eq=False)
class _Bytes:
    """A number of bytes, and what it takes to compare it: its symbols, and between which numbers it is."""

    size: Dim
    symbols: frozenset[str]
    low: int | None
    high: int | None


@dataclass(eq=False)
class _Slot:
    """A part of the arena: as large as the largest of `sizes`, the others being provably at most that."""

    ordinal: int
    largest: _Bytes
    sizes: set[_Bytes]
    free_after: int


Tenant = Value | int
"""What lies in the arena: a value, or the scratch memory of a launch, by its ordinal."""


@record
class Life:
    """What lies in the arena from launch `first` to launch `last`."""

    tenant: Tenant
    size_bytes: Dim
    first: int
    last: int


@record
class Placement:
    """The slot of each tenant, the bytes of each slot, and who lives where and how long."""

    slots: dict[Tenant, int]
    slot_bytes: tuple[Dim, ...]
    lifetimes: tuple[Lifetime, ...]


def place_buffers(lives: Sequence[Life], bounds: Bounds) -> Placement:
    """Places what lives in the arena, in order of the first launches."""
    slots: list[_Slot] = []
    chosen: dict[Tenant, int] = {}
    order = _Order(bounds)
    for life in lives:
        size = order.described(life.size_bytes)
        slot = _best_slot(slots, size, life.first, order)
        if slot is None:
            slot = _Slot(len(slots), size, set(), life.last)
            slots.append(slot)
        elif not order.holds(slot.largest, size):
            slot.largest = size
        slot.sizes.add(size)
        slot.free_after = life.last
        chosen[life.tenant] = slot.ordinal
    lifetimes = tuple(Lifetime(chosen[life.tenant], life.size_bytes, life.first, life.last) for life in lives)
    return Placement(chosen, tuple(aligned(slot.largest.size) for slot in slots), lifetimes)


class _Order:
    """Tells whether one size is at least another for all values of the symbols; each pair is decided once.

    Sizes without a common symbol are compared by their ranges: of a model whose sizes all come from data, which has
    hundreds of symbols, nearly all pairs are such.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._described: dict[Dim, _Bytes] = {}
        self._decided: dict[tuple[_Bytes, _Bytes], bool] = {}

    def described(self, size: Dim) -> _Bytes:
        """The one description of a size."""
        if size not in self._described:
            low, high = lower_bound(size, self._bounds), upper_bound(size, self._bounds)
            self._described[size] = _Bytes(size, symbols_of(size), low, high)
        return self._described[size]

    def holds(self, large: _Bytes, small: _Bytes) -> bool:
        """Whether what is `large` holds what is `small`."""
        if large.symbols.isdisjoint(small.symbols):
            return large.low is not None and small.high is not None and large.low >= small.high
        pair = large, small
        if pair not in self._decided:
            self._decided[pair] = at_least(large.size, small.size, self._bounds)
        return self._decided[pair]


def _best_slot(slots: Sequence[_Slot], size: _Bytes, first: int, order: _Order) -> _Slot | None:
    """A slot free from launch `first` on: the first that is large enough, else the last that may grow to be.

    Slots are compared by their sizes, of which there are fewer: slots of one size are as good as the first of them.
    """
    free = [slot for slot in slots if slot.free_after < first]
    counts = Counter(slot.largest for slot in free)
    fitting = [each for each in counts if order.holds(each, size)]
    if fitting:
        held = {each: sum(counts[other] for other in fitting if order.holds(each, other)) for each in fitting}
        return min((slot for slot in free if slot.largest in held), key=lambda slot: held[slot.largest])
    may_grow = (slot for slot in reversed(free) if all(order.holds(size, other) for other in slot.sizes))
    return next(may_grow, None)


def value_bytes(value: Value) -> Dim:
    """The bytes of a value in memory."""
    return value.tensor.elements * value.dtype.itemsize


def aligned(size_bytes: Dim) -> Dim:
    """`size_bytes` rounded up so that what follows is aligned."""
    return floordiv(size_bytes + ALIGNMENT_BYTES - 1, ALIGNMENT_BYTES) * ALIGNMENT_BYTES
