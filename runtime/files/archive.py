"""A file of the format, open for reading; nothing that it says is believed before it is checked.

A file that is damaged, foreign, or of another version is a DeviceError. The weights are mapped, not read, so their
bytes are not looked at; `problems` does that.
"""

import json
import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from onnxc.runtime.artifact import (
    DIVISION,
    FORMAT,
    FORMAT_VERSION,
    KERNELS,
    MANIFEST,
    PIPELINE,
    WEIGHTS,
    cubin_member,
    segment_prefix,
    shares_member,
    source_member,
)
from onnxc.runtime.cpu import CACHE_LINE_BYTES
from onnxc.runtime.device_code import DeviceCode, decode_device_code
from onnxc.runtime.devices.division import Division, decode_division
from onnxc.runtime.devices.pipeline import Pipeline, decode_pipeline
from onnxc.runtime.encoding import DecodeError
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.files.foreign_files import HEAD_BYTES, foreign_format
from onnxc.runtime.files.saved_file import compute_digest, has_end, stated_digest
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.program import JsonValue, Program
from onnxc.runtime.records import record

__all__ = ["Archive"]

_LOCAL_HEADER = struct.Struct("<4s22x2H")
_READ_BYTES = 1 << 20
"""What is read at a time stays in a cache of the processor: checksums of 436 MB took 0.16 s, by 16 MiB 0.28 s."""
# The key of ModelProto.ir_version, which exporters write first.
_ONNX_BEGINS = b"\x08"


@record
class _Image:
    """An image as the manifest tells of it."""

    target: str
    member: str
    features: tuple[str, ...]


