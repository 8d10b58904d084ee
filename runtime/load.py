"""Loading: from a file or an artifact to an executable. No work on graphs is done here, and nothing is compiled.

What a file says is checked before it is believed; a file that is damaged, foreign, or made for another machine is a
DeviceError. The weights are mapped, not read, so their bytes are not checked; `verify_artifact` does that.
"""

import importlib
import json
import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from onnxc.runtime.artifact import (
    FORMAT,
    FORMAT_VERSION,
    KERNELS,
    MANIFEST,
    PROGRAM,
    PROVENANCE,
    REPORT,
    WEIGHTS,
    Artifact,
    cubin_member,
    source_member,
)
from onnxc.runtime.cpu import CACHE_LINE_BYTES, allocate_aligned, host_features, load_image
from onnxc.runtime.device_code import DeviceCode, decode_device_code
from onnxc.runtime.encoding import DecodeError, decode_program
from onnxc.runtime.engine import ProgramEngine, launches_of
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.program import JsonValue
from onnxc.runtime.signature import program_signature
from onnxc.runtime.thread_pool import pool_handle
from onnxc.runtime.unavailable import UnavailableEngine

if TYPE_CHECKING:
    from onnxc.runtime.gpu.driver import Driver

__all__ = ["load", "make_compiled", "make_executable", "read_artifact", "verify_artifact"]

WeightsMode = Literal["mapped", "resident"]

_LOCAL_HEADER = struct.Struct("<4s22x2H")
_READ_BYTES = 1 << 24


def load(
    path: str | os.PathLike[str],
    weights: WeightsMode = "mapped",
    threads: int | None = None,
    *,
    device: int = 0,
    graphs: bool = True,
    driver: "Driver | None" = None,
) -> Executable:
    """The executable that a file holds.

    weights: "mapped" shares the pages of the file between processes and reads them when they are needed; "resident"
    copies them once, into huge pages where the system has them. The rest is as for `make_executable`.
    """
    return make_executable(read_artifact(path, weights), threads, device=device, graphs=graphs, driver=driver)


def make_executable(
    artifact: Artifact,
    threads: int | None = None,
    compilations: int = 0,
    *,
    device: int = 0,
    graphs: bool = True,
    driver: "Driver | None" = None,
) -> Executable:
    """The artifact ready to be called on this machine.

    threads: how many a call may use, where the code is for the CPU. device: the number of the CUDA device, where the
    code is for one; graphs: whether repeated calls there become CUDA graphs; driver: None is the one of this machine.

    Raises DeviceError; code for a GPU never runs on the CPU.
    """
    image = handle = None
    if launches_of(artifact.program.body):
        image = load_image(artifact.images[_fitting_target(artifact)])
    locations, frozen = (_texts(artifact.provenance.get(key)) for key in ("locations", "frozen_inputs"))
    signature = program_signature(artifact.program, frozen)
    if artifact.device is not None:
        # Programs for the CPU do without all that is needed for a device.
        make = importlib.import_module("onnxc.runtime.gpu.load").make_device_executable
        made: Executable = make(artifact, image, signature, locations, compilations, device, graphs, driver)
        return made
    if image is not None:
        handle = pool_handle(image, threads)
    engine = ProgramEngine(artifact.program, image, handle, artifact.weights, locations)
    return Executable(signature, engine, artifact=artifact, report=artifact.report, compilations=compilations)


def make_compiled(artifact: Artifact, threads: int | None = None) -> Executable:
    """What was just compiled, ready to be called; or only to be saved, where it is for a GPU that is not here.

    Then a call raises the DeviceError that says what is missing.
    """
    try:
        return make_executable(artifact, threads, compilations=1)
    except DeviceError as problem:
        if artifact.device is None:
            raise
        engine = UnavailableEngine(artifact.program, artifact.weights, problem)
        signature = program_signature(artifact.program, _texts(artifact.provenance.get("frozen_inputs")))
        return Executable(signature, engine, artifact=artifact, report=artifact.report, compilations=1)


