"""Tensor data in files beside the model: mapped once each, read-only, and never from outside the model's folder.

A model file may come from anyone, so a location may not reach anything that the model's folder does not hold itself:
no absolute path, no `..`, no symbolic link anywhere along the way, no hard link, nothing but plain files. A cache that
links its files is read where the caller allows links; what the location says still has to be below the folder.
"""

import errno
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from onnxc.compiler.frontend.tensor_error import TensorError
from onnxc.runtime.files.mapped_file import map_file
from onnxc.runtime.files.safetensors import SafetensorsError, StoredTensor, read_header
from onnxc.runtime.records import record

_DIGITS = re.compile(r"[0-9]{1,18}")


@record
class WantedTensor:
    """What a model says of a tensor in another file: its name, element type by its IR name, shape, and bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int


class ExternalFiles:
    """The files beside a model, by location; `folder` is None for a model that is no file."""

    def __init__(self, folder: Path | None, *, allow_links: bool = False) -> None:
        self.folder, self.allow_links = folder, allow_links
        self._headers: dict[PurePosixPath, Mapping[str, StoredTensor]] = {}
        self._mapped: dict[PurePosixPath, tuple[memoryview, os.stat_result]] = {}
        self._digests: dict[PurePosixPath, str] = {}

    def view(self, entries: Mapping[str, str], wanted: WantedTensor) -> memoryview:
        """The bytes that the external_data entries of a tensor name; TensorError says why there are none."""
        location, size = _location(entries), wanted.size
        offset = _integer(entries, "offset", default=0)
        length = _integer(entries, "length", default=size)
        if length != size:
            raise TensorError(
                "external-data-length", f'its type and shape take {size} bytes, its entry "length" says {length}'
            )
        data, _ = self._map(location)
        self._check_digest(entries, location, data)
        if is_stored_by_name(entries):
            return self._stored_bytes(location, data, wanted)
        if offset + length > len(data):
            raise TensorError(
                "external-data-range",
                f'bytes {offset} to {offset + length} of "{location}" are asked for, which has {len(data)}',
            )
        return data[offset : offset + length]

    def content(self, entries: Mapping[str, str]) -> tuple[PurePosixPath, memoryview, os.stat_result]:
        """The file that the external_data entries of a tensor name, all its bytes, and what the file system says of it.

        TensorError says why there is none.
        """
        location = _location(entries)
        return location, *self._map(location)

    def stored(self, entries: Mapping[str, str], name: str) -> StoredTensor:
        """Where the tensor of that name is in the safetensors file that the external_data entries of a tensor name."""
        location = _location(entries)
        return self._stored(location, self._map(location)[0], name)

    def _stored(self, location: PurePosixPath, data: memoryview, name: str) -> StoredTensor:
        if location not in self._headers:
            try:
                self._headers[location] = read_header(data)
            except SafetensorsError as problem:
                message = f'"{location}" is no safetensors file: {problem}'
                raise TensorError("safetensors-header", message) from problem
        stored = self._headers[location].get(name)
        if stored is None:
            raise TensorError("safetensors-tensor", f'"{location}" has no tensor "{name}"')
        return stored

    def _stored_bytes(self, location: PurePosixPath, data: memoryview, wanted: WantedTensor) -> memoryview:
        """The bytes of the tensor of that name in a safetensors file, whose bytes are `data`."""
        stored = self._stored(location, data, wanted.name)
        if (stored.dtype, stored.shape) != (wanted.dtype, wanted.shape):
            there, here = (f"{tensor.dtype}{list(tensor.shape)}" for tensor in (stored, wanted))
            raise TensorError("safetensors-tensor", f'it is {here}, and "{wanted.name}" in "{location}" is {there}')
        return data[stored.start : stored.end]

    def _check_digest(self, entries: Mapping[str, str], location: PurePosixPath, data: memoryview) -> None:
        """The SHA-1 digest of the whole file, where the tensor gives it; it shows damage, no more."""
        declared = entries.get("checksum")
        if declared is None:
            return
        if location not in self._digests:
            self._digests[location] = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        if declared.lower() != self._digests[location]:
            message = (
                f'the SHA-1 digest of "{location}" is {self._digests[location]}, its entry "checksum" says {declared}'
            )
            raise TensorError("external-data-checksum", message)

    def _map(self, location: PurePosixPath) -> tuple[memoryview, os.stat_result]:
        if location not in self._mapped:
            if self.folder is None:
                raise TensorError(
                    "external-data-without-folder",
                    f'its data is in the file "{location}", and a model given as bytes or as an object has no folder: '
                    "pass the path of the model file",
                )
            self._mapped[location] = _map_beneath(self.folder, location, allow_links=self.allow_links)
        return self._mapped[location]


def is_stored_by_name(entries: Mapping[str, str]) -> bool:
    """Whether external_data entries name a safetensors file, and not by bytes which tensor of it is meant."""
    return _location(entries).suffix.lower() == ".safetensors" and "offset" not in entries


def _location(entries: Mapping[str, str]) -> PurePosixPath:
    text = entries.get("location", "")
    if not text:
        raise TensorError("external-data-location", 'its data is in another file, and no entry "location" names it')
    location = PurePosixPath(text)
    if "\0" in text or location.is_absolute() or ".." in location.parts or not location.parts:
        raise TensorError(
            "external-data-location", f"the location {text!r} of its data is not a file below the model's folder"
        )
    return location


def _integer(entries: Mapping[str, str], key: str, *, default: int) -> int:
    text = entries.get(key)
    if text is None:
        return default
    if not _DIGITS.fullmatch(text):
        raise TensorError("external-data-entry", f"the entry {key!r} of its data is {text!r}, not a count of bytes")
    return int(text)


def _map_beneath(folder: Path, location: PurePosixPath, *, allow_links: bool) -> tuple[memoryview, os.stat_result]:
    """All of a file, opened once, so that nothing changes between two looks."""
    try:
        descriptor = _open_linked(folder, location) if allow_links else _open_beneath(folder, location)
    except FileNotFoundError:
        message = f'the file "{location}" with its data does not exist: copy or download it beside the model'
        raise TensorError("external-data-not-found", message) from None
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENOTDIR):
            raise TensorError("external-data-link", _misled(location, allow_links=allow_links)) from None
        reason = f'the file "{location}" with its data cannot be opened: {problem.strerror}'
        raise TensorError("external-data-unreadable", reason) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise TensorError("external-data-not-a-file", f'"{location}" with its data is not a plain file')
        if status.st_nlink > 1 and not allow_links:
            raise TensorError(
                "external-data-link",
                f'"{location}" has {status.st_nlink} hard links, so it may be a file of elsewhere: copy it, or pass '
                "allow_links=True where you trust it",
            )
        if status.st_size == 0:
            return memoryview(b""), status
        return map_file(descriptor), status
    finally:
        os.close(descriptor)


def _misled(location: PurePosixPath, *, allow_links: bool) -> str:
    """Why nothing is found on the way to a file, and what to do."""
    if allow_links:
        return f'"{location}" leads through a file, or from link to link without end'
    return (
        f'"{location}" leads through a symbolic link or a file: put the data itself into the model\'s folder, or pass '
        "allow_links=True where you trust it"
    )


def _open_linked(folder: Path, location: PurePosixPath) -> int:
    # A FIFO opened without O_NONBLOCK would wait for a writer.
    return os.open(folder / location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _open_beneath(folder: Path, location: PurePosixPath) -> int:
    """Opened step by step, so that no link is followed."""
    *folders, name = location.parts
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = inner
        # A FIFO opened without O_NONBLOCK would wait for a writer.
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=current)
    finally:
        os.close(current)
