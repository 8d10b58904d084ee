"""Reading: from a path, bytes, a file object or another library's model to a parsed model.

What the bytes mean is the checker's to judge; this page knows only how to get at them. Large tensors are not parsed:
they stay where they are, in the bytes or in the mapped file. A text is parsed first, and its message serialized.
"""

import os
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable

from google.protobuf.message import DecodeError, EncodeError

from onnxc.compiler.diagnostics import error, model_error
from onnxc.compiler.frontend.content_digest import ContentDigest, content_digest
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, OperatorSetIdProto
from onnxc.compiler.frontend.text_forms.forms import form_of_path, parse_text
from onnxc.compiler.frontend.wire import WireError, explain, lift_tensors
from onnxc.runtime.errors import InputError, ModelError
from onnxc.runtime.files.foreign_files import HEAD_BYTES, foreign_format
from onnxc.runtime.files.mapped_file import map_file
from onnxc.runtime.files.plain_files import AnyPath, open_plain_file
from onnxc.runtime.records import record

# Files from this size on are mapped; smaller ones are read, which protects against changes under our feet.
MAP_BYTES = 16 << 20


@runtime_checkable
class SupportsSerialize(Protocol):
    """What other libraries' models have in common."""

    def SerializeToString(self) -> bytes:
        """The model as protobuf bytes."""


@record
class LoadedModel:
    """A parsed model; `folder` is where its external data is, None where it came from no file.

    `allow_links`: whether links in that folder are followed. `reads_data`: False where nobody is going to read
    floats of external data, which need not be there.

    `outline` is the model with tokens in place of the raw_data of large tensors, `lifted` what the tokens stand for.
    """

    data: memoryview = field(repr=False)
    outline: ModelProto = field(repr=False)
    lifted: Mapping[bytes, memoryview] = field(repr=False)
    folder: Path | None
    digest: str
    allow_links: bool = False
    reads_data: bool = True

    @cached_property
    def proto(self) -> ModelProto:
        """The model as one complete message, which copies every tensor; for those who write models."""
        return _parse(self.data)


def read_model(
    source: "str | os.PathLike[str] | os.PathLike[bytes] | bytes | BinaryIO | SupportsSerialize | LoadedModel",
    *,
    opset: int | None = None,
    allow_links: bool = False,
    digest: ContentDigest = content_digest,
) -> LoadedModel:
    """The model that `source` is, or is the path of; the ending of a path tells a text form (`text_forms/forms.py`).

    One that was read already, with these options, stays as it is.

    opset: the version of ai.onnx where the model imports none. allow_links: for its external data.
    digest: how the digest of its bytes is computed, or known.

    Raises InputError where the path leads to no plain file, MissingFileError where to none; ModelError where the bytes
    are not a model.
    """
    if isinstance(source, LoadedModel):
        return source
    data, folder, status = _open(source)
    if not len(data):
        raise _error("empty-model", f"{_named(source)} is empty: download or export it again")
    form = form_of_path(_path_of(source))
    if form is not None:
        data, status = _serialized(parse_text(data, form)), None
    outline, lifted = _outline(data, source)
    if not outline.HasField("graph") and not outline.HasField("ir_version"):
        raise _not_a_model(data, source, "it has neither a graph nor an IR version")
    if opset is not None and _lacks_opset(outline, opset):
        data = _with_opset(data, outline, opset)
        outline, lifted = _outline(data, source)
        status = None
    return LoadedModel(data, outline, lifted, folder, digest(data, status), allow_links)


def _lacks_opset(model: ModelProto, opset: int) -> bool:
    """Whether the model imports no version of ai.onnx; InputError where it imports another than is asked for."""
    imported = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not imported and model.ir_version < 3:
        imported = [1]
    if any(version != opset for version in imported):
        message = f"opset is {opset}, and the model is of opset {imported[0]}"
        raise InputError(f"{message}; opset is for models that do not say", code="opset-contradiction")
    return not imported


def _with_opset(data: memoryview, outline: ModelProto, opset: int) -> memoryview:
    """The bytes of a model that imports this version of ai.onnx, and of whose functions do that import nothing."""
    said = OperatorSetIdProto(version=opset)
    if all(function.opset_import for function in outline.functions):
        # Messages one behind the other are one message, whose lists are joined.
        return memoryview(bytes(data) + ModelProto(opset_import=[said]).SerializeToString())
    model = _parse(data)
    model.opset_import.append(said)
    for function in model.functions:
        if not function.opset_import:
            function.opset_import.append(said)
    return _serialized(model)


