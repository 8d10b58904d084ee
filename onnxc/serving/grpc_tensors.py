"""Requests and answers of gRPC: tensors as raw bytes, or in fields by type."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from onnxc.runtime.errors import InputError
from onnxc.serving.datatypes import BYTES, array_of, expect_datatype, expect_shape, raw_bytes, texts_array
from onnxc.serving.inference import (
    Answer,
    InferRequest,
    Parameters,
    WantedOutput,
    parse_region,
    timeout_of,
)
from onnxc.serving.proto.inference_pb2 import (
    InferParameter,
    InferTensor,
    ModelInferRequest,
    ModelInferResponse,
    RequestedOutput,
)
from onnxc.serving.served_model import WireTensor
from onnxc.serving.shared_memory import SharedMemory

__all__ = ["read_infer_request", "write_infer_response"]

FIELDS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", BYTES: "bytes_contents",
}  # fmt: skip


def read_infer_request(message: ModelInferRequest, memory: SharedMemory, left_ns: int) -> InferRequest:
    """The request in a message; `left_ns` until the deadline of its call, 0 for none."""
    raw = iter(message.raw_input_contents)
    is_raw = len(message.raw_input_contents) > 0
    tensors: dict[str, WireTensor] = {}
    for tensor in message.inputs:
        name, datatype, shape = tensor.name, tensor.datatype, tuple(tensor.shape)
        if name in tensors:
            raise InputError(f'input "{name}" comes twice', code="input-twice")
        part = parse_region(_plain(tensor.parameters)) if tensor.parameters else None
        if part is not None:
            array = array_of(name, datatype, shape, memory.find(part.region).read(part.offset, part.byte_size))
        elif is_raw:
            array = array_of(name, datatype, shape, _next(raw, tensor))
        else:
            array = _array_of_fields(tensor)
        tensors[name] = WireTensor(datatype, array)
    if next(raw, None) is not None:
        raise InputError("there are more raw_input_contents than inputs", code="tensor-bytes")
    timeout_ns = timeout_of(_plain(message.parameters)) if message.parameters else 0
    return InferRequest(tensors, [_wanted(output) for output in message.outputs], message.id, timeout_ns or left_ns)


def _next(raw: Iterator[bytes], tensor: InferTensor) -> bytes:
    data = next(raw, None)
    if data is None or tensor.HasField("contents"):
        message = f'input "{tensor.name}": every input has raw_input_contents, or none has'
        raise InputError(message, code="tensor-bytes")
    return data


def _wanted(output: RequestedOutput) -> WantedOutput:
    if not output.parameters:
        return WantedOutput(output.name)
    parameters = _plain(output.parameters)
    timeout_of(parameters)
    return WantedOutput(output.name, part=parse_region(parameters))


def _plain(parameters: Mapping[str, InferParameter]) -> Parameters:
    return {name: getattr(value, value.WhichOneof("choice") or "string_param") for name, value in parameters.items()}


def _array_of_fields(tensor: InferTensor) -> np.ndarray:
    """The tensor whose elements are in the field for its type."""
    dtype, name = expect_datatype(tensor.name, tensor.datatype), FIELDS.get(tensor.datatype)
    if name is None:
        message = f'input "{tensor.name}": {tensor.datatype} has no field; send it in raw_input_contents'
        raise InputError(message, code="tensor-bytes")
    elements: Sequence[int | float | bool | bytes] = getattr(tensor.contents, name)
    count = expect_shape(tensor.name, tensor.shape, len(elements))
    if count != len(elements):
        message = f'input "{tensor.name}" of shape {list(tensor.shape)} has {count} elements, {len(elements)} came'
        raise InputError(message, code="tensor-bytes")
    if tensor.datatype == BYTES:
        return texts_array(tensor.name, tensor.contents.bytes_contents, tensor.shape)
    try:
        return np.array(elements, dtype).reshape(tuple(tensor.shape))
    except OverflowError as problem:
        raise InputError(f'input "{tensor.name}" is {tensor.datatype}: {problem}', code="json-type") from problem


def write_infer_response(answer: Answer, memory: SharedMemory) -> ModelInferResponse:
    """The answer as a message, with raw contents."""
    response = ModelInferResponse(model_name=answer.model.name, model_version=str(answer.model.version), id=answer.id)
    for wanted, array in answer.outputs:
        data, part = raw_bytes(array), wanted.part
        tensor = response.outputs.add(name=wanted.name, datatype=answer.model.datatype(wanted.name), shape=array.shape)
        if part is None:
            response.raw_output_contents.append(data)
            continue
        memory.find(part.region).write(data, part.offset, part.byte_size)
        tensor.parameters["shared_memory_region"].string_param = part.region
        tensor.parameters["shared_memory_offset"].int64_param = part.offset
        tensor.parameters["shared_memory_byte_size"].int64_param = len(data)
    return response
