"""Settings of the whole process that whoever needs them shares: the first changes one, the last puts it back."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

__all__ = ["SharedSetting"]

T = TypeVar("T")


class SharedSetting(Generic[T]):
    """A setting by what reads and writes it, and what it is to become, which may be what it is."""

    def __init__(self, read: Callable[[], T], write: Callable[[T], object], changed: Callable[[T], T]) -> None:
        self._read = read
        self._write = write
        self._changed = changed
        self._lock = threading.Lock()
        self._holders = 0
        self._before: T = read()
        self._now: T = self._before

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it the setting is as wanted, unless somebody else sets it; many may be within."""
        with self._lock:
            if self._holders == 0:
                self._before = self._read()
                self._write(self._changed(self._before))
                # As the process says it, which may round.
                self._now = self._read()
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                # What others have set in the meantime stays.
                if self._holders == 0 and self._read() == self._now:
                    self._write(self._before)
