"""Results of compiling on disk, each under the digest of all that it was compiled from.

A file is a mark, a digest of the rest, the key, and the content; one that is not what was written counts as absent. A
folder that cannot be written to costs time, nothing else.
"""

import contextlib
import hashlib
import struct
from collections.abc import Mapping
from operator import methodcaller
from pathlib import Path

from onnxc.compiler.jobs.bounded_folder import BoundedFolder

__all__ = ["MAX_BYTES", "FileCache"]

MAX_BYTES = 2 << 30
"""Of the whole folder. The objects of a small transformer are 0.1 MB, so that thousands of models have room."""

_HEADER = struct.Struct("<8s32s")
_MAGIC = b"onnxc-f\0"


class FileCache:
    """A folder of contents by hexadecimal keys, in files of a suffix; without a folder, nothing is ever in it."""

    def __init__(self, folder: Path | None, suffix: str, max_bytes: int = MAX_BYTES) -> None:
        self._files = None if folder is None else BoundedFolder(folder, suffix, max_bytes)

    def load(self, key: str) -> bytes | None:
        """The content of that key, if it is there and whole."""
        if self._files is None:
            return None
        try:
            data = self._files.path(key).read_bytes()
        except OSError:
            return None
        content = _decoded(data, key)
        if content is None:
            self.remove(key)
            return None
        self._files.touch(key)
        return content

    def store(self, contents: Mapping[str, bytes]) -> None:
        """Keeps the contents, and removes others where the folder has become too large."""
        if self._files is None or not contents:
            return
        with contextlib.suppress(OSError):
            for key, content in contents.items():
                self._files.write(key, methodcaller("write", _encoded(content, key)))
            self._files.make_room(sum(map(len, contents.values())))

    def remove(self, key: str) -> None:
        """Forgets the content of that key."""
        if self._files is not None:
            self._files.remove(key)


def _encoded(content: bytes, key: str) -> bytes:
    kept = key.encode() + content
    return _HEADER.pack(_MAGIC, hashlib.sha256(kept).digest()) + kept


def _decoded(data: bytes, key: str) -> bytes | None:
    """The content, or None where the file is not what was written under that key."""
    kept = data[_HEADER.size :]
    if data[: _HEADER.size] != _HEADER.pack(_MAGIC, hashlib.sha256(kept).digest()):
        return None
    return kept[len(key) :] if kept.startswith(key.encode()) else None
