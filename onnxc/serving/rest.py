"""REST: the paths of the protocol, as an ASGI application."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from importlib import resources
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from onnxc.runtime.errors import InputError, OnnxcError
from onnxc.runtime.records import record
from onnxc.serving import descriptions, settings
from onnxc.serving.generation import read_generate_request
from onnxc.serving.grpc_service import TRACE_HEADERS, device_register, load_configuration
from onnxc.serving.http_body import compressed, decompressed, received
from onnxc.serving.inference import Answer, answer
from onnxc.serving.metrics import CONTENT_TYPE, metrics_page
from onnxc.serving.off_loop import work_on
from onnxc.serving.proto.inference_pb2 import Empty
from onnxc.serving.rest_tensors import Object, parse_object, read_infer_request, write_infer_response
from onnxc.serving.service import Service
from onnxc.serving.serving_errors import ServingError, status_of

__all__ = ["metrics_app", "rest_app"]

LOG = logging.getLogger("onnxc.serving")
HEADER_LENGTH = "Inference-Header-Content-Length"


@record
class Call:
    """What a handler gets of a request."""

    path: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def model(self) -> str:
        return self.path.get("model", "")

    @property
    def version(self) -> str:
        return self.path.get("version", "")

    @property
    def json(self) -> Object:
        return parse_object(self.body)


Handler = Callable[[Service, Call], object]


def _ready(service: Service, call: Call) -> object:
    """The protocol's text calls the member "live", KServe's own server "ready"."""
    if not service.ready.is_set():
        raise ServingError("models are being loaded", code="server-busy")
    return {"live": True, "ready": True}


def _model_ready(service: Service, call: Call) -> object:
    return {"name": service.registry.find(call.model, call.version).name, "ready": True}


def _model_metadata(service: Service, call: Call) -> object:
    model = service.registry.find(call.model, call.version)
    return descriptions.model_metadata(model, service.registry.versions(model.name))


def _model_config(service: Service, call: Call) -> object:
    return descriptions.model_config(service.registry.find(call.model, call.version))


def _statistics(service: Service, call: Call) -> object:
    models = [service.registry.find(call.model, call.version)] if call.model else service.registry.served()
    return descriptions.statistics(models)


def _index(service: Service, call: Call) -> object:
    return descriptions.index(service.registry, ready_only=call.json.get("ready") is True)


def _load(service: Service, call: Call) -> None:
    parameters = call.json.get("parameters", {})
    if not isinstance(parameters, dict):
        raise InputError("parameters is no object", code="malformed-request")
    service.registry.load(call.model, load_configuration(parameters))


def _unload(service: Service, call: Call) -> None:
    service.registry.unload(call.model)


async def _infer(service: Service, threads: Executor, call: Call) -> Response:
    model = service.registry.find(call.model, call.version)
    header = call.headers.get(HEADER_LENGTH.lower())
    read = partial(read_infer_request, model, call.body, header, service.memory)
    answered = await answer(model, await work_on(len(call.body), threads, read))
    encodings = call.headers.get("Accept-Encoding", "")
    return await work_on(answered.size, threads, partial(_body, service, answered, encodings))


def _body(service: Service, answered: Answer, encodings: str) -> Response:
    """The answer to a request for inference, in the first of the encodings that is known."""
    body = write_infer_response(answered, service.memory)
    headers = {} if body.header_length is None else {HEADER_LENGTH: str(body.header_length)}
    data, encoding = compressed(body.data, encodings)
    if encoding:
        headers["Content-Encoding"] = encoding
    binary = "application/octet-stream" if body.header_length is not None else "application/json"
    return Response(data, 200, headers, binary)


def _generate(service: Service, call: Call) -> object:
    tokens, shared = _generation(service, call)
    return {**shared, "tokens": list(tokens)}


def _generation(service: Service, call: Call) -> tuple[Iterator[int], Mapping[str, str]]:
    """The tokens that a request asks for, and what all answers to it have."""
    model = service.registry.find(call.model, call.version)
    if model.decoder is None:
        raise InputError(f"model {model.name!r} does not generate; it answers infer", code="no-generation")
    request = read_generate_request(call.json)
    shared = {"model_name": model.name, "model_version": str(model.version)}
    return request.tokens(model.decoder, model.statistics), shared | ({"id": request.id} if request.id else {})


def _memory_status(service: Service, call: Call) -> object:
    regions = service.memory.status(call.path.get("region", "")).values()
    return [
        {"name": region.name, "key": region.key, "offset": region.offset, "byte_size": region.byte_size}
        for region in regions
    ]


def _memory_register(service: Service, call: Call) -> None:
    fields = call.json
    key, offset, byte_size = fields.get("key"), fields.get("offset", 0), fields.get("byte_size")
    if not isinstance(key, str) or type(offset) is not int or type(byte_size) is not int:
        raise InputError("a region has a key, an offset and a byte_size", code="malformed-request")
    service.memory.register(call.path["region"], key, offset, byte_size)


def _memory_unregister(service: Service, call: Call) -> None:
    service.memory.unregister(call.path.get("region", ""))


def _trace(service: Service, call: Call) -> object:
    settings.expect_no_trace(call.json)
    return settings.trace_settings()


def _logging(service: Service, call: Call) -> object:
    service.logs.update(call.json)
    return service.logs.to_json()


def _no_list(service: Service, call: Call) -> object:
    """The Open Inference Protocol has no list of models; Triton's index, an extension of it, is one."""
    raise ServingError("there is no such path; POST v2/repository/index lists the models", code="unknown-path")