def read_artifact(path: str | os.PathLike[str], weights: WeightsMode = "mapped") -> Artifact:
    """The artifact in a file."""
    if weights not in ("mapped", "resident"):
        raise InputError(f'weights is {weights!r}, expected "mapped" or "resident"', code="weights-mode")
    with _Archive(Path(path)) as archive:
        images = {image.target: archive.member(image.member) for image in archive.images}
        encoded, provenance, report = (archive.json(name) for name in (PROGRAM, PROVENANCE, REPORT))
        device = archive.device_code()
        data = archive.weights(resident=weights == "resident")
        try:
            program = decode_program(encoded, data.nbytes)
        except DecodeError as problem:
            raise archive.malformed(f"{PROGRAM}: {problem}") from problem
        if not isinstance(provenance, Mapping):
            raise archive.malformed(f"{PROVENANCE} is no object")
        features = {image.target: image.features for image in archive.images}
    return Artifact(program, images, data, provenance, report, features, device)


def verify_artifact(path: str | os.PathLike[str]) -> None:
    """DeviceError unless every byte of the file's members is what was written; reads all of the weights."""
    with _Archive(Path(path)) as archive:
        for name in archive.members:
            archive.verify(name)


def _fitting_target(artifact: Artifact) -> str:
    """The target whose image this machine can execute, the one that uses most of it."""
    lacking = {target: set(artifact.features.get(target, ())) - host_features() for target in artifact.images}
    fitting = [target for target in artifact.images if not lacking[target]]
    if fitting:
        return max(fitting, key=lambda target: len(artifact.features.get(target, ())))
    listed = "; ".join(f"{target} needs {', '.join(sorted(features))}" for target, features in lacking.items())
    message = f"this machine cannot execute the code in the artifact: {listed or 'there is none'}"
    raise DeviceError(message, code="image-features")


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()


@dataclass(frozen=True)
class _Image:
    """An image as the manifest tells of it."""

    target: str
    member: str
    features: tuple[str, ...]


class _Archive:
    """An open file of the format; whatever is wrong with it is a DeviceError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.file = path.open("rb")
        except OSError as problem:
            raise DeviceError(f'cannot read "{path}": {problem.strerror}', code="artifact-unreadable") from problem
        try:
            self.zip = self._open()
            self.members = {info.filename: info for info in self.zip.infolist()}
            self.manifest = self._manifest()
            self.images = tuple(map(self._image, self._list("images")))
        except BaseException:
            self.file.close()
            raise

    def __enter__(self) -> "_Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def malformed(self, reason: str) -> DeviceError:
        """The error that says what is wrong with the file."""
        return DeviceError(f'"{self.path}" is damaged: {reason}', code="artifact-malformed")

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

    def weights(self, resident: bool) -> np.ndarray:
        """The weights, which cannot be written to."""
        size = self._size(WEIGHTS)
        if self._info(WEIGHTS).file_size != size:
            raise self.malformed(f"{WEIGHTS} has {self._info(WEIGHTS).file_size} bytes, not {size}")
        if size == 0:
            return np.empty(0, np.uint8)
        offset = self._offset(WEIGHTS)
        if offset % CACHE_LINE_BYTES:
            raise self.malformed(f"{WEIGHTS} begins at byte {offset}, on no cache line")
        data = np.ndarray(size, np.uint8, mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ), offset)
        if resident:
            copy = allocate_aligned(size, huge_pages=True)
            copy[:] = data
            data = copy
        data.flags.writeable = False
        return data

    def verify(self, name: str) -> None:
        """Reads a whole member; its checksum must be that of the archive."""
        info, checksum = self._info(name), 0
        self.file.seek(self._offset(name))
        for start in range(0, info.file_size, _READ_BYTES):
            checksum = zlib.crc32(self.file.read(min(_READ_BYTES, info.file_size - start)), checksum)
        if checksum != info.CRC:
            raise self.malformed(f"{name} is not what was written")

    def _open(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.file)
        except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError) as problem:
            self.file.seek(0)
            if self.file.read(4) == b"PK\3\4":
                raise self.malformed(f"{problem}") from problem
            message = f'"{self.path}" is no onnxc file ({problem})'
            raise DeviceError(message, code="not-an-artifact") from problem

    def _manifest(self) -> Mapping[str, JsonValue]:
        if MANIFEST not in self.members:
            raise DeviceError(f'"{self.path}" is a zip archive, but no onnxc file', code="not-an-artifact")
        manifest = self._parse(MANIFEST, self._bytes(MANIFEST))
        if not isinstance(manifest, Mapping) or manifest.get("format") != FORMAT:
            raise DeviceError(f'"{self.path}" is a zip archive, but no onnxc file', code="not-an-artifact")
        version = manifest.get("version")
        if version != FORMAT_VERSION:
            message = (
                f'"{self.path}" is of format version {version}, this onnxc reads {FORMAT_VERSION}: compile it again'
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
