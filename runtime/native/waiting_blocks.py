"""Blocks of memory that wait for the next that needs one of their size."""

from collections import deque
from collections.abc import Sized
from contextlib import suppress
from typing import TypeVar

__all__ = ["KEPT_BYTES", "WaitingBlocks"]

KEPT_BYTES = 256 * 1024 * 1024
"""How much may wait at most. Of threads that give back at the same time each may add one block more."""

Block = TypeVar("Block", bound=Sized)


class WaitingBlocks(deque[Block]):
    """Blocks, whose length is their bytes, the oldest first; the operations of a deque are atomic."""

    def take(self, least: int, most: int) -> Block | None:
        """A block of so many bytes, of several the newest; None where none waits. Those that do not fit wait on."""
        # Another thread may take the last one first.
        with suppress(IndexError):
            for _ in range(len(self)):
                block = self.pop()
                if least <= len(block) <= most:
                    return block
                self.appendleft(block)
        return None

    def give_back(self, block: Block) -> None:
        """Lets a block wait, in the place of the oldest ones where there would be too many bytes."""
        self.append(block)
        waiting = sum(map(len, tuple(self)))
        with suppress(IndexError):
            while waiting > KEPT_BYTES:
                waiting -= len(self.popleft())
