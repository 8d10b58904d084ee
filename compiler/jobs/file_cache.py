"""Results of compiling on disk, each under the digest of all that it was compiled from.

A file is a mark, a digest of the rest, the key, and the content. Many processes may use a folder at the same time:
files appear whole or not at all, and one that is not what was written counts as absent. What has not been used for
longest goes first where the folder gets too large. A folder that cannot be written to costs time, nothing else.
"""

import contextlib
import hashlib
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["MAX_BYTES", "FileCache"]

MAX_BYTES = 2 << 30

# A folder that is too large is emptied down to this part, so that not every call has to.
_KEPT_PART = 0.8

_LOOKED_THROUGH_PART = 0.01
"""A process looks through a folder when it first stores something, and then for every such part of what it may hold:
20,000 files take about 0.1 s, as long as compiling a small model."""

_stored: dict[tuple[Path, str], int] = {}
"""For folders and suffixes the bytes that this process has stored since it looked through them."""

_HEADER = struct.Struct("<8s32s")
_MAGIC = b"onnxc-f\0"


class FileCache:
    """A folder of contents by hexadecimal keys, in files of a suffix; without a folder, nothing is ever in it."""

    def __init__(self, folder: Path | None, suffix: str, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._suffix = suffix
        self._max_bytes = max_bytes

    def load(self, key: str) -> bytes | None:
        """The content of that key, if it is there and whole."""
        if self._folder is None:
            return None
        path = self._folder / f"{key}{self._suffix}"
        try:
            data = path.read_bytes()
        except OSError:
            return None
        content = _decoded(data, key)
        if content is None:
            self.remove(key)
            return None
        # The time of the last use.
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

    def store(self, contents: Mapping[str, bytes]) -> None:
        """Keeps the contents, and removes others where the folder has become too large."""
        if self._folder is None or not contents:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for key, content in contents.items():
                _write(self._folder / f"{key}{self._suffix}", _encoded(content, key))
            if _is_due(self._folder, self._suffix, sum(map(len, contents.values())), self._max_bytes):
                _trim(self._folder, self._suffix, self._max_bytes)

    def remove(self, key: str) -> None:
        """Forgets the content of that key."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._folder / f"{key}{self._suffix}")


def _encoded(content: bytes, key: str) -> bytes:
    kept = key.encode() + content
    return _HEADER.pack(_MAGIC, hashlib.sha256(kept).digest()) + kept


def _decoded(data: bytes, key: str) -> bytes | None:
    """The content, or None where the file is not what was written under that key."""
    kept = data[_HEADER.size :]
    if data[: _HEADER.size] != _HEADER.pack(_MAGIC, hashlib.sha256(kept).digest()):
        return None
    return kept[len(key) :] if kept.startswith(key.encode()) else None


def _write(path: Path, data: bytes) -> None:
    """Writes a file that appears whole."""
    handle, partial = tempfile.mkstemp(prefix=".", suffix=".partial", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


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
