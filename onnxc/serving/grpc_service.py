"""gRPC: the methods of inference.GRPCInferenceService."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from onnxc.runtime.errors import InputError, OnnxcError, UnsupportedError
from onnxc.serving import descriptions, settings
from onnxc.serving.grpc_tensors import read_infer_request, write_infer_response
from onnxc.serving.inference import answer
from onnxc.serving.model_config import Configuration, parse_config
from onnxc.serving.off_loop import work_on
from onnxc.serving.proto import inference_pb2 as pb
from onnxc.serving.service import Service
from onnxc.serving.serving_errors import ServingError, status_of

__all__ = ["TRACE_HEADERS", "grpc_server", "load_configuration"]

LOG = logging.getLogger("onnxc.serving")
SERVICE = "inference.GRPCInferenceService"
OPEN_METHODS = ("ServerLive", "ServerReady")
TRACE_HEADERS = ("traceparent", "tracestate")

Context = grpc.aio.ServicerContext[Any, Any]
R = TypeVar("R", bound=Message)
Work = Callable[[Service, R], Message]

_MOST_BYTES = 2**31 - 1
_LONGEST_S = 365 * 24 * 3600
"""A deadline beyond this is none."""


def server_live(service: Service, request: pb.Empty) -> Message:
    """Whether the server is there."""
    return pb.BoolAnswer(value=True)


def server_ready(service: Service, request: pb.Empty) -> Message:
    """Whether all models are loaded and warm."""
    return pb.BoolAnswer(value=service.ready.is_set())


def model_ready(service: Service, request: pb.ModelNameRequest) -> Message:
    """Whether a model is served."""
    try:
        service.registry.find(request.name, request.version)
    except ServingError:
        return pb.BoolAnswer(value=False)
    return pb.BoolAnswer(value=True)


def server_metadata(service: Service, request: pb.Empty) -> Message:
    """What the server is."""
    return _message(descriptions.server_metadata(), pb.ServerMetadata())


def model_metadata(service: Service, request: pb.ModelNameRequest) -> Message:
    """What a model takes and gives."""
    model = service.registry.find(request.name, request.version)
    return _message(descriptions.model_metadata(model, service.registry.versions(model.name)), pb.ModelMetadata())


def model_config(service: Service, request: pb.ModelNameRequest) -> Message:
    """How a model is served."""
    config = descriptions.model_config(service.registry.find(request.name, request.version))
    return _message({"config": config}, pb.ModelConfigResponse())


def model_statistics(service: Service, request: pb.ModelNameRequest) -> Message:
    """What a model has done, or all without a name."""
    models = [service.registry.find(request.name, request.version)] if request.name else service.registry.served()
    return _message(descriptions.statistics(models), pb.ModelStatisticsResponse())


def repository_index(service: Service, request: pb.RepositoryIndexRequest) -> Message:
    """The models there are."""
    models = descriptions.index(service.registry, ready_only=request.ready)
    return _message({"models": models}, pb.RepositoryIndexResponse())


def repository_load(service: Service, request: pb.RepositoryModelRequest) -> Message:
    """Loads or reloads a model."""
    parameters = {
        name: getattr(value, value.WhichOneof("choice") or "string_param") for name, value in request.parameters.items()
    }
    service.registry.load(request.model_name, load_configuration(parameters))
    return pb.Empty()


def load_configuration(parameters: Mapping[str, object]) -> Configuration | None:
    """The configuration that comes with a request to load a model; UnsupportedError for files that do."""
    for name in parameters:
        if name.startswith("file:"):
            raise UnsupportedError("models come from the repository, not with requests", code="load-parameter")
    config = parameters.get("config")
    if config is not None and not isinstance(config, str):
        raise InputError("the parameter config is no text", code="load-parameter")
    return None if config is None else parse_config(config)


def repository_unload(service: Service, request: pb.RepositoryModelRequest) -> Message:
    """Serves a model no more."""
    service.registry.unload(request.model_name)
    return pb.Empty()


def memory_status(service: Service, request: pb.ModelNameRequest) -> Message:
    """The registered regions."""
    regions = {
        name: {"name": name, "key": region.key, "offset": region.offset, "byte_size": region.byte_size}
        for name, region in service.memory.status(request.name).items()
    }
    return _message({"regions": regions}, pb.SystemSharedMemoryStatus())


def memory_register(service: Service, request: pb.SharedMemoryRequest) -> Message:
    """Registers a region."""
    service.memory.register(request.name, request.key, request.offset, request.byte_size)
    return pb.Empty()


def memory_unregister(service: Service, request: pb.ModelNameRequest) -> Message:
    """Forgets a region, or all."""
    service.memory.unregister(request.name)
    return pb.Empty()


def no_device_memory(service: Service, request: pb.Empty) -> Message:
    """There never is a region on a device."""
    return pb.Empty()


def device_register(service: Service, request: pb.Empty) -> Message:
    """Refuses: tensors of requests come from the host."""
    raise UnsupportedError("shared memory of CUDA devices is not supported", code="device-memory")


def trace_setting(service: Service, request: pb.SettingsRequest) -> Message:
    """The settings of tracing."""
    settings.expect_no_trace({name: list(value.value) for name, value in request.settings.items()})
    fields = {name: {"value": list(values)} for name, values in settings.trace_settings().items()}
    return _message({"settings": fields}, pb.SettingsRequest())


def log_settings(service: Service, request: pb.LogSettings) -> Message:
    """What is logged, and changes of it."""
    changes = {
        name: getattr(value, value.WhichOneof("parameter_choice") or "string_param")
        for name, value in request.settings.items()
    }
    service.logs.update(changes)
    kinds = {bool: "bool_param", int: "uint32_param", str: "string_param"}
    fields = {name: {kinds[type(value)]: value} for name, value in service.logs.to_json().items()}
    return _message({"settings": fields}, pb.LogSettings())


# By the name of the method: the type of its request, and what answers it.
METHODS: Mapping[str, tuple[type[Message], Callable[[Service, Any], Message]]] = {
    "ServerLive": (pb.Empty, server_live),
    "ServerReady": (pb.Empty, server_ready),
    "ModelReady": (pb.ModelNameRequest, model_ready),
    "ServerMetadata": (pb.Empty, server_metadata),
    "ModelMetadata": (pb.ModelNameRequest, model_metadata),
    "ModelConfig": (pb.ModelNameRequest, model_config),
    "ModelStatistics": (pb.ModelNameRequest, model_statistics),
    "RepositoryIndex": (pb.RepositoryIndexRequest, repository_index),
    "RepositoryModelLoad": (pb.RepositoryModelRequest, repository_load),
    "RepositoryModelUnload": (pb.RepositoryModelRequest, repository_unload),
    "SystemSharedMemoryStatus": (pb.ModelNameRequest, memory_status),
    "SystemSharedMemoryRegister": (pb.SharedMemoryRequest, memory_register),
    "SystemSharedMemoryUnregister": (pb.ModelNameRequest, memory_unregister),
    "CudaSharedMemoryStatus": (pb.Empty, no_device_memory),
    "CudaSharedMemoryRegister": (pb.Empty, device_register),
    "CudaSharedMemoryUnregister": (pb.Empty, no_device_memory),
    "TraceSetting": (pb.SettingsRequest, trace_setting),
    "LogSettings": (pb.LogSettings, log_settings),
}


def _message(fields: Mapping[str, object], message: R) -> R:
    return json_format.ParseDict(dict(fields), message)


async def _infer(
    service: Service, threads: Executor, context: Context, request: pb.ModelInferRequest
) -> pb.ModelInferResponse:
    with service.requests:
        model = service.registry.find(request.model_name, request.model_version)
        read = await work_on(request.ByteSize(), threads, partial(read_infer_request, request, service.memory))
        left = context.time_remaining()
        if left is not None and left < _LONGEST_S and not read.timeout_ns:
            read = read._replace(timeout_ns=max(int(left * 1e9), 1))
        answered = await answer(model, read)
        return await work_on(answered.size, threads, partial(write_infer_response, answered, service.memory))


async def _stream(
    service: Service, threads: Executor, requests: AsyncIterator[bytes], context: Context
) -> AsyncIterator[Message]:
    """An answer for each request, in order; one that fails does not end the stream."""
    async for data in requests:
        request = pb.ModelInferRequest()
        try:
            request = _parsed(pb.ModelInferRequest, data)
            yield pb.ModelStreamInferResponse(infer_response=await _infer(service, threads, context, request))
        except OnnxcError as problem:
            response = pb.ModelStreamInferResponse(error_message=str(problem))
            response.infer_response.id = request.id
            yield response


def _unary(
    service: Service, name: str, work: Callable[[Context, R], Awaitable[Message]], kind: type[R]
) -> "grpc.RpcMethodHandler[bytes, Message]":
    """A method with one request and one answer; its errors become statuses."""

    async def run(data: bytes, context: Context) -> Message:
        try:
            _enter(service, name, context)
            return await work(context, _parsed(kind, data))
        except Exception as problem:
            await _abort(context, name, problem)
            raise

    return grpc.unary_unary_rpc_method_handler(run, None, _serialized)


def _streaming(service: Service, threads: Executor, name: str) -> "grpc.RpcMethodHandler[bytes, Message]":
    """The method with many requests and an answer for each."""

    async def run(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Message]:
        try:
            _enter(service, name, context)
            with service.streams:
                async for response in _stream(service, threads, requests, context):
                    yield response
        except Exception as problem:
            await _abort(context, name, problem)
            raise

    return grpc.stream_stream_rpc_method_handler(run, None, _serialized)


def _parsed(kind: type[R], data: bytes) -> R:
    """The message in the bytes of a request. InputError where they are none.

    gRPC itself would answer with a status that does not say whose fault it is.
    """
    try:
        return kind.FromString(data)
    except DecodeError as problem:
        raise InputError(f"the request is no message: {problem}", code="malformed-request") from problem


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _enter(service: Service, name: str, context: Context) -> None:
    """What every call begins with: the token, and the headers of a trace, which go back with the answer."""
    authorization, trace = "", []
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str):
            authorization = value
        elif key in TRACE_HEADERS:
            trace.append((key, value))
    if name not in OPEN_METHODS:
        service.expect_token(authorization)
    if trace:
        context.set_trailing_metadata(tuple(trace))
        LOG.debug("%s %s", name, trace)


async def _abort(context: Context, name: str, problem: Exception) -> None:
    """Ends the call with the status of the error; what is none of ours is a defect, and logged as one."""
    if isinstance(problem, OnnxcError):
        await context.abort(status_of(problem).grpc, str(problem))
    # The client has ended its stream otherwise than it should; there is nobody to tell.
    if not isinstance(problem, grpc.RpcError):
        LOG.error("%s failed", name, exc_info=problem)
        await context.abort(grpc.StatusCode.INTERNAL, f"error[internal-error]: {type(problem).__name__}")


def grpc_server(service: Service, threads: Executor, rpcs: int) -> grpc.aio.Server:
    """The server, without a port, on the running loop; as many calls as `rpcs` are worked on, or wait.

    What may take long, but for calls of models, runs in the threads.
    """
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        name: _unary(
            service, name, partial(_without_context, service, None if name in OPEN_METHODS else threads, work), kind
        )
        for name, (kind, work) in METHODS.items()
    }
    handlers["ModelInfer"] = _unary(service, "ModelInfer", partial(_infer, service, threads), pb.ModelInferRequest)
    handlers["ModelStreamInfer"] = _streaming(service, threads, "ModelStreamInfer")
    options = (
        # gRPC has 32 bits for it.
        ("grpc.max_receive_message_length", min(service.max_body, _MOST_BYTES)),
        ("grpc.max_send_message_length", -1),
        # Two servers on one port would share its requests.
        ("grpc.so_reuseport", 0),
    )
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=rpcs)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    return server


async def _without_context(
    service: Service, threads: Executor | None, work: Work[R], context: Context, request: R
) -> Message:
    if threads is None:
        return work(service, request)
    return await asyncio.get_running_loop().run_in_executor(threads, work, service, request)