MODEL = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
REGION = ("/v2/systemsharedmemory", "/v2/systemsharedmemory/region/{region}")
DEVICE_REGION = ("/v2/cudasharedmemory", "/v2/cudasharedmemory/region/{region}")

# The paths, what is behind them, and what answers.
ROUTES: tuple[tuple[str, tuple[str, ...], str, Handler], ...] = (
    ("GET", ("/v2", "/v2/"), "", lambda service, call: descriptions.server_metadata()),
    ("GET", ("/v2/models",), "", _no_list),
    # Before the paths of models, which it looks like.
    ("GET", ("/v2/models",), "/stats", _statistics),
    ("GET", MODEL, "", _model_metadata),
    ("GET", MODEL, "/ready", _model_ready),
    ("GET", MODEL, "/config", _model_config),
    ("GET", MODEL, "/stats", _statistics),
    ("POST", MODEL, "/generate", _generate),
    ("POST", ("/v2/repository",), "/index", _index),
    ("POST", ("/v2/repository/models/{model}",), "/load", _load),
    ("POST", ("/v2/repository/models/{model}",), "/unload", _unload),
    ("GET", REGION, "/status", _memory_status),
    ("POST", REGION[1:], "/register", _memory_register),
    ("POST", REGION, "/unregister", _memory_unregister),
    ("GET", DEVICE_REGION, "/status", lambda service, call: []),
    ("POST", DEVICE_REGION[1:], "/register", lambda service, call: device_register(service, Empty())),
    ("POST", DEVICE_REGION, "/unregister", lambda service, call: None),
    ("GET", ("/v2", "/v2/models/{model}"), "/trace/setting", _trace),
    ("POST", ("/v2", "/v2/models/{model}"), "/trace/setting", _trace),
    ("GET", ("/v2",), "/logging", _logging),
    ("POST", ("/v2",), "/logging", _logging),
)
# These need no token: probes have none, and the page asks for it.
OPEN_ROUTES: tuple[tuple[str, Handler], ...] = (
    ("/v2/health/live", lambda service, call: {"live": True}),
    ("/v2/health/ready", _ready),
)

Endpoint = Callable[[Request], Awaitable[Response]]


def rest_app(service: Service, threads: Executor) -> Starlette:
    """The application; what takes time runs in the threads."""
    # They are looked through in order: what most requests are for is first.
    routes = [_route(service, threads, "POST", f"{path}/infer", partial(_infer, service, threads)) for path in MODEL]
    routes += [
        _route(service, threads, method, path + end, partial(_in_threads, service, threads, handler))
        for method, paths, end, handler in ROUTES
        for path in paths
    ]
    routes += [Route(path, _open_endpoint(service, handler), methods=["GET"]) for path, handler in OPEN_ROUTES]
    streams = _generate_stream(service, threads)
    routes += [Route(f"{path}/generate_stream", streams, methods=["POST"]) for path in MODEL]
    page = resources.files("onnxc.serving").joinpath("page.html").read_bytes()
    routes += [Route("/", _page(page)), Route("/metrics", _metrics(service))]
    failures = {404: _refusal("unknown-path", "there is no such path"), 405: _refusal("wrong-method", "wrong method")}
    return Starlette(routes=routes, exception_handlers=failures)


def metrics_app(service: Service) -> Starlette:
    """The application of the port for metrics alone."""
    return Starlette(routes=[Route("/metrics", _metrics(service))])