def wrap_model(model: ModelProto, folder: Path | None, *, allow_links: bool = False) -> LoadedModel:
    """A model that is in memory already, with its external data in `folder`."""
    data = _serialized(model)
    return LoadedModel(data, model, {}, folder, content_digest(data, None), allow_links)


def rewritten(loaded: LoadedModel, model: ModelProto) -> LoadedModel:
    """A model that was made of another one, with its external data where that one has it."""
    made = wrap_model(model, loaded.folder, allow_links=loaded.allow_links)
    return replace(made, reads_data=loaded.reads_data)


def _open(source: object) -> tuple[memoryview, Path | None, os.stat_result | None]:
    """The bytes of a source, the folder of its external data, and what the file system says of its file."""
    if isinstance(source, str | os.PathLike):
        data, status = _read_file(source)
        return data, Path(os.fsdecode(source)).absolute().parent, status
    if isinstance(source, bytes | bytearray | memoryview):
        return memoryview(source).cast("B"), None, None
    if isinstance(source, SupportsSerialize):
        return _serialized(source), None, None
    read = getattr(source, "read", None)
    if read is None:
        kind = type(source).__name__
        raise TypeError(f"a model is a path, bytes, a binary file or has SerializeToString; this is of type {kind}")
    data, path = read(), _path_of(source)
    if not isinstance(data, bytes):
        raise _error("text-file", 'the model file is open as text: open it with mode "rb"')
    return memoryview(data), Path(path).absolute().parent if path else None, None


def _path_of(source: object) -> str:
    """The path of a file, or of an open one; empty where a model comes from none."""
    path = source if isinstance(source, str | os.PathLike) else getattr(source, "name", None)
    return os.fsdecode(path) if isinstance(path, str | os.PathLike) else ""


def _read_file(path: AnyPath) -> tuple[memoryview, os.stat_result]:
    with open_plain_file(path, what="the model") as file:
        try:
            status = os.fstat(file.fileno())
            if status.st_size >= MAP_BYTES:
                return map_file(file.fileno()), status
            return memoryview(file.read()), status
        except OSError as problem:
            raise InputError(f"{_named(path)} cannot be read: {problem}", code="unreadable-file") from problem


def _serialized(source: SupportsSerialize) -> memoryview:
    try:
        return memoryview(source.SerializeToString())
    except (EncodeError, ValueError) as problem:
        message = f"{_named(source)} cannot be serialized ({problem}): save it with external data and pass the path"
        raise _error("unserializable-model", message) from problem


def _outline(data: memoryview, source: object) -> tuple[ModelProto, Mapping[bytes, memoryview]]:
    try:
        small, lifted = lift_tensors(data)
        return ModelProto.FromString(small), lifted
    except (WireError, DecodeError):
        reason = explain(data)
        if reason.code == "not-a-model" or _impostor(data):
            raise _not_a_model(data, source, str(reason)) from None
        advice = "; it may be cut off: copy or download it again" if reason.code == "truncated-model" else ""
        raise _error(reason.code, f"{_named(source)} cannot be parsed: {reason}{advice}") from None


def _parse(data: memoryview) -> ModelProto:
    try:
        return ModelProto.FromString(bytes(data))
    except DecodeError:
        message = f"one message of {len(data)} bytes is more than protobuf holds: save the model with external data"
        raise _error("model-too-large", message) from None


def _not_a_model(data: memoryview, source: object, reason: str) -> ModelError:
    kind = _impostor(data)
    described = f"it looks like {kind}" if kind else reason
    return _error("not-a-model", f"{_named(source)} is not an ONNX model: {described}")


def _impostor(data: memoryview) -> str | None:
    return foreign_format(bytes(data[:HEAD_BYTES]))


def _named(source: object) -> str:
    if isinstance(source, str | os.PathLike):
        return f'"{os.fsdecode(source)}"'
    return "the model"


def _error(code: str, message: str) -> ModelError:
    return model_error([error(code, message, rule="ONNX IR, ModelProto" if code == "not-a-model" else "")])
