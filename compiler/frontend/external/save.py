"""A model written to a file, its initializers beside it where they are large: streamed, never in one message."""

from pathlib import Path
from typing import BinaryIO

from google.protobuf.message import EncodeError

from onnxc.compiler.diagnostics import error, model_error
from onnxc.compiler.frontend.external.all_tensors import all_tensors
from onnxc.compiler.frontend.external.data_files import ExternalFiles
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, StringStringEntryProto, TensorProto
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.frontend.tensor_error import TensorError
from onnxc.compiler.frontend.tensors import Buffer, TensorStore, stored_bytes
from onnxc.compiler.frontend.text_forms.forms import form_of_path, print_text
from onnxc.runtime.errors import DeviceError, InputError, ModelError
from onnxc.runtime.files.plain_files import AnyPath, path_text, replaced_file

__all__ = ["save_model"]

OUTSIDE_FROM_BYTES = 1024
"""Smaller initializers stay in the model, which many tools read alone: the threshold of onnx.save."""

_PAGE_FROM_BYTES, _PAGE, _LINE = 1 << 20, 1 << 16, 64
"""Large tensors begin where any system may map them, as ONNX recommends; smaller ones on a cache line."""

MOST_MESSAGE_BYTES = (1 << 31) - 1

_WRITE_BYTES = 1 << 24
"""Of one write, between which Ctrl-C works: 16 MiB took 20 ms at best, 0.4 s on a busy disk."""

_TYPED = ("float_data", "int32_data", "int64_data", "uint64_data", "double_data")


def save_model(loaded: LoadedModel, path: AnyPath, external_data: str | None) -> None:
    """Writes the model; `external_data` names the file beside it that gets the large initializers, None for none.

    It is a text where the ending of the path is that of a text form.

    Raises ModelError where a tensor cannot be read, what stays in the model is more than a message holds, or no text
    can say it; InputError for names that cannot be, DeviceError where writing fails.
    """
    target = Path(path_text(path, "the model"))
    form = form_of_path(target.name)
    model = ModelProto()
    model.CopyFrom(loaded.outline)
    store = TensorStore(ExternalFiles(loaded.folder, allow_links=loaded.allow_links), loaded.lifted)
    try:
        if external_data is None:
            data = _message(model, [tensor for tensor, _ in all_tensors(model)], store)
        else:
            with replaced_file(_beside(target, external_data), what="the external data") as file:
                inside = _move_outside(model, store, file, external_data)
                data = _message(model, inside, store)
        with replaced_file(target, what="the model") as file:
            file.write(data if form is None else print_text(model, form).encode())
    except OSError as problem:
        raise DeviceError(f'cannot write "{target}": {problem.strerror}', code="model-unwritable") from problem


def _beside(target: Path, name: str) -> Path:
    """The path of the external data, which is a file in the folder of the model."""
    if not isinstance(name, str) or Path(name).name != name or name in ("", "..") or "\0" in name:
        message = f"external_data is {name!r}, expected the name of a file beside the model"
        raise InputError(message, code="external-data-name")
    if name == target.name:
        raise InputError(f"external_data is {name!r}, which is the model itself", code="external-data-name")
    return target.parent / name


def _move_outside(model: ModelProto, store: TensorStore, file: BinaryIO, name: str) -> list[TensorProto]:
    """Writes the large initializers into `file`; the tensors that stay in the model."""
    inside = []
    for tensor, is_initializer in all_tensors(model):
        data = _bytes_of(tensor, store) if is_initializer else None
        if data is None or len(data) < OUTSIDE_FROM_BYTES:
            inside.append(tensor)
            continue
        offset = file.tell() + -file.tell() % (_PAGE if len(data) >= _PAGE_FROM_BYTES else _LINE)
        file.seek(offset)
        view = memoryview(data)
        for start in range(0, len(view), _WRITE_BYTES):
            file.write(view[start : start + _WRITE_BYTES])
        _refer(tensor, {"location": name, "offset": str(offset), "length": str(len(data))})
    return inside


def _refer(tensor: TensorProto, entries: dict[str, str]) -> None:
    """Makes the tensor one whose elements are in another file."""
    for field in ("raw_data", "external_data", *_TYPED):
        tensor.ClearField(field)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.extend(StringStringEntryProto(key=key, value=value) for key, value in entries.items())


def _message(model: ModelProto, tensors: list[TensorProto], store: TensorStore) -> bytes:
    """The model as one message, with the elements of `tensors` in it."""
    total = model.ByteSize()
    for tensor in tensors:
        is_outside = tensor.data_location == TensorProto.EXTERNAL
        if not is_outside and tensor.raw_data not in store.lifted:
            continue
        data = _bytes_of(tensor, store)
        assert data is not None, tensor.name
        total += len(data)
        if total > MOST_MESSAGE_BYTES:
            raise _too_large()
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
        tensor.raw_data = bytes(data)
    try:
        return model.SerializeToString(deterministic=True)
    except (EncodeError, ValueError):
        raise _too_large() from None


def _too_large() -> ModelError:
    message = (
        "what would be in the model is more than one message of protobuf holds, 2 GiB: "
        'external_data="NAME" writes initializers into a file beside it'
    )
    return model_error([error("model-too-large", message)])


def _bytes_of(tensor: TensorProto, store: TensorStore) -> Buffer | None:
    """The elements as raw bytes, None for those that only fit into the model."""
    try:
        return stored_bytes(tensor, store)
    except TensorError as problem:
        raise model_error([error(problem.code, f'tensor "{tensor.name}": {problem}')]) from problem
