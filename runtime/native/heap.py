"""The heap of a workspace: memory of native calls whose sizes only the call finds.

Native code lets the buffers grow, and they stay for later calls; they are freed with this object. One that holds an
output may leave it, and another that has left a heap and is no longer used takes its place.
"""

import ctypes
import weakref
from array import array
from collections.abc import Callable, Iterator

from onnxc.runtime.native.addresses import WORD_BYTES
from onnxc.runtime.native.waiting_blocks import WaitingBlocks
from onnxc.runtime.program import BUFFER_WORDS, HEAP_BUFFERS, HEAP_CHECK

__all__ = ["Heap", "HeapBlock", "waiting_buffers"]

LARGEST_UNUSED_PART = 2
"""A buffer leaves its heap with an output that it is larger than by at most this part: as much as it may have grown."""

_free = ctypes.CDLL(None).free
_free.argtypes = [ctypes.c_void_p]
_free.restype = None

_CHECK = ctypes.CFUNCTYPE(ctypes.c_int64)


class HeapBlock:
    """A buffer that has left its heap; freed with this object."""

    __slots__ = ("_nbytes", "address")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self._nbytes = nbytes

    def __len__(self) -> int:
        return self._nbytes

    def __del__(self, free: Callable[[int], None] = _free) -> None:
        # At exit the names of the module may be gone by then.
        free(self.address)


waiting_buffers = WaitingBlocks[HeapBlock]()
"""Those that no output lies in any more."""


class Heap:
    """The words that native code sees at `address`: how it asks for signals, then its buffers."""

    __slots__ = ("__weakref__", "_check", "_left", "_raised", "words")

    def __init__(self, buffers: int) -> None:
        self.words = array("q", bytes((HEAP_BUFFERS + BUFFER_WORDS * buffers) * WORD_BYTES))
        self._raised: list[BaseException] = []
        # The words of buffers that have left, and the least and the most bytes of what takes their place.
        self._left: list[tuple[int, int, int]] = []
        checks = _signal_checks(self._raised)
        next(checks)
        self._check = _CHECK(checks.__next__)
        self.words[HEAP_CHECK] = ctypes.cast(self._check, ctypes.c_void_p).value or 0
        # Not at exit: what ctypes knows of the function may be gone by then.
        weakref.finalize(self, _free_buffers, self.words).atexit = False

    @property
    def address(self) -> int:
        """Where native code finds the words; they never move."""
        return self.words.buffer_info()[0]

    @property
    def nbytes(self) -> int:
        """The bytes of all buffers."""
        return sum(self.words[HEAP_BUFFERS + 1 :: BUFFER_WORDS])

    def take_out(self, address: int, nbytes: int) -> HeapBlock | None:
        """The buffer at an address, None where it is no buffer, or much larger than so many bytes.

        What is interrupted loses a buffer rather than free it twice.
        """
        words, most = self.words, nbytes + nbytes // LARGEST_UNUSED_PART
        for at in range(HEAP_BUFFERS, len(words), BUFFER_WORDS):
            if words[at] == address:
                capacity = words[at + 1]
                if not nbytes <= capacity <= most:
                    return None
                words[at] = words[at + 1] = 0
                self._left.append((at, nbytes, most))
                return HeapBlock(address, capacity)
        return None

    def refill(self) -> None:
        """Puts buffers that wait where others have left, before the next call.

        Not at once: mostly the output of this call dies before the next, and its buffer is in the caches. 512 x 768 f32
        of a shape that a call tells took 78 us in two buffers in turns, and take 51.
        """
        words = self.words
        while self._left:
            at, nbytes, most = self._left.pop()
            if not words[at] and (other := waiting_buffers.take(nbytes, most)) is not None:
                other.address, words[at], words[at + 1] = 0, other.address, len(other)

    def interruption(self) -> BaseException:
        """What a handler has raised, once."""
        raised = self._raised[:]
        self._raised.clear()
        return raised[0] if raised else KeyboardInterrupt()


def _free_buffers(words: "array[int]") -> None:
    for address in words[HEAP_BUFFERS::BUFFER_WORDS]:
        _free(address)


def _signal_checks(raised: list[BaseException]) -> Iterator[int]:
    """1 again and again; 0 once a handler of a signal has raised, which is then in `raised`.

    Python runs handlers where it goes on with code: here, at the yield and inside of the try. In a plain function that
    would be before its first line, and ctypes would drop what they raise.
    """
    while True:
        try:
            yield 0 if raised else 1
        except GeneratorExit:
            return
        except BaseException as problem:
            raised.append(problem)
