"""How long a row takes in calls of so many rows, and beyond how many of them no row gets cheaper."""

import math
from collections.abc import Mapping

__all__ = ["LEAST_ROWS", "CallTimes", "RowTimes"]

HARDLY = 1.1
"""Times the time of a row in larger calls: who gains less by them does not wait for them."""

LEAST_ROWS = 16
"""Below it what Python does for a call counts more than its rows do."""

LOOKS_AGAIN = 128
"""One in so many calls takes all there are, so that what is known of large calls does not get old."""

SHARED = 2
"""Times the time of a call: what one beside takes at most where two threads share a core."""

OTHERS_NS = 50_000
"""What it takes to read and answer a request: that long a row beside may take longer, as others are, meanwhile."""

_FORGETS = 1.01
"""Times what is known, at each new call of that size. Other work makes calls longer, so that the shortest counts."""


class RowTimes:
    """Of the calls of one model whose rows have the same shapes."""

    def __init__(self) -> None:
        self._row_ns: dict[int, float] = {}
        self._asked = 0

    def note(self, rows: int, ns: int) -> None:
        """A call of so many rows took so long; one of none counts as one."""
        size, row_ns = _size(rows), ns / max(rows, 1)
        self._row_ns[size] = min(row_ns, _FORGETS * self._row_ns.get(size, row_ns))

    def known(self) -> Mapping[int, float]:
        """The numbers of rows, powers of two, of which calls are known, and how long such a call takes."""
        return {1 << size: (1 << size) * row_ns for size, row_ns in self._row_ns.items()}

    def expected_ns(self, rows: int) -> float:
        """How long a call of so many rows takes; ages where none is known.

        That is what rows take in the one with most rows that are not more, or all of one with more, if that is less.
        """
        size = _size(rows)
        fewer = [known for known in self._row_ns if known <= size]
        as_fewer = max(rows, 1) * self._row_ns[max(fewer)] if fewer else math.inf
        return min([as_fewer, *((1 << known) * row_ns for known, row_ns in self._row_ns.items() if known > size)])

    def enough_rows(self, most: int, first: int | None = None, spare_ns: int = 0) -> int:
        """How many rows the next call should have at most.

        That is a power of two at which a row takes hardly longer than in any larger call that is known, or up to
        `spare_ns` more. `first`, or `most` without it, where there are no two to be compared.
        """
        self._asked += 1
        known = sorted(size for size in self._row_ns if 1 << size >= LEAST_ROWS)
        if self._asked % LOOKS_AGAIN == 0:
            return most
        if not known[1:]:
            return most if first is None else min(first, most)
        for ordinal, size in enumerate(known[:-1], 1):
            least_ns = min(self._row_ns[larger] for larger in known[ordinal:])
            if self._row_ns[size] <= HARDLY * least_ns + spare_ns:
                return min(1 << size, most)
        return most


class CallTimes:
    """Of the calls of one kind: `called`, made by a thread of Python, and `beside`, made while that does other work.

    Two hardware threads of a core share what it takes, so that the latter are longer: of 16 rows by a third.
    """

    def __init__(self) -> None:
        self.called, self.beside = RowTimes(), RowTimes()

    def expected_ns(self, rows: int, *, beside: bool) -> float:
        """How long a call of so many rows takes; a single one that took long for another reason is not believed."""
        called_ns = self.called.expected_ns(rows)
        return min(self.beside.expected_ns(rows), SHARED * called_ns) if beside else called_ns

    def enough_rows_beside(self, most: int) -> int:
        """How many rows the next call beside should have at most. The first have few, so that others are left."""
        return self.beside.enough_rows(most, LEAST_ROWS, OTHERS_NS)


def _size(rows: int) -> int:
    """The bits of rows - 1: what is known of calls of 9 to 16 rows is at 4."""
    return max(rows - 1, 0).bit_length()
