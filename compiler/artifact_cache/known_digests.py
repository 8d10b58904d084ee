"""Digests of large files, which are known again without reading them.

A file is known by its device, inode, size and times. The time of its last change of any kind, ctime, is set by the
kernel alone: whoever copies a folder or restores a backup sets the other one only.
"""

import hashlib
import json
import os
import time
from pathlib import Path

from onnxc.compiler.frontend.content_digest import content_digest
from onnxc.compiler.jobs.file_cache import FileCache
from onnxc.runtime.records import record

__all__ = ["KnownDigests"]

LEAST_BYTES = 16 << 20
"""Reading less takes 12 ms at most, little of the 500 of a process that finds its artifact. That of a model of 436 MB
took 1.00 s when its digest was computed, and 0.63 s when it was known."""

_SETTLED_NS = 10_000_000_000
"""What was changed just now might be changed again at the same time: some file systems count in steps of 2 s, and the
clocks of servers differ."""

_WHOLE_SECOND = 1_000_000_000

_MAX_BYTES = 1 << 20
"""Some 6,000 files."""


@record
class KnownDigests:
    """The digests of files that were read before, in a folder; None for a folder is to read each."""

    folder: Path | None

    def digest(self, data: memoryview, status: os.stat_result | None) -> str:
        """The SHA-256 digest of the bytes of a file, in hexadecimal; it is looked up where `status` is certain."""
        if status is None or len(data) < LEAST_BYTES or not _is_certain(status):
            return content_digest(data, status)
        files = FileCache(self.folder and self.folder / "digests", ".digest", _MAX_BYTES)
        key = _key(status)
        known = files.load(key)
        if known is not None:
            return known.decode()
        digest = content_digest(data, status)
        files.store({key: digest.encode()})
        return digest


def _is_certain(status: os.stat_result) -> bool:
    """Whether a file that differs would have another status.

    Not where times are whole seconds: so coarse ones may be equal by chance, and images of file systems are made with
    one time for all files, and the same inodes again and again.
    """
    return status.st_ctime_ns % _WHOLE_SECOND != 0 and status.st_ctime_ns < time.time_ns() - _SETTLED_NS


def _key(status: os.stat_result) -> str:
    described = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()
