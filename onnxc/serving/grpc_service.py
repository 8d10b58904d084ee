"""gRPC: the methods of inference.GRPCInferenceService."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from onnxc.runtime.errors import InputError, OnnxcError, UnsupportedError
from onnxc.serving import descriptions, settings
from onnxc.serving.batching import Asker
from onnxc.serving.grpc_tensors import read_infer_request, write_infer_response
from onnxc.serving.inference import Answer, ask
from onnxc.serving.model_config import Configuration, parse_config
from onnxc.serving.off_loop import LONG_BYTES
from onnxc.serving.proto import inference_pb2 as pb
from onnxc.serving.rpc_server import Conversation, Rpc, RpcServer
from onnxc.serving.service import Service
from onnxc.serving.serving_errors import ServingError, status_of

__all__ = ["TRACE_HEADERS", "grpc_server", "load_configuration"]

LOG = logging.getLogger("onnxc.serving")
SERVICE = "inference.GRPCInferenceService"
OPEN_METHODS = ("ServerLive", "ServerReady")
TRACE_HEADERS = ("traceparent", "tracestate")

R = TypeVar("R", bound=Message)
Give = Callable[[bytes | Exception], None]
Wrap = Callable[[pb.ModelInferResponse], Message]

_MOST_BYTES = 2**31 - 1
_LONGEST_S = 365 * 24 * 3600
"""A deadline beyond this is none."""

_NO_MESSAGE = "the call ended without a request"


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


class _Unary:
    """A method with one request and one answer, which `work` computes: in a thread, or at once without threads."""

    def __init__(
        self, rpc: Rpc, name: str, kind: type[Message], work: Callable[[Any], Message], threads: Executor | None
    ):
        self._rpc, self._name, self._kind, self._work, self._threads = rpc, name, kind, work, threads

    def on_message(self, data: bytes | None) -> None:
        if data is None:
            self._rpc.finish(code=grpc.StatusCode.UNIMPLEMENTED, details=_NO_MESSAGE)
        elif self._threads is None:
            self._answer(data)
        else:
            self._threads.submit(self._answer, data)

    def on_closed(self) -> None:
        """What has begun goes on to its end."""

    def _answer(self, data: bytes) -> None:
        try:
            answer = self._work(_parsed(self._kind, data)).SerializeToString()
        except Exception as problem:
            _fail(self._rpc, self._name, problem)
        else:
            self._rpc.finish(answer)


class _Inference:
    """A request for inference on its way; `give` is given the bytes of its answer, or its error, once, by any thread.

    It is given nothing where the client has gone before the call of the model began.
    """

    def __init__(self, service: Service, threads: Executor, rpc: Rpc, wrap: Wrap, give: Give) -> None:
        self._service, self._threads, self._rpc, self._wrap, self._give = service, threads, rpc, wrap, give
        self._is_admitted = False
        self._leave: Callable[[], bool] | None = None
        self.id = ""

    def begin(self, data: bytes) -> None:
        """Called by the thread that polls."""
        if len(data) < LONG_BYTES:
            self._ask(data, self._rpc.asker)
        else:
            self._threads.submit(self._ask, data, Asker(self._threads.submit))

    def withdraw(self) -> None:
        """The client has gone: the request leaves the queue, if it still waits."""
        if self._leave is not None and self._leave():
            self._dismiss()

    def _ask(self, data: bytes, asker: Asker) -> None:
        try:
            request = _parsed(pb.ModelInferRequest, data)
            self.id = request.id
            self._service.requests.acquire()
            self._is_admitted = True
            model = self._service.registry.find(request.model_name, request.model_version)
            left = self._rpc.time_remaining()
            left_ns = max(int(left * 1e9), 1) if left < _LONGEST_S else 0
            read = read_infer_request(request, self._service.memory, left_ns)
            self._leave = ask(model, read, self._done, asker)
        except Exception as problem:
            self._end(problem)
            return
        # Whoever comes second, this or the event of the close, finds what the other has written.
        if self._rpc.is_closed:
            self.withdraw()

    def _done(self, outcome: Answer | Exception) -> None:
        if isinstance(outcome, Exception):
            self._end(outcome)
        elif outcome.size < LONG_BYTES:
            self._write(outcome)
        else:
            self._threads.submit(self._write, outcome)

    def _write(self, answered: Answer) -> None:
        try:
            data = self._wrap(write_infer_response(answered, self._service.memory)).SerializeToString()
        except Exception as problem:
            self._end(problem)
        else:
            self._end(data)

    def _end(self, outcome: bytes | Exception) -> None:
        if self._is_admitted:
            self._dismiss()
        self._give(outcome)

    def _dismiss(self) -> None:
        self._is_admitted = False
        self._service.requests.release()


class _ModelInfer:
    """The method with one request for inference."""

    def __init__(self, service: Service, threads: Executor, rpc: Rpc) -> None:
        self._rpc = rpc
        self._inference = _Inference(service, threads, rpc, _itself, partial(_give, rpc))

    def on_message(self, data: bytes | None) -> None:
        if data is None:
            self._rpc.finish(code=grpc.StatusCode.UNIMPLEMENTED, details=_NO_MESSAGE)
        else:
            self._inference.begin(data)

    def on_closed(self) -> None:
        self._inference.withdraw()


def _give(rpc: Rpc, outcome: bytes | Exception) -> None:
    if isinstance(outcome, Exception):
        _fail(rpc, "ModelInfer", outcome)
    else:
        rpc.finish(outcome)


def _itself(response: pb.ModelInferResponse) -> Message:
    return response


class _ModelStreamInfer:
    """The method with many requests and an answer for each, in order; one that fails does not end the stream."""

    def __init__(self, service: Service, threads: Executor, rpc: Rpc) -> None:
        self._service, self._threads, self._rpc = service, threads, rpc
        self._inference: _Inference | None = None
        service.streams.acquire()

    def on_message(self, data: bytes | None) -> None:
        if data is None:
            self._rpc.finish()
            return
        self._inference = _Inference(self._service, self._threads, self._rpc, _of_stream, self._give)
        self._inference.begin(data)

    def on_closed(self) -> None:
        self._service.streams.release()
        if self._inference is not None:
            self._inference.withdraw()

    def _give(self, outcome: bytes | Exception) -> None:
        if isinstance(outcome, OnnxcError):
            assert self._inference is not None
            response = pb.ModelStreamInferResponse(error_message=str(outcome))
            response.infer_response.id = self._inference.id
            self._rpc.send(response.SerializeToString())
        elif isinstance(outcome, Exception):
            _fail(self._rpc, "ModelStreamInfer", outcome)
        else:
            self._rpc.send(outcome)


def _of_stream(response: pb.ModelInferResponse) -> Message:
    return pb.ModelStreamInferResponse(infer_response=response)


def _parsed(kind: type[R], data: bytes) -> R:
    """The message in the bytes of a request; InputError where they are none."""
    try:
        return kind.FromString(data)
    except DecodeError as problem:
        raise InputError(f"the request is no message: {problem}", code="malformed-request") from problem


def _begun(service: Service, name: str, conversation: Callable[[Rpc], Conversation], rpc: Rpc) -> Conversation | None:
    """What answers a call, or None where it is refused."""
    try:
        _enter(service, name, rpc)
        return conversation(rpc)
    except OnnxcError as problem:
        _fail(rpc, name, problem)
        return None


def _enter(service: Service, name: str, rpc: Rpc) -> None:
    """What every call begins with: the token, and the headers of a trace, which go back with the answer."""
    authorization, trace = "", []
    for key, value in rpc.metadata:
        if not isinstance(value, str):
            continue
        if key == "authorization":
            authorization = value
        elif key in TRACE_HEADERS:
            trace.append((key, value))
    if name not in OPEN_METHODS:
        service.expect_token(authorization)
    if trace:
        rpc.trailing = tuple(trace)
        LOG.debug("%s %s", name, trace)


def _fail(rpc: Rpc, name: str, problem: Exception) -> None:
    """Ends the call with the status of the error; what is none of ours is a defect, and logged as one."""
    if isinstance(problem, OnnxcError):
        rpc.finish(code=status_of(problem).grpc, details=str(problem))
    else:
        LOG.error("%s failed", name, exc_info=problem)
        rpc.finish(code=grpc.StatusCode.INTERNAL, details=f"error[internal-error]: {type(problem).__name__}")


def grpc_server(service: Service, threads: Executor, rpcs: int) -> RpcServer:
    """The server, without a port; as many calls as `rpcs` are worked on, or wait.

    What may take long, but for calls of models, runs in the threads.
    """
    conversations: dict[str, Callable[[Rpc], Conversation]] = {
        name: _unary(service, name, None if name in OPEN_METHODS else threads) for name in METHODS
    }
    conversations["ModelInfer"] = partial(_ModelInfer, service, threads)
    conversations["ModelStreamInfer"] = partial(_ModelStreamInfer, service, threads)
    handlers = {
        f"/{SERVICE}/{name}": partial(_begun, service, name, conversation)
        for name, conversation in conversations.items()
    }
    options = (
        # gRPC has 32 bits for it.
        ("grpc.max_receive_message_length", min(service.max_body, _MOST_BYTES)),
        ("grpc.max_send_message_length", -1),
        # Two servers on one port would share its requests.
        ("grpc.so_reuseport", 0),
    )
    return RpcServer(handlers, options, rpcs)


def _unary(service: Service, name: str, threads: Executor | None) -> Callable[[Rpc], Conversation]:
    kind, work = METHODS[name]
    return lambda rpc: _Unary(rpc, name, kind, partial(work, service), threads)
