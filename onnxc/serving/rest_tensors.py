"""Requests and answers of REST: JSON, with tensors as bytes behind it where the client asks for that."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import orjson

from onnxc.runtime.dtypes import dtype_kind
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record
from onnxc.serving.datatypes import BYTES, array_of, expect_datatype, expect_shape, raw_bytes, texts_array
from onnxc.serving.inference import (
    Answer,
    InferRequest,
    Parameters,
    WantedOutput,
    parse_region,
    timeout_of,
)
from onnxc.serving.served_model import ServedModel, WireTensor
from onnxc.serving.shared_memory import SharedMemory

__all__ = ["Body", "Object", "parse_object", "read_infer_request", "write_infer_response"]

Object = Mapping[str, object]

NO_JSON = ("FP16", "BF16")
# Of what types the elements of `data` are, as orjson reads them.
JSON_TYPES: Mapping[str, frozenset[type]] = {
    "bool": frozenset((bool,)),
    "integer": frozenset((int,)),
    "float": frozenset((int, float)),
    "string": frozenset((str,)),
}


@record
class Body:
    """The body of an answer; `header_length` is that of its JSON where bytes follow, else None."""

    data: bytes
    header_length: int | None = None


def parse_object(data: bytes | memoryview) -> Object:
    """The JSON object that a body is; an empty body is an empty one."""
    if not data:
        return {}
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        raise InputError(f"the body is no JSON: {problem}", code="malformed-json") from problem
    if not isinstance(parsed, dict):
        raise InputError(f"the body is a JSON {type(parsed).__name__}, expected an object", code="malformed-json")
    return parsed


def read_infer_request(model: ServedModel, body: bytes, header: str | None, memory: SharedMemory) -> InferRequest:
    """The request in a body; `header` is Inference-Header-Content-Length, where the client sent it."""
    length = _header_length(header, len(body))
    if header is not None and length == 0:
        return _raw_request(model, body)
    view = memoryview(body)
    fields = parse_object(view[:length])
    parameters = _parameters(fields)
    tensors, used = {}, length
    for item in _objects(fields, "inputs"):
        name, tensor, taken = _read_tensor(item, view[used:], memory)
        if name in tensors:
            raise InputError(f'input "{name}" comes twice', code="input-twice")
        tensors[name], used = tensor, used + taken
    if used != len(body):
        raise InputError(f"{len(body) - used} bytes of the body belong to no input", code="tensor-bytes")
    binary = parameters.get("binary_data_output", False) is True
    outputs = [_read_output(item, is_binary=binary) for item in _objects(fields, "outputs")]
    return InferRequest(tensors, outputs, _text(fields, "id", ""), timeout_of(parameters), binary)


def _header_length(header: str | None, size: int) -> int:
    if header is None:
        return size
    if not header.isdecimal() or len(header) > 18 or int(header) > size:
        message = f"Inference-Header-Content-Length is {header[:40]!r}, the body has {size} bytes"
        raise InputError(message, code="header-length")
    return int(header)


def _raw_request(model: ServedModel, body: bytes) -> InferRequest:
    """The request of a body that is one tensor: for models with one input, of whose sizes at most one is open."""
    shape = model.inputs[0].shape if len(model.inputs) == 1 else None
    if shape is None:
        raise InputError("a request without JSON is for models with one input", code="header-length")
    info = model.inputs[0]
    datatype = model.datatype(info.name)
    sizes = [1 if axis == 0 and model.batch else size for axis, size in enumerate(shape)]
    known = math.prod(size for size in sizes if isinstance(size, int))
    open_sizes = sum(isinstance(size, str) for size in sizes)
    if open_sizes > 1 or datatype == BYTES:
        raise InputError(f"the shape of {info} does not follow from the bytes", code="header-length")
    elements = len(body) // expect_datatype(info.name, datatype).itemsize
    resolved = [size if isinstance(size, int) else elements // max(known, 1) for size in sizes]
    return InferRequest({info.name: WireTensor(datatype, array_of(info.name, datatype, resolved, body))})


def _read_tensor(item: Object, rest: memoryview, memory: SharedMemory) -> tuple[str, WireTensor, int]:
    """An input, and how many of the bytes behind the JSON it took."""
    name, datatype = _text(item, "name"), _text(item, "datatype")
    shape, parameters = _shape(item, name), _parameters(item)
    size, part = parameters.get("binary_data_size"), parse_region(parameters)
    if part is not None:
        data = memory.find(part.region).read(part.offset, part.byte_size)
        return name, WireTensor(datatype, array_of(name, datatype, shape, data)), 0
    if size is None:
        return name, WireTensor(datatype, _array_of_json(name, datatype, shape, item.get("data"))), 0
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(rest):
        message = f'binary_data_size of input "{name}" is {size!r}, {len(rest)} bytes are left of the body'
        raise InputError(message, code="tensor-bytes")
    return name, WireTensor(datatype, array_of(name, datatype, shape, rest[:size])), size


def _array_of_json(name: str, datatype: str, shape: Sequence[int], data: object) -> np.ndarray:
    """The tensor whose elements are in a list, nested or flat."""
    dtype = expect_datatype(name, datatype)
    if datatype in NO_JSON:
        raise InputError(f'input "{name}": {datatype} has no form in JSON; send it as bytes', code="json-type")
    if not isinstance(data, list):
        raise InputError(f'input "{name}" has neither data nor bytes', code="json-type")
    flat = data
    while flat and isinstance(flat[0], list):
        if not all(isinstance(row, list) for row in flat):
            raise InputError(f'the data of input "{name}" is no array: rows and numbers mix', code="json-type")
        flat = [element for row in flat for element in row]
    count = expect_shape(name, shape, len(flat))
    if count != len(flat):
        message = f'input "{name}" of shape {list(shape)} has {count} elements, {len(flat)} came'
        raise InputError(message, code="tensor-bytes")
    strange = set(map(type, flat)) - JSON_TYPES["string" if datatype == BYTES else dtype_kind(dtype)]
    if strange:
        came = ", ".join(sorted(kind.__name__ for kind in strange))
        raise InputError(f'input "{name}" is {datatype}, its data has elements of {came}', code="json-type")
    if datatype == BYTES:
        return texts_array(name, flat, shape)
    try:
        with np.errstate(over="raise"):
            return np.array(flat, dtype).reshape(shape)
    except (OverflowError, FloatingPointError) as problem:
        raise InputError(f'input "{name}" is {datatype}: {problem}', code="json-type") from problem


def _read_output(item: Object, *, is_binary: bool) -> WantedOutput:
    parameters = _parameters(item)
    timeout_of(parameters)
    binary = parameters.get("binary_data", is_binary)
    return WantedOutput(_text(item, "name"), binary is True, parse_region(parameters))


def write_infer_response(answer: Answer, memory: SharedMemory) -> Body:
    """The answer as a body."""
    outputs, parts = [], []
    for wanted, array in answer.outputs:
        fields: dict[str, object] = {
            "name": wanted.name,
            "datatype": answer.model.datatype(wanted.name),
            "shape": array.shape,
        }
        if wanted.part is not None:
            data = raw_bytes(array)
            part = wanted.part
            memory.find(part.region).write(data, part.offset, part.byte_size)
            fields["parameters"] = {
                "shared_memory_region": part.region,
                "shared_memory_offset": part.offset,
                "shared_memory_byte_size": len(data),
            }
        elif wanted.is_binary:
            parts.append(raw_bytes(array))
            fields["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            fields["data"] = _json_data(wanted.name, fields["datatype"], array)
        outputs.append(fields)
    head = {"model_name": answer.model.name, "model_version": str(answer.model.version), "outputs": outputs}
    header = orjson.dumps({"id": answer.id, **head} if answer.id else head, option=orjson.OPT_SERIALIZE_NUMPY)
    return Body(b"".join((header, *parts)), len(header)) if parts else Body(header)


def _json_data(name: str, datatype: object, array: np.ndarray) -> object:
    if datatype in NO_JSON or (array.dtype.kind == "f" and not np.isfinite(array).all()):
        message = f'output "{name}" has no form in JSON: {datatype}, or values that are not finite; ask for binary_data'
        raise InputError(message, code="json-type")
    if array.dtype.kind == "O":
        return [str(text) for text in array.reshape(-1)]
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat if array.dtype.kind in "biuf" else flat.view(np.uint8)


def _parameters(item: Object) -> Parameters:
    parameters = item.get("parameters", {})
    if not isinstance(parameters, dict):
        raise InputError("parameters is no object", code="malformed-request")
    return parameters


def _objects(fields: Object, key: str) -> list[Object]:
    items = fields.get(key, [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputError(f"{key} is no array of objects", code="malformed-request")
    return items


def _text(item: Object, key: str, default: str | None = None) -> str:
    text = item.get(key, default)
    if not isinstance(text, str):
        raise InputError(f"{key} is {text!r}, expected a string", code="malformed-request")
    return text


def _shape(item: Object, name: str) -> list[int]:
    shape = item.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise InputError(f'the shape of input "{name}" is no array of integers', code="malformed-request")
    return shape