class Archive:
    """An open file of the format; whatever is wrong with it is a DeviceError."""

    def __init__(self, file: BinaryIO, name: str, prefix: str = "") -> None:
        self.file, self.name, self._prefix = file, name, prefix
        try:
            self.zip = self._open()
            infos = (info for info in self.zip.infolist() if info.filename.startswith(prefix))
            self.members = {info.filename.removeprefix(prefix): info for info in infos}
            self.manifest = self._manifest()
            self.images = tuple(map(self._image, self._list("images")))
        except BaseException:
            self.file.close()
            raise

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def malformed(self, reason: str) -> DeviceError:
        """The error that says what is wrong with the file."""
        return DeviceError(f'"{self.name}" is damaged: {reason}', code="artifact-malformed")

    def member(self, name: str) -> bytes:
        """The bytes of a member, which must have the size of the manifest and the checksum of the archive."""
        data = self._bytes(name)
        if len(data) != self._size(name) or zlib.crc32(data) != self._info(name).CRC:
            raise self.malformed(f"{name} is not what was written")
        return data

    def json(self, name: str) -> JsonValue:
        """The value in a member."""
        return self._parse(name, self.member(name))

    def device_code(self) -> DeviceCode | None:
        """The kernels of a GPU, if the manifest tells of some."""
        architecture = self.manifest.get("device", "")
        if architecture is None:
            return None
        try:
            code = decode_device_code(
                self.json(KERNELS),
                lambda key: self.member(cubin_member(key)),
                lambda key: self.member(source_member(key)).decode(),
            )
        except (DecodeError, UnicodeDecodeError) as problem:
            raise self.malformed(f"{KERNELS}: {problem}") from problem
        if code.architecture != architecture:
            raise self.malformed(f"{MANIFEST}: device is {architecture!r}, the kernels are for {code.architecture}")
        return code

    def segment(self, ordinal: int) -> "Archive":
        """The part of a file of a pipeline that is one of its segments behind the first."""
        return Archive(self.file, self.name, segment_prefix(ordinal))

    def pipeline(self) -> Pipeline | None:
        """How segments make one model, where they do."""
        if self._prefix or PIPELINE not in self.members:
            return None
        try:
            return decode_pipeline(self.json(PIPELINE))
        except ValueError as problem:
            raise self.malformed(f"{PIPELINE}: {problem}") from problem

    def division(self, program: Program, names: Sequence[int] | None) -> Division | None:
        """What each device holds, where the program is divided; the bytes are mapped, and read by whom they are for.

        names: what the program calls the devices; None for their ordinals.
        """
        if DIVISION not in self.members:
            return None
        try:
            devices, shares, outputs, inputs = decode_division(self.json(DIVISION), program, names)
        except ValueError as problem:
            raise self.malformed(f"{DIVISION}: {problem}") from problem
        held = tuple(self._mapped(shares_member(device)) for device in range(devices))
        return Division(shares, held, outputs, inputs)

    def weights(self, resident: bool) -> np.ndarray:
        """The weights, which cannot be written to."""
        data = self._mapped(WEIGHTS)
        size = data.nbytes
        if resident and size:
            copy = allocate_aligned(size, huge_pages=True)
            copy[:] = data
            data = copy
        data.flags.writeable = False
        return data

    def _mapped(self, name: str) -> npt.NDArray[np.uint8]:
        """The bytes of a member, read when they are used; their checksum is not looked at."""
        size = self._size(name)
        if self._info(name).file_size != size:
            raise self.malformed(f"{name} has {self._info(name).file_size} bytes, not {size}")
        if size == 0:
            return np.empty(0, np.uint8)
        offset = self._offset(name)
        if offset % CACHE_LINE_BYTES:
            raise self.malformed(f"{name} begins at byte {offset}, on no cache line")
        return np.ndarray(size, np.uint8, mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ), offset)

    def problems(self) -> list[str]:
        """What is not as it was written, by reading every byte of the file; nothing where all is well."""
        problems = self.damaged_members()
        stated = stated_digest(self.file)
        if not problems and not stated:
            problems.append("its digest was not computed, as those of files in the cache are not")
        elif not problems and compute_digest(self.file) != stated:
            problems.append("what lies between the members, or the digest, is not what was written")
        return problems

    def damaged_members(self) -> list[str]:
        """What of the members is not as it was written, by their checksums, and whether the file ends as it should.

        That takes a third of the time that the digest of the whole file does.
        """
        problems = [f"{name} is not what was written" for name in self.members if not self._is_whole(name)]
        return problems if has_end(self.file) else [*problems, "it does not end with its digest"]

    def _is_whole(self, name: str) -> bool:
        """Whether the bytes of a member have the checksum that the archive has of them."""
        info, checksum = self._info(name), 0
        self.file.seek(self._offset(name))
        for start in range(0, info.file_size, _READ_BYTES):
            checksum = zlib.crc32(self.file.read(min(_READ_BYTES, info.file_size - start)), checksum)
        return checksum == info.CRC

    def _open(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.file)
        except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError) as problem:
            self.file.seek(0)
            if self.file.read(4) == b"PK\3\4":
                raise self.malformed(f"{problem}") from problem
            raise self._not_an_artifact(f"{problem}") from problem

    def _not_an_artifact(self, reason: str) -> DeviceError:
        self.file.seek(0)
        head = self.file.read(HEAD_BYTES)
        advice = foreign_format(head)
        if advice is not None:
            reason = f"it looks like {advice}"
        elif head.startswith(_ONNX_BEGINS):
            reason = "it looks like an ONNX model: compile it with onnxc.compile"
        return DeviceError(f'"{self.name}" is no onnxc file: {reason}', code="not-an-artifact")

    def _manifest(self) -> Mapping[str, JsonValue]:
        if MANIFEST not in self.members:
            raise self._not_an_artifact("it is another zip archive")
        manifest = self._parse(MANIFEST, self._bytes(MANIFEST))
        if not isinstance(manifest, Mapping) or manifest.get("format") != FORMAT:
            raise self._not_an_artifact("it is another zip archive")
        version = manifest.get("version")
        if version != FORMAT_VERSION:
            message = (
                f'"{self.name}" is of format version {version}, this onnxc reads {FORMAT_VERSION}: compile it again'
            )
            raise DeviceError(message, code="artifact-version")
        return manifest

    def _image(self, value: JsonValue) -> _Image:
        if isinstance(value, Mapping):
            target, member, features = (value.get(key) for key in ("target", "member", "features"))
            if isinstance(target, str) and isinstance(member, str) and isinstance(features, list):
                return _Image(target, member, tuple(map(str, features)))
        raise self.malformed(f"{MANIFEST}: an image is {value!r}")

    def _list(self, key: str) -> list[JsonValue]:
        value = self.manifest.get(key)
        if not isinstance(value, list):
            raise self.malformed(f"{MANIFEST}: {key} is {value!r}")
        return value

    def _size(self, name: str) -> int:
        """The size of a member by the manifest."""
        sizes = self.manifest.get("sizes")
        size = sizes.get(name) if isinstance(sizes, Mapping) else None
        if type(size) is not int:
            raise self.malformed(f"{MANIFEST} does not tell of {name}")
        return size

    def _info(self, name: str) -> zipfile.ZipInfo:
        info = self.members.get(name)
        if info is None:
            raise self.malformed(f"{name} is missing")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.compress_size != info.file_size:
            raise self.malformed(f"{name} is compressed or encrypted")
        return info

    def _offset(self, name: str) -> int:
        """Where the bytes of a member begin in the file."""
        info = self._info(name)
        length = os.fstat(self.file.fileno()).st_size
        header = b""
        if 0 <= info.header_offset < length:
            self.file.seek(info.header_offset)
            header = self.file.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\3\4"):
            raise self.malformed(f"{name} has no header")
        _, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
        offset: int = info.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
        if offset + info.file_size > length:
            raise self.malformed(f"{name} ends behind the end of the file")
        return offset

    def _bytes(self, name: str) -> bytes:
        offset = self._offset(name)
        self.file.seek(offset)
        return self.file.read(self._info(name).file_size)

    def _parse(self, name: str, data: bytes) -> JsonValue:
        try:
            value: JsonValue = json.loads(data)
        except (ValueError, RecursionError) as problem:
            raise self.malformed(f"{name} is no JSON ({problem})") from problem
        return value