def _route(
    service: Service, threads: Executor, method: str, path: str, work: Callable[[Call], Awaitable[Response]]
) -> Route:
    """The route to what answers calls of a path, once they are let in and have their body."""

    async def respond(request: Request) -> Response:
        try:
            _expect_same_origin(request)
            service.expect_token(request.headers.get("authorization", ""))
            # A request counts once its body has come: those whose clients are slow keep nobody from being answered.
            with service.holding() as hold:
                body = await received(request, service.max_body, hold)
                with service.requests:
                    response = await work(await _call(service, threads, request, body))
        except OnnxcError as problem:
            response = _failure(problem)
        except Exception as problem:
            # What is none of our errors is a defect.
            LOG.error("a request failed", exc_info=problem)
            response = _response(500, {"error": f"error[internal-error]: {type(problem).__name__}"})
        return _traced(request, response)

    return Route(path, respond, methods=[method])


async def _call(service: Service, threads: Executor, request: Request, body: bytes) -> Call:
    """The call that a request is, from its body as it was sent."""
    encoding = request.headers.get("Content-Encoding", "identity")
    return Call(request.path_params, request.headers, await decompressed(body, encoding, service.max_body, threads))


async def _in_threads(service: Service, threads: Executor, handler: Handler, call: Call) -> Response:
    """What the handler gives, in one of the threads, as a response."""
    given = await asyncio.get_running_loop().run_in_executor(threads, handler, service, call)
    return _response(200, given) if given is not None else Response(b"", 200)


class _Events(StreamingResponse):
    """Server-sent events; `close` is called when they have ended, however that came."""

    def __init__(self, events: AsyncIterator[bytes], close: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


def _generate_stream(service: Service, threads: Executor) -> Endpoint:
    """Each token as an event, as soon as it is there; what is wrong before the first is an ordinary answer."""

    async def respond(request: Request) -> Response:
        admission = ExitStack()
        response: Response
        try:
            _expect_same_origin(request)
            service.expect_token(request.headers.get("authorization", ""))
            body = await received(request, service.max_body, admission.enter_context(service.holding()))
            admission.enter_context(service.streams)
            call = await _call(service, threads, request, body)
            tokens, shared = await asyncio.get_running_loop().run_in_executor(threads, _generation, service, call)
            first = await _next_token(threads, tokens)
            response = _Events(_events(threads, tokens, first, shared), admission.close)
        except OnnxcError as problem:
            admission.close()
            response = _failure(problem)
        except BaseException:
            admission.close()
            raise
        return _traced(request, response)

    return respond


async def _next_token(threads: Executor, tokens: Iterator[int]) -> int | None:
    return await asyncio.get_running_loop().run_in_executor(threads, next, tokens, None)


async def _events(
    threads: Executor, tokens: Iterator[int], first: int | None, shared: Mapping[str, str]
) -> AsyncIterator[bytes]:
    token = first
    while token is not None:
        yield _event({**shared, "token": token})
        try:
            token = await _next_token(threads, tokens)
        except OnnxcError as problem:
            yield _event({"error": str(problem)})
            return


def _event(content: Mapping[str, object]) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"


def _open_endpoint(service: Service, handler: Handler) -> Endpoint:
    async def respond(request: Request) -> Response:
        try:
            return _response(200, handler(service, Call({}, {}, b"")))
        except OnnxcError as problem:
            return _failure(problem)

    return respond


def _expect_same_origin(request: Request) -> None:
    """ServingError for a request that a page of another site makes: no site may use the server of who visits it."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ServingError(f"a page of {origin[:100]!r} may not use this server", code="foreign-origin")


def _failure(problem: OnnxcError) -> Response:
    status = status_of(problem)
    response = _response(status.http, {"error": str(problem)})
    if status.retry:
        response.headers["Retry-After"] = "1"
    if status.http == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _response(status: int, content: object) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")


def _traced(request: Request, response: Response) -> Response:
    """The response with the headers of the request's trace, which are logged."""
    trace = {name: request.headers[name] for name in TRACE_HEADERS if name in request.headers}
    if trace:
        response.headers.update(trace)
        LOG.debug("%s %s", request.url.path, trace)
    return response


def _refusal(code: str, message: str) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(request: Request, problem: Exception) -> Response:
        return _failure(ServingError(message, code=code))

    return respond


def _page(page: bytes) -> Endpoint:
    policy = (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:"
    )

    async def respond(request: Request) -> Response:
        headers = {"Content-Security-Policy": policy, "X-Frame-Options": "DENY"}
        return Response(page, 200, headers, "text/html; charset=utf-8")

    return respond


def _metrics(service: Service) -> Endpoint:
    async def respond(request: Request) -> Response:
        try:
            service.expect_token(request.headers.get("authorization", ""))
        except OnnxcError as problem:
            return _failure(problem)
        return Response(metrics_page(service.registry.served()), 200, media_type=CONTENT_TYPE)

    return respond
