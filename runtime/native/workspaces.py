"""What a native call needs besides its arrays: a frame, a status block and an arena, one set for each call in progress.

A call takes a workspace, has it alone, and gives it back; so calls in several threads never wait for each other. An
arena grows to the largest that its calls have needed and is kept.

A call that anything but an error of ours ends, such as KeyboardInterrupt between two of its instructions, gives nothing
back: its workspace may be half set. It is freed with the frames of the call, for the pool holds it weakly.
"""

import weakref
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, Protocol, TypeVar

import numpy as np

from onnxc.runtime.cpu import HUGE_PAGE_BYTES
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.native.addresses import WORD_BYTES, read_address
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.native.heap import Heap
from onnxc.runtime.program import FRAME_ARENA, FRAME_HEAP, FRAME_POOL, FRAME_STATUS, FRAME_SYMBOLS, FRAME_WEIGHTS

__all__ = ["STATUS_WORDS", "AnyWorkspace", "Counts", "Workspace", "WorkspacePool"]

STATUS_WORDS = 8


@dataclass(slots=True)
class Counts:
    """What ran in a workspace."""

    calls: int = 0
    launches: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.calls + other.calls, self.launches + other.launches)


class AnyWorkspace(Protocol):
    """What the pool asks of a workspace."""

    counts: Counts

    @property
    def arena_bytes(self) -> int: ...


W = TypeVar("W", bound=AnyWorkspace)


class Workspace:
    """The words of the frame, the status block behind them at `status`, the arena, and a heap where calls need one.

    `block` is the words as an array of NumPy; `sizes` is what the symbols of the frame were last set for.
    """

    __slots__ = ("__weakref__", "arena", "block", "counts", "heap", "sizes", "status", "words")

    def __init__(self, frame_words: int, pool_address: int, weights_address: int, buffers: int = 0) -> None:
        self.block = np.zeros(frame_words + STATUS_WORDS, np.int64)
        # An array of `array` would give its memory to NumPy, and then take no words of no symbols.
        self.words = self.block.data.cast("B").cast("q")
        self.status = frame_words
        self.words[FRAME_POOL] = pool_address
        self.words[FRAME_WEIGHTS] = weights_address
        self.words[FRAME_STATUS] = read_address(self.block) + frame_words * WORD_BYTES
        self.arena = np.empty(0, np.uint8)
        self.heap = Heap(buffers) if buffers else None
        if self.heap is not None:
            self.words[FRAME_HEAP] = self.heap.address
        self.sizes: object = None
        self.counts = Counts()

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
        return self.arena.nbytes + (self.heap.nbytes if self.heap is not None else 0)

    def take_status(self) -> tuple[int, ...]:
        """The status block, which is clear again afterwards."""
        status = tuple(self.words[self.status : self.status + STATUS_WORDS])
        self.words[self.status : self.status + STATUS_WORDS] = array("q", bytes(STATUS_WORDS * WORD_BYTES))
        return status


class WorkspacePool(Generic[W]):
    """The workspaces of one executable: those that no call uses now are in `free`."""

    def __init__(self, create: Callable[[], W]) -> None:
        self._create = create
        self._all: list[tuple[weakref.ref[W], Counts]] = []
        # What ran in workspaces that are gone.
        self._ended = Counts()
        self._lock = Lock()
        self.free: list[W] = []

    def take(self) -> W:
        """A workspace for the caller alone, who appends it to `free` when the call is over and left it in order."""
        try:
            return self.free.pop()
        except IndexError:
            workspace = self._create()
            self._keep(workspace)
            return workspace

    def counts(self) -> Counts:
        """What ran in all workspaces, also in those that are gone."""
        with self._lock:
            return sum((counts for _, counts in self._all), self._ended)

    @property
    def arena_bytes(self) -> int:
        """The bytes of all arenas together."""
        workspaces = [reference() for reference, _ in tuple(self._all)]
        return sum(workspace.arena_bytes for workspace in workspaces if workspace is not None)

    def _keep(self, workspace: W) -> None:
        with self._lock:
            kept, ended = [(weakref.ref(workspace), workspace.counts)], self._ended
            for reference, counts in self._all:
                if reference() is None:
                    ended += counts
                else:
                    kept.append((reference, counts))
            self._all, self._ended = kept, ended


def _allocate(nbytes: int) -> np.ndarray:
    try:
        return allocate_aligned(nbytes, huge_pages=nbytes >= HUGE_PAGE_BYTES)
    except (MemoryError, OverflowError) as problem:
        message = f"an arena of {nbytes} bytes does not fit into memory"
        raise DeviceError(message, code="out-of-memory") from problem
