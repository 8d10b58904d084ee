"""Regions of POSIX shared memory that clients on this machine have registered, for inputs and outputs of requests."""

import io
import os
import re
import threading
from collections.abc import Mapping

from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["Region", "SharedMemory"]

_KEY = re.compile(r"/?[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,200}")
_FOLDER = "/dev/shm"
_MAX_BYTES, _MAX_REGIONS = 1 << 40, 1024
"""Far above what a request may use; each region holds a descriptor."""


@record(eq=False)
class Region:
    """A registered region: `byte_size` bytes of the memory that is called `key`, from `offset` on.

    It is read and written as a file: a client that shortens it meanwhile would end the process that has it mapped.
    """

    name: str
    key: str
    offset: int
    byte_size: int
    file: io.FileIO

    def read(self, offset: int, byte_size: int) -> bytes:
        """Bytes of the region; InputError where they are not within it."""
        self._expect_within(offset, byte_size)
        data = os.pread(self.file.fileno(), byte_size, self.offset + offset)
        if len(data) != byte_size:
            raise InputError(f"region {self.name!r} has been shortened", code="shared-memory")
        return data

    def write(self, data: bytes, offset: int, byte_size: int) -> None:
        """Writes an output into `byte_size` bytes of the region; InputError where it does not fit."""
        self._expect_within(offset, byte_size)
        if len(data) > byte_size:
            message = f"an output takes {len(data)} bytes, {byte_size} of region {self.name!r} are for it"
            raise InputError(message, code="shared-memory")
        os.pwrite(self.file.fileno(), data, self.offset + offset)

    def _expect_within(self, offset: int, byte_size: int) -> None:
        if offset < 0 or byte_size < 0 or offset + byte_size > self.byte_size:
            message = f"bytes {offset} to {offset + byte_size} are not within region {self.name!r} of {self.byte_size}"
            raise InputError(message, code="shared-memory")


class SharedMemory:
    """The regions by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._regions: dict[str, Region] = {}

    def register(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Opens a region; InputError where there is none of this size, or the name is taken."""
        if not name or not _KEY.fullmatch(key) or not 0 <= offset <= _MAX_BYTES or not 0 < byte_size <= _MAX_BYTES:
            message = f"region {name!r} of {byte_size} bytes from {offset} with key {key!r} can be none"
            raise InputError(message, code="shared-memory")
        try:
            descriptor = os.open(f"{_FOLDER}/{key.lstrip('/')}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as problem:
            raise InputError(f"key {key!r}: {problem.strerror}", code="shared-memory") from problem
        file = io.FileIO(descriptor, "r+")
        if os.fstat(descriptor).st_size < offset + byte_size:
            file.close()
            raise InputError(f"the memory {key!r} has less than {offset + byte_size} bytes", code="shared-memory")
        with self._lock:
            if name in self._regions or len(self._regions) >= _MAX_REGIONS:
                file.close()
                raise InputError(f"there is a region {name!r} already, or too many", code="shared-memory")
            self._regions[name] = Region(name, key, offset, byte_size, file)

    def unregister(self, name: str) -> None:
        """Forgets a region, or all for the empty name; it is let go of when no request uses it."""
        with self._lock:
            if name:
                self._regions.pop(name, None)
            else:
                self._regions.clear()

    def find(self, name: str) -> Region:
        """The region; InputError where there is none."""
        region = self._regions.get(name)
        if region is None:
            raise InputError(f"there is no region {name!r}", code="shared-memory")
        return region

    def status(self, name: str) -> Mapping[str, Region]:
        """The region of that name, or all for the empty one."""
        with self._lock:
            return {name: self.find(name)} if name else dict(self._regions)
