"""The digest of an artifact: what it covers, where it stands, and files that are known by it.

The last bytes of the file are the comment of the zip archive, "sha256:" and 64 hexadecimal digits: the digest of every
byte before the digits, headers, padding and the directory of the archive included. The digits are zeros where nobody is
going to compare the digest, which takes most of the time of writing a large file: in the cache of artifacts.
"""

import hashlib
import os
import re
from typing import BinaryIO

from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.files.plain_files import open_plain_file
from onnxc.runtime.records import record

__all__ = ["BLANK_DIGEST", "SavedFile", "compute_digest", "has_end", "stated_digest", "write_digest"]

_DIGITS = 64
# Of one read. Hashing was as fast with 64 KiB to 4 MiB at a time, and 7 % slower with 16 MiB.
_READ_BYTES = 1 << 20

# The comment where the digest is not known.
BLANK_DIGEST = b"sha256:" + b"0" * _DIGITS
_STATED = re.compile(rb"sha256:[0-9a-f]{64}")


@record
class SavedFile:
    """A file that held the artifact of this digest when it was written or read; empty where it states none."""

    path: str
    digest: str

    def is_unchanged(self) -> bool:
        """Whether the file states the same digest still; its bytes are not read for that."""
        try:
            with open_plain_file(self.path, what="the artifact") as file:
                return bool(self.digest) and stated_digest(file) == self.digest
        except OnnxcError:
            return False


def write_digest(file: BinaryIO) -> str:
    """The digest of a file that ends with BLANK_DIGEST; it is written over the blank digits."""
    digest = compute_digest(file)
    file.seek(-_DIGITS, os.SEEK_END)
    file.write(digest.encode())
    return digest


def stated_digest(file: BinaryIO) -> str:
    """The digest at the end of a file; empty where there is none, or it is blank."""
    end = _end(file)
    return end.removeprefix(b"sha256:").decode() if _STATED.fullmatch(end) and end != BLANK_DIGEST else ""


def has_end(file: BinaryIO) -> bool:
    """Whether a file ends with a digest or a blank one."""
    return _STATED.fullmatch(_end(file)) is not None


def _end(file: BinaryIO) -> bytes:
    start = file.seek(0, os.SEEK_END) - len(BLANK_DIGEST)
    file.seek(max(start, 0))
    return file.read()


def compute_digest(file: BinaryIO) -> str:
    """The digest of every byte of a file but its last 64, where the digest itself stands."""
    remaining = max(file.seek(0, os.SEEK_END) - _DIGITS, 0)
    file.seek(0)
    digest = hashlib.sha256()
    while remaining:
        data = file.read(min(_READ_BYTES, remaining))
        if not data:
            # The file was cut meanwhile; what is there has another digest.
            break
        digest.update(data)
        remaining -= len(data)
    return digest.hexdigest()
