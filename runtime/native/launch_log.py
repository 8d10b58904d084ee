"""The log of loops that a recording handle leaves: when each launch and each chunk of it ran, and in which thread.

Native code claims a record by adding to the count, and writes it (compiler/codegen_host/threads/recorded_loops.py). A
launch is over before the next one begins, so who reads the log after a call finds all records whole.
"""

import numpy as np

from onnxc.runtime.native.addresses import WORD_BYTES, read_address
from onnxc.runtime.records import record

__all__ = [
    "LOG_CAPACITY", "LOG_COUNT", "LOG_RECORDS", "RECORD_ENDED", "RECORD_LOOP", "RECORD_STARTED", "RECORD_THREAD",
    "RECORD_WORDS", "LaunchLog", "Records",
]  # fmt: skip

# The words of a log: how many records were claimed, for how many there is room, then the records, a cache line behind.
LOG_COUNT, LOG_CAPACITY, LOG_RECORDS = 0, 1, 8

# The words of a record: twice the ordinal of the loop, one more for a chunk of it; the thread; two times in ticks.
RECORD_LOOP, RECORD_THREAD, RECORD_STARTED, RECORD_ENDED, RECORD_WORDS = 0, 1, 2, 3, 4

DEFAULT_RECORDS = 1 << 17
"""Room for the 1,000 launches of a large model, each of 100 chunks; pages that no record reaches take no memory."""


@record(eq=False)
class Records:
    """What a call has left: rows of RECORD_WORDS in the order in which they were claimed, and how many had no room."""

    rows: np.ndarray
    lost: int


class LaunchLog:
    """The memory of a log."""

    def __init__(self, capacity: int = DEFAULT_RECORDS) -> None:
        self.capacity = capacity
        self._words = np.zeros(LOG_RECORDS + capacity * RECORD_WORDS + WORD_BYTES, np.int64)
        self._words[LOG_CAPACITY] = capacity

    @property
    def address(self) -> int:
        """Valid while the log is alive."""
        return read_address(self._words)

    def take(self) -> Records:
        """The records since the last time; the log is empty afterwards."""
        claimed = int(self._words[LOG_COUNT])
        kept = min(claimed, self.capacity)
        rows = self._words[LOG_RECORDS : LOG_RECORDS + kept * RECORD_WORDS].reshape(kept, RECORD_WORDS).copy()
        self._words[LOG_COUNT] = 0
        return Records(rows, claimed - kept)
