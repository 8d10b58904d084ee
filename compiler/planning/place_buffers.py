"""Placing buffers: one arena for all intermediate values of a segment, as a row of slots.

A slot is as large as the largest value it ever holds, where "largest" must be provable for all sizes. Large values come
first: a value moves into a slot that is free while it lives; else it gets a slot of its own. In the order of launches
values that grow from launch to launch, as those of densenet121, found the free slots too small: 130 MB, where no more
than 34 are in use at once, and 41 so.
"""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Bounds, Dim, at_least, floordiv, lower_bound, upper_bound
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import Lifetime
from onnxc.compiler.planning.typical_sizes import TypicalSizes
from onnxc.runtime.records import record

ALIGNMENT_BYTES = 64


@record(eq=False)
class _Bytes:
    """A number of bytes, and what it takes to compare it: a typical number, its symbols, and what it is between."""

    size: Dim
    typical: int
    symbols: frozenset[str]
    low: int | None
    high: int | None


@dataclass(eq=False)
class _Slot:
    """A part of the arena: as large as `largest`. Who lives in it, in the order of time, from `firsts` to `lasts`."""

    largest: _Bytes
    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)

    def is_free(self, life: "Life") -> bool:
        """Whether nobody lives in it meanwhile."""
        place = bisect(self.firsts, life.last)
        return place == 0 or self.lasts[place - 1] < life.first

    def add(self, life: "Life") -> None:
        """Notes who lives in it now, where it is free."""
        place = bisect(self.firsts, life.first)
        self.firsts.insert(place, life.first)
        self.lasts.insert(place, life.last)


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
    """Places what lives in the arena; slots are counted in the order of the first launches."""
    order = _Order(bounds)
    slots: list[_Slot] = []
    homes: dict[Tenant, _Slot] = {}
    # What is larger for all sizes is so at typical ones.
    for life in sorted(lives, key=lambda life: -order.described(life.size_bytes).typical):
        size = order.described(life.size_bytes)
        fitting = [slot for slot in slots if slot.is_free(life) and order.holds(slot.largest, size)]
        if fitting:
            home = min(fitting, key=lambda slot: slot.largest.typical)
        else:
            home = _Slot(size)
            slots.append(home)
        home.add(life)
        homes[life.tenant] = home
    used = list(dict.fromkeys(homes[life.tenant] for life in lives))
    ordinals = {slot: ordinal for ordinal, slot in enumerate(used)}
    chosen = {life.tenant: ordinals[homes[life.tenant]] for life in lives}
    lifetimes = tuple(Lifetime(chosen[life.tenant], life.size_bytes, life.first, life.last) for life in lives)
    return Placement(chosen, tuple(aligned(slot.largest.size) for slot in used), lifetimes)


class _Order:
    """Tells whether one size is at least another for all values of the symbols; each pair is decided once.

    Sizes without a common symbol are compared by their ranges: of a model whose sizes all come from data, which has
    hundreds of symbols, nearly all pairs are such.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds, self._sizes = bounds, TypicalSizes(bounds)
        self._described: dict[Dim, _Bytes] = {}
        self._decided: dict[tuple[_Bytes, _Bytes], bool] = {}

    def described(self, size: Dim) -> _Bytes:
        """The one description of a size."""
        if size not in self._described:
            low, high = lower_bound(size, self._bounds), upper_bound(size, self._bounds)
            self._described[size] = _Bytes(size, self._sizes.typical(size), symbols_of(size), low, high)
        return self._described[size]

    def holds(self, large: _Bytes, small: _Bytes) -> bool:
        """Whether what is `large` holds what is `small`."""
        if large.symbols.isdisjoint(small.symbols):
            return large.low is not None and small.high is not None and large.low >= small.high
        pair = large, small
        if pair not in self._decided:
            self._decided[pair] = at_least(large.size, small.size, self._bounds)
        return self._decided[pair]


def value_bytes(value: Value) -> Dim:
    """The bytes of a value in memory."""
    return value.tensor.elements * value.dtype.itemsize


def aligned(size_bytes: Dim) -> Dim:
    """`size_bytes` rounded up so that what follows is aligned."""
    return floordiv(size_bytes + ALIGNMENT_BYTES - 1, ALIGNMENT_BYTES) * ALIGNMENT_BYTES
