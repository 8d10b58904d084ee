"""External data that nobody is going to read: reserved memory in the place of floats, whose files need not be there.

Planning asks constants for their types, and looks at a few elements to tell them apart. Reserved memory is zeros that
take no room until they are written; the first element of each tensor is another one, so that no two tensors are equal
and none is a splat.
"""

import mmap
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from onnxc.compiler.frontend.external.data_files import ExternalFiles, WantedTensor
from onnxc.compiler.frontend.tensor_error import TensorError
from onnxc.compiler.ir.dtypes import DTYPES

__all__ = ["UnreadFiles"]

LEAST_BYTES = 64
"""Scales of Resize, which decide shapes, have one number for each axis. An estimate: exporters keep what is less than
1,024 bytes in the model itself.
"""


class UnreadFiles(ExternalFiles):
    """The files beside a model of which only what decides shapes is read: integers, and the smallest floats."""

    def __init__(self, folder: Path | None, *, allow_links: bool = False) -> None:
        super().__init__(folder, allow_links=allow_links)
        self._reserved: list[mmap.mmap] = []

    def view(self, entries: Mapping[str, str], wanted: WantedTensor) -> memoryview:
        """Reserved memory for the floats of a tensor; the bytes of any other. TensorError says why there are none."""
        if wanted.size < LEAST_BYTES or not DTYPES[wanted.dtype].is_float:
            return super().view(entries, wanted)
        try:
            memory = mmap.mmap(-1, wanted.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as problem:
            message = f"its type and shape take {wanted.size} bytes, more than can be reserved"
            raise TensorError("tensor-shape", message) from problem
        # A page of 2 MiB for the one element of each tensor would be more than all else that is needed.
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with suppress(OSError):
                memory.madvise(mmap.MADV_NOHUGEPAGE)
        self._reserved.append(memory)
        memory[:4] = len(self._reserved).to_bytes(4, "little")
        return memoryview(memory).toreadonly()
