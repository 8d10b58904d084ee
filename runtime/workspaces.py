"""What a native call needs besides its arrays: a frame, a status block and an arena, one set for each call in progress.

A call takes a workspace, has it alone, and gives it back; so calls in several threads never wait for each other. An
arena grows to the largest that its calls have needed and is kept.
"""

import ctypes
from array import array
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np

from onnxc.runtime.addresses import WORD_BYTES, read_address
from onnxc.runtime.cpu import HUGE_PAGE_BYTES, allocate_aligned
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.program import FRAME_ARENA, FRAME_POOL, FRAME_STATUS, FRAME_SYMBOLS, FRAME_WEIGHTS

__all__ = ["STATUS_WORDS", "AnyWorkspace", "Workspace", "WorkspacePool"]

STATUS_WORDS = 8


class AnyWorkspace(Protocol):
    """What the pool asks of a workspace, and a failed launch."""

    calls: int
    launches: int

    @property
    def arena_bytes(self) -> int: ...

    def take_status(self) -> tuple[int, ...]:
        """The status block, which is clear again afterwards."""


W = TypeVar("W", bound=AnyWorkspace)


class Workspace:
    """The words of the frame, the status block behind them at `status`, and the arena.

    `sizes` is what the symbols of the frame were last set for; `calls` and `launches` count what ran here.
    """

    __slots__ = ("arena", "calls", "frame", "launches", "sizes", "status", "words")

    def __init__(self, frame_words: int, pool_address: int, weights_address: int) -> None:
        self.words = array("q", bytes((frame_words + STATUS_WORDS) * WORD_BYTES))
        address = self.words.buffer_info()[0]
        self.frame = ctypes.c_void_p(address)
        self.status = frame_words
        self.words[FRAME_POOL] = pool_address
        self.words[FRAME_WEIGHTS] = weights_address
        self.words[FRAME_STATUS] = address + frame_words * WORD_BYTES
        self.arena = np.empty(0, np.uint8)
        self.sizes: object = None
        self.calls = self.launches = 0

    def prepare(self, sizes: object, symbols: "array[int]", arena_bytes: int) -> None:
        """Sets the symbols of the frame, and grows the arena to at least `arena_bytes`."""
        self.words[FRAME_SYMBOLS : FRAME_SYMBOLS + len(symbols)] = symbols
        if arena_bytes > self.arena.nbytes:
            self.sizes = None
            self.arena = np.empty(0, np.uint8)
            self.arena = _allocate(arena_bytes)
            self.words[FRAME_ARENA] = read_address(self.arena)
        self.sizes = sizes

    @property
    def arena_bytes(self) -> int:
        return self.arena.nbytes

    def take_status(self) -> tuple[int, ...]:
        """The status block, which is clear again afterwards."""
        status = tuple(self.words[self.status : self.status + STATUS_WORDS])
        self.words[self.status : self.status + STATUS_WORDS] = array("q", bytes(STATUS_WORDS * WORD_BYTES))
        return status


class WorkspacePool(Generic[W]):
    """The workspaces of one executable: those that no call uses now are in `free`."""

    def __init__(self, create: Callable[[], W]) -> None:
        self._create = create
        self._all: list[W] = []
        self.free: list[W] = []

    def take(self) -> W:
        """A workspace for the caller alone; to be appended to `free` when the call is over."""
        try:
            return self.free.pop()
        except IndexError:
            workspace = self._create()
            self._all.append(workspace)
            return workspace

    @property
    def calls(self) -> int:
        return sum(workspace.calls for workspace in tuple(self._all))

    @property
    def launches(self) -> int:
        return sum(workspace.launches for workspace in tuple(self._all))

    @property
    def arena_bytes(self) -> int:
        """The bytes of all arenas together."""
        return sum(workspace.arena_bytes for workspace in tuple(self._all))


def _allocate(nbytes: int) -> np.ndarray:
    try:
        return allocate_aligned(nbytes, huge_pages=nbytes >= HUGE_PAGE_BYTES)
    except (MemoryError, OSError, ValueError, OverflowError) as problem:
        raise DeviceError(f"an arena of {nbytes} bytes does not fit into memory", code="out-of-memory") from problem
