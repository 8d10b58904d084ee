"""Clients that are slow, that never end, or that speak something else: each is told so, and others are answered."""

import asyncio
import json
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from onnxc.serving import http_body, http_protocol
from onnxc.serving.model_registry import ModelRegistry, ServingLimits
from onnxc.serving.repository import Repository
from onnxc.serving.rest import rest_app
from onnxc.serving.server import ServerOptions, _bound, _http_server
from onnxc.serving.service import Service
from onnxc.serving.serving_errors import ServingError
from tests.serving.live_server import LiveServer, live_server, scaled, write_version
from tests.serving.test_protocols import DATA, infer

HALF = b"POST /v2/models/scaled/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{"


def test_bodies_that_never_end_keep_nobody_from_being_answered(server: LiveServer) -> None:
    host, port = server.http.split(":")
    with ExitStack() as connections:
        for _ in range(300):
            connections.enter_context(socket.create_connection((host, int(port)))).sendall(HALF)
        assert infer(server, {"inputs": [DATA]})[0] == 200


def test_bodies_that_are_coming_take_no_more_memory_than_they_may(tmp_path: Path) -> None:
    service = Service(ModelRegistry(Repository(tmp_path), ServingLimits()), max_body=100, max_requests=2)
    with service.holding() as first, service.holding() as second:
        first(100)
        second(60)
        with pytest.raises(ServingError, match="memory") as problem:
            second(41)
        assert problem.value.code == "server-busy"
        second(40)
    with service.holding() as hold:
        hold(200)


def test_a_server_starts_with_a_limit_beyond_what_grpc_can_count(tmp_path: Path) -> None:
    write_version(tmp_path / "models", "scaled", 1, scaled(2))
    with live_server(tmp_path / "models", tmp_path / "cache", ("--max-body", "4096")) as server:
        assert infer(server, {"inputs": [DATA]})[0] == 200


async def answers(sent: bytes, app: Starlette, count: int = 1) -> list[tuple[str, bytes]]:
    """The first line and the body of each answer of a server to these bytes, which are all that is sent."""
    listening = _bound("127.0.0.1", 0)
    http = _http_server(app, ServerOptions())
    serving = asyncio.create_task(http.serve([listening]))
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(sent)
    given = []
    for _ in range(count):
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)).decode()
        size = next(int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length:"))
        given.append((head.splitlines()[0], await reader.readexactly(size)))
    writer.close()
    http.should_exit = True
    await serving
    return given


async def _hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


HELLO = Starlette(routes=[Route("/", _hello)])
WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 5000])
def test_headers_that_never_end_are_an_error_with_a_code(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEADER_SECONDS", 0.1)
    ((status, body),) = asyncio.run(answers(sent, HELLO))
    assert status == "HTTP/1.1 408 Request Timeout"
    assert json.loads(body)["error"].startswith("error[slow-headers]")


def test_of_two_requests_of_a_connection_only_the_second_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEADER_SECONDS", 0.5)
    first, second = asyncio.run(answers(WHOLE + b"GET / HTTP/1.1\r\n", HELLO, 2))
    assert (first[1], second[0]) == (b"hello", "HTTP/1.1 408 Request Timeout")


def test_a_body_that_never_ends_is_an_error_with_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_body, "_READ_SECONDS", 0.1)
    service = Service(ModelRegistry(Repository(tmp_path), ServingLimits()))
    app = rest_app(service, None)  # type: ignore[arg-type]
    ((status, body),) = asyncio.run(answers(HALF, app))
    assert status == "HTTP/1.1 408 Request Timeout"
    assert json.loads(body)["error"].startswith("error[slow-body]")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 2\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_are_an_error_with_a_code(sent: bytes) -> None:
    ((status, body),) = asyncio.run(answers(sent, HELLO))
    assert status == "HTTP/1.1 400 Bad Request"
    assert json.loads(body)["error"].startswith("error[malformed-request]")
