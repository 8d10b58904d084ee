"""The digest of a model's bytes, or of those of a file with its data."""

import hashlib
import os
from collections.abc import Callable

__all__ = ["ContentDigest", "content_digest"]

ContentDigest = Callable[[memoryview, os.stat_result | None], str]
"""The digest of some bytes; of those of a whole file, with what the file system said of it when it was opened."""


def content_digest(data: memoryview, _status: os.stat_result | None) -> str:
    """The SHA-256 digest in hexadecimal, by reading all bytes."""
    return hashlib.sha256(data).hexdigest()
