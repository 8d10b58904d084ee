"""A folder of files by keys that many processes use at the same time, and that never holds much more than it may.

Files appear whole or not at all. What has not been used for longest goes first where the folder gets too large. What is
in the files, this page does not know.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

__all__ = ["BoundedFolder"]

T = TypeVar("T")

# A folder that is too large is emptied down to this part, so that not every call has to.
_KEPT_PART = 0.8

_LOOKED_THROUGH_PART = 0.01
"""A process looks through a folder when it first stores something, and then for every such part of what it may hold:
20,000 files take about 0.1 s, as long as compiling a small model."""

_stored: dict[tuple[Path, str], int] = {}
"""For folders and suffixes the bytes that this process has stored since it looked through them."""


class BoundedFolder:
    """The files of one suffix in a folder, by hexadecimal keys; all of them together may take `max_bytes`."""

    def __init__(self, folder: Path, suffix: str, max_bytes: int) -> None:
        self._folder = folder
        self._suffix = suffix
        self._max_bytes = max_bytes

    def path(self, key: str) -> Path:
        """Where the file of that key is, if there is one."""
        return self._folder / f"{key}{self._suffix}"

    def touch(self, key: str) -> None:
        """Notes that the file was used now."""
        # A folder that cannot be written to can still be read.
        with contextlib.suppress(OSError):
            os.utime(self.path(key))

    def remove(self, key: str) -> None:
        """Forgets the file of that key."""
        with contextlib.suppress(OSError):
            os.unlink(self.path(key))

    def write(self, key: str, fill: Callable[[BinaryIO], T]) -> T:
        """What `fill` gives, which writes into an empty file; that then is the file of the key. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=".", suffix=".partial", dir=self._folder)
        try:
            with os.fdopen(handle, "w+b") as file:
                result = fill(file)
            os.replace(partial, self.path(key))
        except BaseException:
            # Who makes room may have removed it.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
            raise
        return result

    def make_room(self, added: int) -> None:
        """Removes other files where the folder has become too large, now that so many bytes were added."""
        if _is_due(self._folder, self._suffix, added, self._max_bytes):
            _trim(self._folder, self._suffix, self._max_bytes)


def _is_due(folder: Path, suffix: str, added: int, max_bytes: int) -> bool:
    """Whether the folder should be looked through, now that so many bytes were added."""
    before = _stored.get((folder, suffix))
    is_due = before is None or before + added >= max_bytes * _LOOKED_THROUGH_PART
    _stored[folder, suffix] = 0 if before is None or is_due else before + added
    return is_due


def _trim(folder: Path, suffix: str, max_bytes: int) -> None:
    """Removes the files that were used longest ago until the rest is small enough."""
    with os.scandir(folder) as entries:
        files = []
        for entry in entries:
            # Another process may remove a file between the listing and the question.
            with contextlib.suppress(OSError):
                if entry.name.endswith((suffix, ".partial")):
                    status = entry.stat()
                    files.append((status.st_mtime_ns, entry.name, status.st_size))
    total = sum(size for _, _, size in files)
    if total <= max_bytes:
        return
    for _, name, size in sorted(files):
        if total <= max_bytes * _KEPT_PART:
            return
        with contextlib.suppress(OSError):
            os.unlink(folder / name)
        total -= size
