"""The server as a process: its ports, its threads, and how it starts and ends."""

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import uvicorn
import uvloop
from starlette.applications import Starlette

from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.records import record
from onnxc.serving.compile_apart import stop_compiling
from onnxc.serving.grpc_service import grpc_server
from onnxc.serving.http_protocol import HttpProtocol
from onnxc.serving.rest import metrics_app, rest_app
from onnxc.serving.rpc_server import RpcServer
from onnxc.serving.service import Service

__all__ = ["Addresses", "ServerOptions", "serve"]

LOG = logging.getLogger("onnxc.serving")
_SPARE_THREADS = 16
"""Beside those of streams: for large bodies, and for what is asked of the server itself."""

_SPARE_RPCS = 16
"""Beside those of requests: for what is asked of the server itself while as many requests wait as may."""

_KEEP_ALIVE_S = 75
"""For the next request of a connection: what nginx waits by default, and longer than load balancers, which wait 60."""


@record
class ServerOptions:
    """host: of all ports; a port of 0 is any free one, one of None none. grace_s: for requests when the server ends.

    certificate, key: files of TLS, for REST, metrics and gRPC. poll_s: how often the repository is looked through for
    changes, 0 for never.
    """

    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int | None = 8001
    metrics_port: int | None = 8002
    certificate: Path | None = None
    key: Path | None = None
    poll_s: float = 0.0
    grace_s: float = 30.0


@record
class Addresses:
    """The ports that the server has."""

    http: int
    grpc: int | None
    metrics: int | None


def serve(
    service: Service, options: ServerOptions, started: Callable[[Addresses], None], ready: Callable[[], None]
) -> None:
    """Serves until the process is told to end (SIGTERM, SIGINT); requests that are there are then answered.

    It is for the main thread, whose event loop then reads, joins and answers requests. started: called with the ports,
    from when on the server is live; ready: when all models are loaded, in another thread.
    Raises DeviceError where a port cannot be had, InputError for files of TLS that are none.
    """
    service.logs.attach(LOG)
    with (
        ThreadPoolExecutor(service.max_streams + _SPARE_THREADS, "onnxc serve") as threads,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_serve(service, options, threads, started, ready))


async def _serve(
    service: Service,
    options: ServerOptions,
    threads: Executor,
    started: Callable[[Addresses], None],
    ready: Callable[[], None],
) -> None:
    http = _http_server(rest_app(service, threads), options)
    sockets = [(http, _bound(options.host, options.http_port))]
    if options.metrics_port is not None:
        metrics = _http_server(metrics_app(service), options)
        sockets.append((metrics, _bound(options.host, options.metrics_port)))
    rpc = None if options.grpc_port is None else grpc_server(service, threads, service.max_requests + _SPARE_RPCS)
    rpc_port = None if rpc is None else _add_port(rpc, options)
    ended, ending = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, ended.set)
    answering = asyncio.gather(*(server.serve([bound]) for server, bound in sockets))
    if rpc is not None:
        rpc.start()
    ports = [bound.getsockname()[1] for _, bound in sockets]
    started(Addresses(ports[0], rpc_port, ports[1] if len(ports) > 1 else None))
    loading = threading.Thread(target=_load, args=(service, options, ending, ready), name="onnxc load", daemon=True)
    loading.start()
    await ended.wait()
    LOG.info("ending: requests that are there are answered, for up to %g s", options.grace_s)
    ending.set()
    service.ready.clear()
    for server, _ in sockets:
        server.should_exit = True
    if rpc is not None:
        await loop.run_in_executor(threads, rpc.stop, options.grace_s)
    await answering
    stop_compiling()


def _load(service: Service, options: ServerOptions, ended: threading.Event, ready: Callable[[], None]) -> None:
    """Loads all models, then looks for changes from time to time."""
    service.registry.load_all()
    service.ready.set()
    ready()
    while options.poll_s and not ended.wait(options.poll_s):
        try:
            service.registry.poll()
        except Exception as problem:
            # A folder that cannot be read now may be readable next time; what is served goes on.
            LOG.error("the repository could not be looked through", exc_info=problem)


class _HttpServer(uvicorn.Server):
    """A server that leaves signals alone: they are for all servers of the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _http_server(app: Starlette, options: ServerOptions) -> _HttpServer:
    files = (None, None) if options.certificate is None else (str(options.certificate), str(options.key))
    config = uvicorn.Config(
        app,
        http=HttpProtocol,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(options.grace_s),
        ssl_certfile=files[0],
        ssl_keyfile=files[1],
    )
    try:
        config.load()
    except OSError as problem:
        raise InputError(f"the certificate or the key of TLS: {problem}", code="tls-files") from problem
    return _HttpServer(config)


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens; DeviceError where the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as undone:
            bound = undone.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(1024)
            undone.pop_all()
            return bound
    except OSError as problem:
        raise DeviceError(f"cannot listen at {host}, port {port}: {problem.strerror}", code="port-taken") from problem


def _add_port(server: RpcServer, options: ServerOptions) -> int:
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"{host}:{options.grpc_port}"
    credentials = None
    if options.certificate is not None:
        assert options.key is not None, options
        try:
            pairs = [(options.key.read_bytes(), options.certificate.read_bytes())]
        except OSError as problem:
            raise InputError(f"the certificate or the key of TLS: {problem}", code="tls-files") from problem
        credentials = grpc.ssl_server_credentials(pairs)
    port = server.add_port(address, credentials)
    if not port:
        raise DeviceError(f"cannot listen at {address}", code="port-taken")
    return port
