"""A server with a token and TLS, and what may be wrong with how a server is started or set."""

import asyncio
import gc
import http.client
import shutil
import socket
import ssl
import subprocess
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from starlette.requests import Request
from starlette.types import Message

import onnxc
from onnxc.command_line.main import main
from onnxc.runtime.errors import InputError, OnnxcError, UnsupportedError
from onnxc.serving import compile_apart, server
from onnxc.serving.datatypes import array_of, datatype_of
from onnxc.serving.grpc_service import load_configuration
from onnxc.serving.http_body import received
from onnxc.serving.model_registry import ModelRegistry
from onnxc.serving.proto import inference_pb2 as pb
from onnxc.serving.repository import Repository
from onnxc.serving.served_model import ServingLimits
from onnxc.serving.service import Service
from onnxc.serving.serving_errors import ServingError
from onnxc.serving.settings import LogSettings
from tests.serving.live_server import HEAD, live_server
from tests.support.models import model_from_text


def certificate(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-days", "2", "-keyout", str(key), "-out", str(cert))
    subprocess.run((*command, *files, *names), check=True, capture_output=True)
    return cert, key


def test_the_collector_need_not_look_at_what_was_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(server, "serve", lambda *given: frozen.append(gc.get_freeze_count()))
    try:
        assert CliRunner().invoke(main, ["serve", str(tmp_path)], catch_exceptions=False).exit_code == 0
    finally:
        gc.unfreeze()
    assert frozen[0] > 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_only_who_has_the_token_is_answered_and_tls_is_spoken(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    (tmp_path / "token").write_text("sesame\n")
    (tmp_path / "repository").mkdir()
    options = ("--token-file", str(tmp_path / "token"), "--tls-cert", str(cert), "--tls-key", str(key))
    with live_server(tmp_path / "repository", tmp_path, options) as server:

        def get(path: str, token: str) -> int:
            trusting = ssl.create_default_context(cafile=str(cert))
            with closing(http.client.HTTPSConnection(server.http, timeout=20, context=trusting)) as connection:
                connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
                return connection.getresponse().status

        assert [get("/v2", token) for token in ("", "open", "sesame")] == [401, 401, 200]
        assert [get(path, "") for path in ("/v2/health/ready", "/metrics", "/")] == [200, 401, 200]
        with grpc.secure_channel(server.grpc, grpc.ssl_channel_credentials(cert.read_bytes())) as channel:
            service = "/inference.GRPCInferenceService/"
            kinds = (pb.Empty.SerializeToString, pb.ServerMetadata.FromString)
            method = channel.unary_unary(f"{service}ServerMetadata", *kinds)
            assert method(pb.Empty(), metadata=(("authorization", "Bearer sesame"),), timeout=20).name == "onnxc"
            with pytest.raises(grpc.RpcError) as problem:
                method(pb.Empty(), timeout=20)
            assert problem.value.code() == grpc.StatusCode.UNAUTHENTICATED
            assert "error[wrong-token]" in problem.value.details()


def started(repository: Path, *options: str) -> tuple[int, str]:
    ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    result = CliRunner().invoke(main, ["serve", str(repository), *ports, *options])
    return result.exit_code, result.output


def test_a_file_in_the_place_of_a_folder_is_said_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "good.onnx"
    file.write_bytes(b"")
    result = CliRunner().invoke(main, ["serve", str(file)], terminal_width=1000)
    assert result.exit_code == 2
    advice = f"mkdir -p models/good/1 && cp {file} models/good/1/model.onnx && onnxc serve models"
    assert f"{str(file)!r} is a file, not a folder of models: {advice}" in result.output


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        status, output = started(tmp_path, "--http-port", str(taken.getsockname()[1]))
    assert (status, output.split(":")[0]) == (1, "error[port-taken]")


def test_files_of_tls_that_are_none_are_said(tmp_path: Path) -> None:
    none = tmp_path / "none.pem"
    none.write_text("none")
    status, output = started(tmp_path, "--tls-cert", str(none), "--tls-key", str(none))
    assert (status, output.split(":")[0]) == (1, "error[tls-files]")


def code_of(problem: pytest.ExceptionInfo[OnnxcError]) -> str:
    return problem.value.code


def test_no_more_requests_are_worked_on_than_may_be(tmp_path: Path) -> None:
    service = Service(ModelRegistry(Repository(tmp_path), ServingLimits()), max_requests=1)
    with service.requests:
        with pytest.raises(ServingError) as problem, service.requests:
            pass
        assert code_of(problem) == "server-busy"
    with service.requests:
        pass


def test_a_client_that_goes_within_its_body_is_an_error_with_a_code() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    with pytest.raises(ServingError) as problem:
        asyncio.run(received(request, 1 << 20, lambda size: None))
    assert code_of(problem) == "client-gone"


def test_settings_of_other_kinds_are_refused() -> None:
    logs = LogSettings()
    for changes in ({"log_info": 1}, {"log_verbose_level": True}, {"log_verbose_level": -1}, {"log_file": "/etc/x"}):
        with pytest.raises(OnnxcError) as problem:
            logs.update(changes)
        assert code_of(problem) == "log-setting"
    assert logs.to_json()["log_info"] is True


def test_models_never_come_with_requests() -> None:
    for parameters, kind in (({"file:1/model.onnx": b""}, UnsupportedError), ({"config": 3}, InputError)):
        with pytest.raises(kind) as problem:
            load_configuration(parameters)
        assert code_of(problem) == "load-parameter"


def test_texts_that_are_none_are_refused() -> None:
    with pytest.raises(InputError) as problem:
        array_of("x", "BYTES", [1], b"\1\0\0\0\xff")
    assert code_of(problem) == "text-encoding"


def test_what_the_protocol_cannot_say_is_not_served() -> None:
    text = HEAD + "g (complex64[N] x) => (complex64[N] y) { y = Identity(x) }"
    with pytest.raises(UnsupportedError) as problem:
        datatype_of(onnxc.compile(model_from_text(text), threads=1).inputs[0])
    assert code_of(problem) == "unservable-type"


def test_a_compiler_that_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXC_CACHE", str(tmp_path))
    monkeypatch.setattr(compile_apart.sys, "executable", "/bin/false")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.onnx").write_bytes(b"")
    with pytest.raises(OnnxcError) as problem:
        compile_apart.compiled_model(tmp_path / "1" / "model.onnx", {})
    assert code_of(problem) == "compiler-died"
