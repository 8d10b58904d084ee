"""Compiled kernels on disk, each under the digest of all that it was compiled from: JSON, and the cubin."""

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path

from onnxc.compiler.codegen_gpu.compile.angle_library import LIBRARY, uses_angles
from onnxc.compiler.codegen_gpu.compile.compile_job import OPTIONS
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.jobs.file_cache import MAX_BYTES, FileCache
from onnxc.runtime.artifact import to_json
from onnxc.runtime.device_code import DeviceKernel, decode_kernel, encode_kernel
from onnxc.runtime.encoding import DecodeError
from onnxc.runtime.program import JsonValue

__all__ = ["KernelCache", "kernel_key"]

# Counts in every key: to be raised where the same source gives another kernel, or the form of the files changes.
CACHE_VERSION = 2

_LENGTH = struct.Struct("<I")


def kernel_key(source: KernelSource, architecture: str, triton_version: str) -> str:
    """The digest, in hexadecimal, of everything that a kernel is compiled from."""
    parameters = [[parameter.name, parameter.type] for parameter in source.parameters]
    ingredients: JsonValue = [
        CACHE_VERSION, triton_version, architecture, OPTIONS,
        source.text, parameters, list(source.divisible), source.warps, source.stages, source.cooperative,
        LIBRARY if uses_angles(source.text) else "",
    ]  # fmt: skip
    return hashlib.sha256(to_json(ingredients)).hexdigest()


class KernelCache:
    """A folder of kernels; without a folder, nothing is ever in it."""

    def __init__(self, folder: Path | None, max_bytes: int = MAX_BYTES) -> None:
        self._files = FileCache(folder, ".kernel", max_bytes)

    def load(self, key: str, source: str) -> DeviceKernel | None:
        """The kernel of that key and text, if it is there and whole."""
        content = self._files.load(key)
        if content is None:
            return None
        try:
            return _decode(content, source)
        except (DecodeError, ValueError, struct.error):
            self._files.remove(key)
            return None

    def store(self, kernels: Sequence[DeviceKernel]) -> None:
        """Keeps the kernels, and removes others where the folder has become too large."""
        self._files.store({kernel.key: _encode(kernel) for kernel in kernels})


def _encode(kernel: DeviceKernel) -> bytes:
    described = to_json(encode_kernel(kernel))
    return _LENGTH.pack(len(described)) + described + kernel.cubin


def _decode(data: bytes, source: str) -> DeviceKernel:
    (length,) = _LENGTH.unpack_from(data)
    described, cubin = data[_LENGTH.size : _LENGTH.size + length], data[_LENGTH.size + length :]
    return decode_kernel(json.loads(described), lambda _: cubin, lambda _: source)
