"""The artifact: a compiled model as data, and the one file that holds it.

The file is a zip archive of stored members, each beginning on a page, so that the weights can be mapped:

    manifest.json     the format, its version, the size of each other member, what each image needs
    program.json      the program (runtime/encoding.py)
    signature.json    inputs and outputs, for people and other tools
    provenance.json   versions, digest of the model, which kernels come from which nodes
    report.json       what was compiled, and what was declined
    code/TARGET.so    the native image of each target
    kernels.json      the kernels of a GPU, in order, where there are some (runtime/device_code.py)
    kernels/KEY.cubin the machine code of each kernel
    kernels/KEY.py    the source it was compiled from, for people
    weights           the constants
    division.json     how many devices the program is divided over, where it is (runtime/devices/division.py)
    shares/DEVICE     what each of them holds of the constants that are divided
    pipeline.json     how segments make one model, where it is a pipeline (runtime/devices/pipeline.py): the first one
    segments/N/       all of the above, the manifest included, for each segment behind the first, from 1

Behind them come the directory of the archive and a digest of the whole file (runtime/files/saved_file.py), blank in the
cache of artifacts. The same artifact gives the same bytes.
"""

import io
import json
import os
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import BinaryIO

import numpy as np

from onnxc.runtime.device_code import DeviceCode, encode_device_code
from onnxc.runtime.devices.division import Division
from onnxc.runtime.devices.pipeline import Pipeline
from onnxc.runtime.encoding import encode_program
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.files.plain_files import path_text, replaced_file
from onnxc.runtime.files.saved_file import BLANK_DIGEST, SavedFile, write_digest
from onnxc.runtime.image_ties import program_digest, tie_image
from onnxc.runtime.program import JsonValue, Parameter, Program
from onnxc.runtime.records import record

__all__ = [
    "DIVISION", "FORMAT", "FORMAT_VERSION", "KERNELS", "MANIFEST", "PAGE_BYTES", "PIPELINE", "PROGRAM", "PROVENANCE",
    "REPORT", "WEIGHTS", "Artifact", "artifact_bytes", "artifact_path", "cubin_member", "divided_bytes",
    "segment_prefix", "shares_member", "source_member", "tie_images", "to_json", "write_archive", "write_artifact",
]  # fmt: skip

FORMAT, FORMAT_VERSION = "onnxc", 6
MANIFEST, PROGRAM, SIGNATURE, PROVENANCE, REPORT, KERNELS, DIVISION, PIPELINE, WEIGHTS = (
    "manifest.json", "program.json", "signature.json", "provenance.json", "report.json", "kernels.json",
    "division.json", "pipeline.json", "weights",
)  # fmt: skip

PAGE_BYTES = 4096

# The extra field in which Android's zipalign puts its padding.
_PADDING_FIELD = 0xD935
_LOCAL_HEADER_BYTES = 30
_ZIP64_FIELD_BYTES = 20
# Of one write: what the checksum has read is in a cache still when it is copied. Linux keeps files in pages up to as
# large as the writes, and by 16 MiB, 440 MB took 0.8 to 1.1 s on a virtual machine, which gets the largest pages from
# its host again and again; by 256 KiB they take 0.17 s.
_WRITE_BYTES = 1 << 18

# Members from here on get the header for large ones; zipfile itself demands it a little later.
LARGE_BYTES = zipfile.ZIP64_LIMIT // 2


@record(eq=False)
class Artifact:
    """A compiled model.

    images: the linked native image of each target, tied to the program (`tie_images`), none for a program of host
    steps alone. weights: bytes, on a cache line. features: the instruction sets that each image needs, by LLVM's names.
    device: the kernels that the images launch on a GPU, None for a program that has no use for one. division: what each
    of several devices holds, None for a program of one. pipeline: how this, its first segment, and `others` make one
    model; None for a model of one program. file: where it was read from, None for what was just compiled.
    """

    program: Program
    images: Mapping[str, bytes]
    weights: np.ndarray
    provenance: Mapping[str, JsonValue] = field(default_factory=dict)
    report: JsonValue = ""
    features: Mapping[str, Sequence[str]] = field(default_factory=dict)
    device: DeviceCode | None = None
    division: Division | None = None
    pipeline: Pipeline | None = None
    others: tuple["Artifact", ...] = ()
    file: SavedFile | None = None

    @property
    def segments(self) -> tuple["Artifact", ...]:
        """The segments of a pipeline in order; of another model itself."""
        return self, *self.others

    @property
    def metadata(self) -> Mapping[str, str]:
        """The entries of the model's metadata_props; what is no text in a file that was changed is left out."""
        entries = self.provenance.get("metadata")
        known = entries if isinstance(entries, Mapping) else {}
        return {key: text for key, text in known.items() if isinstance(text, str)}


def tie_images(artifact: Artifact) -> Artifact:
    """The artifact that was just compiled, each image with the digest of the program that it is for."""
    kernels = b"" if artifact.device is None else to_json(encode_device_code(artifact.device))
    divided = divided_bytes(artifact.division, artifact.pipeline)
    digest = program_digest(to_json(encode_program(artifact.program)), kernels, divided, artifact.weights.nbytes)
    return replace(artifact, images={target: tie_image(image, digest) for target, image in artifact.images.items()})


