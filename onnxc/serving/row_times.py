"""How long a row takes in calls of so many rows, and beyond how many of them no row gets cheaper."""

import math

__all__ = ["LEAST_ROWS", "CallTimes", "RowTimes"]

HARDLY = 1.1
"""Times the time of a row in larger calls: who gains less by them does not wait for them."""

LEAST_ROWS = 16
"""Below it what Python does for a call counts more than its rows do."""

LOOKS_AGAIN = 128
"""One in so many calls takes all there are, so that what is known of large calls does not get old."""

OTHERS_NS = 50_000
"""What it takes to read and answer a request: that long a row beside may take longer, as others are, meanwhile."""

_FORGETS = 1.01
"""Times what is known, at each new call of that size. Other work makes calls longer, so that the shortest counts."""


class RowTimes:
    """Of the calls of one model whose rows have the same shapes."""

    def __init__(self) -> None:
        self._row_ns: dict[int, float] = {}
        self._asked = 0

    @property
    def is_known(self) -> bool:
        """Whether anything is."""
        return bool(self._row_ns)

    def note(self, rows: int, ns: int) -> None:
        """A call of so many rows took so long; one of none counts as one."""
        size, row_ns = _size(rows), ns / max(rows, 1)
        self._row_ns[size] = min(row_ns, _FORGETS * self._row_ns.get(size, row_ns))

    def expected_ns(self, rows: int) -> float:
        """How long a call of so many rows takes: as one with most rows that are not more; ages where none is known."""
        if not self._row_ns:
            return math.inf
        size = max((known for known in self._row_ns if known <= _size(rows)), default=min(self._row_ns))
        return max(rows, 1) * self._row_ns[size]

    def enough_rows(self, most: int, spare_ns: int = 0) -> int:
        """How many rows the next call should have at most.

        That is a power of two at which a row takes hardly longer than in any larger call that is known, or up to
        `spare_ns` more.
        """
        self._asked += 1
        if self._asked % LOOKS_AGAIN:
            known = sorted(size for size in self._row_ns if 1 << size >= LEAST_ROWS)
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
        """How long a call of so many rows takes."""
        return (self.beside if beside and self.beside.is_known else self.called).expected_ns(rows)

    def enough_rows_beside(self, most: int) -> int:
        """How many rows the next call beside should have at most. The first have few, so that others are left."""
        return self.beside.enough_rows(most, OTHERS_NS) if self.beside.is_known else min(most, LEAST_ROWS)


def _size(rows: int) -> int:
    """The bits of rows - 1: what is known of calls of 9 to 16 rows is at 4."""
    return max(rows - 1, 0).bit_length()
