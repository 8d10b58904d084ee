"""Compiled kernels on disk, each under the digest of all that it was compiled from.

A file is a header, a digest of the rest, JSON, and the cubin. Many processes may use a folder at the same time: files
appear whole or not at all, and one that is not what was written counts as absent. What has not been used for longest
goes first where the folder gets too large. A folder that cannot be written to costs time, nothing else.
"""

import contextlib
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

from onnxc.compiler.codegen_gpu.compile.compile_job import OPTIONS
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.runtime.artifact import to_json
from onnxc.runtime.device_code import DeviceKernel, decode_kernel, encode_kernel
from onnxc.runtime.encoding import DecodeError
from onnxc.runtime.program import JsonValue

__all__ = ["KernelCache", "kernel_key"]

# Counts in every key: to be raised where the same source gives another kernel, or the form of the files changes.
CACHE_VERSION = 1

MAX_BYTES = 2 << 30

# A folder that is too large is emptied down to this part, so that not every call has to.
_KEPT_PART = 0.8

_SUFFIX = ".kernel"
_HEADER = struct.Struct("<8s32sI")
_MAGIC = b"onnxc-k\0"


def kernel_key(source: KernelSource, architecture: str, triton_version: str) -> str:
    """The digest, in hexadecimal, of everything that a kernel is compiled from."""
    parameters = [[parameter.name, parameter.type] for parameter in source.parameters]
    ingredients: JsonValue = [
        CACHE_VERSION, triton_version, architecture, OPTIONS,
        source.text, parameters, list(source.divisible), source.warps, source.stages,
    ]  # fmt: skip
    return hashlib.sha256(to_json(ingredients)).hexdigest()


class KernelCache:
    """A folder of kernels; without a folder, nothing is ever in it."""

    def __init__(self, folder: Path | None, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def load(self, key: str, source: str) -> DeviceKernel | None:
        """The kernel of that key and text, if it is there and whole."""
        if self._folder is None:
            return None
        path = self._folder / f"{key}{_SUFFIX}"
        try:
            kernel = _decode(path.read_bytes(), key, source)
        except OSError:
            return None
        except (DecodeError, ValueError, struct.error):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        # The time of the last use.
        with contextlib.suppress(OSError):
            os.utime(path)
        return kernel

    def store(self, kernels: Sequence[DeviceKernel]) -> None:
        """Keeps the kernels, and removes others where the folder has become too large."""
        if self._folder is None or not kernels:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for kernel in kernels:
                _write(self._folder / f"{kernel.key}{_SUFFIX}", _encode(kernel))
            _trim(self._folder, self._max_bytes)


def _encode(kernel: DeviceKernel) -> bytes:
    described = to_json(encode_kernel(kernel))
    content = described + kernel.cubin
    return _HEADER.pack(_MAGIC, hashlib.sha256(content).digest(), len(described)) + content


def _decode(data: bytes, key: str, source: str) -> DeviceKernel:
    magic, digest, length = _HEADER.unpack_from(data)
    content = data[_HEADER.size :]
    if magic != _MAGIC or hashlib.sha256(content).digest() != digest:
        raise DecodeError("the file is not what was written")
    kernel = decode_kernel(json.loads(content[:length]), lambda _: content[length:], lambda _: source)
    if kernel.key != key:
        raise DecodeError(f"the file is of {kernel.key}")
    return kernel


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


def _trim(folder: Path, max_bytes: int) -> None:
    """Removes the files that were used longest ago until the rest is small enough."""
    with os.scandir(folder) as entries:
        files = []
        for entry in entries:
            # Another process may remove a file between the listing and the question.
            with contextlib.suppress(OSError):
                if entry.name.endswith((_SUFFIX, ".partial")):
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
