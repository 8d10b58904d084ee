"""A thread that makes native calls for another and has no part in the lock of the interpreter: who begins a call goes
on, and looks now and then whether it has ended.

A thread of Python that calls waits for that lock before and after each call while others have work, in a server for a
third of the time that calls of 1.4 ms take. The code of the thread is in every image
(compiler/codegen_host/threads/native_caller.py); it is a thread of Python that never leaves native code.
"""

import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable

from onnxc.runtime.cpu import Image
from onnxc.runtime.records import record
from onnxc.runtime.thread_pool import SPIN_NANOSECONDS, available_threads, ticks_per_nanosecond

__all__ = ["BEGIN", "CALLER_EXPORTS", "HAS_ENDED", "SERVE", "CallBox", "NativeCaller"]

CALLER_EXPORTS = SERVE, BEGIN, HAS_ENDED = "onnxc_caller", "onnxc_caller_begin", "onnxc_caller_has_ended"
"""What is looked up in an image: each takes the address of a box."""

_LOOK_SECONDS = 50e-6


class CallBox(ctypes.Structure):
    """What both threads know. begun, ended: how many calls have; sleeps: whether the thread has to be woken.

    ticks: what the last call took, by `onnxc_ticks`.
    """

    _fields_ = (
        ("begun", ctypes.c_uint32), ("sleeps", ctypes.c_uint32), ("stop", ctypes.c_uint32), ("_0", ctypes.c_char * 52),
        ("ended", ctypes.c_uint32), ("_1", ctypes.c_char * 4), ("ticks", ctypes.c_int64), ("_2", ctypes.c_char * 48),
        ("entry", ctypes.c_void_p), ("frame", ctypes.c_void_p),
        ("spin_ticks", ctypes.c_int64), ("syscall", ctypes.c_void_p),
    )  # fmt: skip


@record(eq=False)
class _Thread:
    """A thread and its box. process: in which it is. held: what the call that goes on reads and writes.

    ticks: of a nanosecond.
    """

    box: CallBox
    process: int
    held: list[object]
    ticks: float
    begin: Callable[[int], int]
    has_ended: Callable[[int], int]

    @property
    def address(self) -> int:
        return ctypes.addressof(self.box)


class NativeCaller:
    """Makes one call at a time. It is for one thread; its own begins with the first call, and ends when it is gone."""

    def __init__(self) -> None:
        self._thread: _Thread | None = None
        self.is_taken = False

    def begin(self, image: Image, entry: str, frame: int, held: object) -> None:
        """Begins a call of an entry of an image on the frame at an address; `held` is kept until it has ended.

        None may be there whose `end` was not asked for.
        """
        assert not self.is_taken
        thread = self._thread
        if thread is None or thread.process != os.getpid():
            thread = self._thread = self._started(image)
        self.is_taken = True
        thread.held.append(held)
        thread.box.entry, thread.box.frame = image.address(entry), frame
        thread.begin(thread.address)

    def has_ended(self) -> bool:
        """Whether the call that was begun has returned."""
        assert self._thread is not None
        # The first is quick to ask, the second sees what the call has written, too.
        box = self._thread.box
        return box.ended == box.begun and self._thread.has_ended(self._thread.address) != 0

    def end(self) -> int:
        """Waits until the call has returned, which took so many ns; then another may begin.

        What it was given is its caller's again.
        """
        assert self._thread is not None
        while not self.has_ended():
            time.sleep(_LOOK_SECONDS)
        self._thread.held.clear()
        self.is_taken = False
        return int(self._thread.box.ticks / self._thread.ticks)

    def _started(self, image: Image) -> _Thread:
        box, held = CallBox(), list[object]()
        ticks = ticks_per_nanosecond(image)
        box.spin_ticks = int(SPIN_NANOSECONDS * ticks) if available_threads() > 1 else 0
        box.syscall = ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value
        thread = _Thread(box, os.getpid(), held, ticks, _kept_lock(image, BEGIN), _kept_lock(image, HAS_ENDED))
        threading.Thread(target=_serve, args=(image, box, held), name="onnxc native", daemon=True).start()
        weakref.finalize(self, _stop, thread)
        return thread


def _kept_lock(image: Image, entry: str) -> Callable[[int], int]:
    """An entry of an image that takes a pointer, called without letting go of the lock of the interpreter."""
    function = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(image.address(entry))
    function.image = image  # type: ignore[attr-defined]
    return function


def _serve(image: Image, box: CallBox, held: list[object]) -> None:
    """The thread; while it runs, its frame holds what the call needs, whoever else has let go of it."""
    image.function(SERVE, 1)(ctypes.addressof(box))
    held.clear()


def _stop(thread: _Thread) -> None:
    """The thread ends when it has no call any more."""
    if thread.process == os.getpid():
        thread.box.stop = 1
        thread.begin(thread.address)