def divided_bytes(division: Division | None, pipeline: Pipeline | None) -> bytes:
    """What a file says of several devices; empty for a program of one."""
    return b"".join(to_json(each.encode()) for each in (division, pipeline) if each is not None)


def write_artifact(artifact: Artifact, path: str | os.PathLike[str]) -> SavedFile:
    """The file, written; whoever reads the path meanwhile sees the old file or the new one, never a part.

    Raises InputError for what is no path, or leads to what is no plain file, DeviceError where writing fails.
    """
    name = artifact_path(path)
    try:
        with replaced_file(name, what="the artifact") as file:
            write_archive(artifact, file)
            digest = write_digest(file)
    except OSError as problem:
        raise DeviceError(f'cannot write "{name}": {problem.strerror}', code="artifact-unwritable") from problem
    return SavedFile(os.path.realpath(name), digest)


def write_archive(artifact: Artifact, file: BinaryIO) -> None:
    """Writes into an empty file all but its digest, which is left blank."""
    members = _members(artifact)
    archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
    try:
        archive.comment = BLANK_DIGEST
        for name, data in members.items():
            _write_member(archive, name, data)
        archive.close()
    except BaseException:
        # The file is given up: closing the archive would write into it once more, and hide what went wrong.
        archive.fp = None
        raise


def artifact_bytes(artifact: Artifact) -> bytes:
    """What the file would hold."""
    file = io.BytesIO()
    write_archive(artifact, file)
    write_digest(file)
    return file.getvalue()


def artifact_path(path: str | os.PathLike[str]) -> str:
    """The path as a text; InputError for bytes, which are a model itself where one is compiled."""
    if isinstance(path, bytes | bytearray | memoryview):
        raise InputError("an artifact is saved and loaded by its path; bytes came", code="bad-path")
    return path_text(path, "the artifact")


def _members(artifact: Artifact) -> dict[str, bytes | memoryview]:
    members = _own_members(artifact)
    for ordinal, segment in enumerate(artifact.others, 1):
        members |= {segment_prefix(ordinal) + name: data for name, data in _own_members(segment).items()}
    return members


def _own_members(artifact: Artifact) -> dict[str, bytes | memoryview]:
    """The members but those of further segments."""
    program = artifact.program
    members: dict[str, bytes | memoryview] = {
        PROGRAM: to_json(encode_program(program)),
        SIGNATURE: to_json({"inputs": _described(program.inputs), "outputs": _described(program.outputs)}),
        PROVENANCE: to_json(dict(artifact.provenance)),
        REPORT: to_json(artifact.report),
    }
    images: list[JsonValue] = []
    for target, image in artifact.images.items():
        member = f"code/{re.sub(r'[^A-Za-z0-9_.+-]', '-', target)}.so"
        assert member not in members, member
        members[member] = image
        images.append({"target": target, "member": member, "features": sorted(artifact.features.get(target, ()))})
    if artifact.device is not None:
        members |= _device_members(artifact.device)
    if artifact.division is not None:
        members[DIVISION] = to_json(artifact.division.encode())
    if artifact.pipeline is not None:
        members[PIPELINE] = to_json(artifact.pipeline.encode())
    members[WEIGHTS] = np.ascontiguousarray(artifact.weights).data
    if artifact.division is not None:
        members |= {shares_member(device): shares.data for device, shares in enumerate(artifact.division.shares)}
    sizes = {name: len(data) for name, data in members.items()}
    manifest: JsonValue = {
        "format": FORMAT, "version": FORMAT_VERSION, "sizes": sizes, "images": images,
        "device": None if artifact.device is None else artifact.device.architecture,
    }  # fmt: skip
    return {MANIFEST: to_json(manifest)} | members


def cubin_member(key: str) -> str:
    """The member that holds the machine code of a kernel."""
    return f"kernels/{key}.cubin"


def shares_member(device: int) -> str:
    """The member that holds the shares of a device."""
    return f"shares/{device}"


def segment_prefix(ordinal: int) -> str:
    """What the names of all members of a segment behind the first begin with."""
    return f"segments/{ordinal}/"


def source_member(key: str) -> str:
    """The member that holds the source of a kernel."""
    return f"kernels/{key}.py"


def _device_members(device: DeviceCode) -> dict[str, bytes]:
    members = {KERNELS: to_json(encode_device_code(device))}
    for kernel in device.kernels:
        assert cubin_member(kernel.key) not in members, kernel.key
        members[cubin_member(kernel.key)] = kernel.cubin
        members[source_member(kernel.key)] = kernel.source.encode()
    return members


def to_json(value: JsonValue) -> bytes:
    """JSON in one spelling: sorted keys, one line."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _described(parameters: Sequence[Parameter]) -> JsonValue:
    return [
        {"name": parameter.name, "type": parameter.text, "optional": parameter.default is not None}
        for parameter in parameters
    ]


def _write_member(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    """Appends a member whose data begin on a page."""
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o644 << 16
    info.create_system = 3
    info.file_size = len(data)
    is_large = len(data) > LARGE_BYTES
    position = archive.start_dir + _LOCAL_HEADER_BYTES + len(name.encode()) + _ZIP64_FIELD_BYTES * is_large
    padding = -(position + 4) % PAGE_BYTES
    info.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=is_large) as member:
        for start in range(0, len(data), _WRITE_BYTES):
            member.write(data[start : start + _WRITE_BYTES])
