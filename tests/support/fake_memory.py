"""The memory of a fake device: blocks of the host's, with bounds that are watched."""

from bisect import bisect_right, insort

import numpy as np

GUARD_BYTES = 512
GUARD, FRESH = 0xA5, 0xFF


class FakeMemory:
    """Allocations by address. What is fresh holds 0xFF, which is NaN for every float; guards lie around each."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.device_bytes = 0
        self.most_bytes = 0
        self._blocks: dict[int, tuple[np.ndarray, int, bool]] = {}
        self._starts: list[int] = []
        self._freed: set[int] = set()

    def allocate(self, nbytes: int, on_device: bool) -> int | None:
        """An address on a boundary of 512 bytes, or None where the limit is reached."""
        if on_device and self.device_bytes + nbytes > self.limit_bytes:
            return None
        block = np.full(nbytes + 3 * GUARD_BYTES, GUARD, np.uint8)
        base = block.ctypes.data
        start = base + GUARD_BYTES + -base % GUARD_BYTES
        block[start - base : start - base + nbytes] = FRESH
        self._blocks[start] = (block, nbytes, on_device)
        insort(self._starts, start)
        self._freed.discard(start)
        self.device_bytes += nbytes * on_device
        self.most_bytes = max(self.most_bytes, self.device_bytes)
        return start

    def free(self, address: int, on_device: bool) -> str:
        """What is wrong with freeing the address, "" if nothing is."""
        if address not in self._blocks:
            state = "freed twice" if address in self._freed else "freed, and was never allocated"
            return f"{address:#x} is {state}"
        _, nbytes, is_on_device = self._blocks[address]
        problem = self.damage(address)
        if on_device != is_on_device:
            problem = f"{address:#x} is freed by the wrong function"
        del self._blocks[address]
        self._starts.remove(address)
        self._freed.add(address)
        self.device_bytes -= nbytes * is_on_device
        return problem

    def damage(self, address: int) -> str:
        """What was written outside of an allocation, "" if nothing was."""
        block, nbytes, _ = self._blocks[address]
        start = address - block.ctypes.data
        if np.all(block[:start] == GUARD) and np.all(block[start + nbytes :] == GUARD):
            return ""
        return f"something was written outside of the {nbytes} bytes at {address:#x}"

    def all_damage(self) -> list[str]:
        return [problem for address in self._starts if (problem := self.damage(address))]

    def holds(self, address: int, nbytes: int = 1) -> bool:
        """Whether the bytes lie inside of one live allocation."""
        start = self._start(address)
        return start is not None and address + nbytes <= start + self._blocks[start][1]

    def is_pinned(self, address: int) -> bool:
        start = self._start(address)
        return start is not None and self.holds(address) and not self._blocks[start][2]

    def is_on_device(self, address: int) -> bool:
        return self.holds(address) and not self.is_pinned(address)

    @property
    def live(self) -> int:
        """How many allocations there are."""
        return len(self._blocks)

    def _start(self, address: int) -> int | None:
        place = bisect_right(self._starts, address)
        return self._starts[place - 1] if place else None
