"""The four clients of Triton, unmodified, call every method that the protocol and its extensions have."""

import asyncio
import inspect
import os
import queue
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio

from tests.serving.live_server import LiveServer

CLIENTS = (tritonclient.http, tritonclient.http.aio, tritonclient.grpc, tritonclient.grpc.aio)
ROWS = np.arange(8, dtype=np.float32).reshape(2, 4)


class Caller:
    """A client whose methods return, be they coroutines or not; answers of gRPC come as JSON."""

    def __init__(self, module: ModuleType, server: LiveServer, loop: asyncio.AbstractEventLoop) -> None:
        self.module, self.loop = module, loop
        self.is_grpc = ".grpc" in module.__name__
        self.client = self._made(lambda: module.InferenceServerClient(server.grpc if self.is_grpc else server.http))

    def _made(self, make: Callable[[], object]) -> object:
        async def within_loop() -> object:
            return make()

        return self.loop.run_until_complete(within_loop()) if "aio" in self.module.__name__ else make()

    def __call__(self, method: str, *arguments: object, **named: object) -> object:
        if self.is_grpc and method.startswith("get_"):
            named["as_json"] = True
        found = getattr(self.client, method)(*arguments, **named)
        return self.loop.run_until_complete(_awaited(found)) if inspect.isawaitable(found) else found

    def inputs(self, name: str, array: np.ndarray, datatype: str = "FP32") -> list[object]:
        made = self.module.InferInput(name, array.shape, datatype)
        made.set_data_from_numpy(array)
        return [made]


async def _awaited(found: Awaitable[object]) -> object:
    return await found


@pytest.fixture(params=CLIENTS, ids=lambda module: module.__name__)
def call(request: pytest.FixtureRequest, server: LiveServer) -> Iterator[Caller]:
    loop = asyncio.new_event_loop()
    caller = Caller(request.param, server, loop)
    yield caller
    caller("close")
    loop.close()


def test_server_and_models_are_described(call: Caller) -> None:
    assert call("is_server_live")
    assert call("is_server_ready")
    assert call("is_model_ready", "scaled")
    assert call("is_model_ready", "scaled", "2")
    assert not call("is_model_ready", "scaled", "1")
    assert not call("is_model_ready", "absent")
    assert "binary_tensor_data" in call("get_server_metadata")["extensions"]
    metadata = call("get_model_metadata", "scaled")
    assert metadata["versions"] == ["2"]
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}] or call.is_grpc
    config = call("get_model_config", "scaled")
    config = config.get("config", config)
    assert (config["name"], config["max_batch_size"]) == ("scaled", 64)
    config = call("get_model_config", "centred", "1")
    assert config.get("config", config).get("max_batch_size", 0) == 0


def test_requests_are_answered(call: Caller) -> None:
    result = call("infer", "scaled", call.inputs("x", ROWS), request_id="seven", model_version="2")
    np.testing.assert_array_equal(result.as_numpy("y"), 3 * ROWS)
    response = result.get_response(as_json=True) if call.is_grpc else result.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == ("seven", "scaled", "2")
    wanted = [call.module.InferRequestedOutput("y")]
    result = call("infer", "centred", call.inputs("x", ROWS), outputs=wanted, headers={"traceparent": "00-a-b-01"})
    np.testing.assert_array_equal(result.as_numpy("y"), ROWS - ROWS.mean(0))


def test_http_may_be_compressed_or_plain_json(call: Caller) -> None:
    inputs = call.inputs("x", ROWS)
    named: dict[str, object] = {"compression_algorithm": "gzip"}
    if not call.is_grpc:
        named = {"response_compression_algorithm": "gzip"}
        if call.module is tritonclient.http:
            # The asynchronous client lacks an import for this.
            named["request_compression_algorithm"] = "deflate"
        inputs[0].set_data_from_numpy(ROWS, binary_data=False)
        named["outputs"] = [call.module.InferRequestedOutput("y", binary_data=False)]
    np.testing.assert_array_equal(call("infer", "scaled", inputs, **named).as_numpy("y"), 3 * ROWS)


def test_errors_come_with_code_and_status(call: Caller) -> None:
    with pytest.raises(tritonclient.utils.InferenceServerException, match=r"error\[unknown-model\]") as problem:
        call("infer", "absent", call.inputs("x", ROWS))
    assert problem.value.status() == ("StatusCode.NOT_FOUND" if call.is_grpc else "404")
    with pytest.raises(tritonclient.utils.InferenceServerException, match=r"error\[input-dtype\].*FP32, FP64 came"):
        call("infer", "scaled", call.inputs("x", ROWS.astype(np.float64), "FP64"))
    with pytest.raises(tritonclient.utils.InferenceServerException, match=r"error\[(input-shape|sizes-disagree)\]"):
        call("infer", "scaled", call.inputs("x", ROWS[:, :3].copy()))


def test_models_are_loaded_unloaded_and_counted(call: Caller) -> None:
    call("unload_model", "centred")
    assert not call("is_model_ready", "centred")
    call("load_model", "centred")
    assert call("is_model_ready", "centred")
    index = call("get_model_repository_index")
    index = index["models"] if call.is_grpc else index
    assert {(entry["name"], entry["state"]) for entry in index} == {
        ("centred", "READY"), ("scaled", "READY"), ("summing", "READY"), ("types", "READY"),
    }  # fmt: skip
    call("infer", "centred", call.inputs("x", ROWS))
    (counted,) = call("get_inference_statistics", "centred")["model_stats"]
    assert int(counted["inference_stats"]["success"]["count"]) == int(counted["execution_count"]) == 1
    assert len(call("get_inference_statistics")["model_stats"]) == 4


def test_settings_are_read_and_changed(call: Caller) -> None:
    assert _values(call("get_log_settings"))["log_verbose_level"] == 0
    assert _values(call("update_log_settings", {"log_verbose_level": 1}))["log_verbose_level"] == 1
    assert _values(call("update_log_settings", {"log_verbose_level": 0}))["log_verbose_level"] == 0
    assert _values(call("get_trace_settings"))["trace_level"] == ["OFF"]
    assert _values(call("update_trace_settings", "scaled", {"trace_level": "OFF"}))["trace_level"] == ["OFF"]
    with pytest.raises(tritonclient.utils.InferenceServerException, match=r"error\[trace-setting\]"):
        call("update_trace_settings", settings={"trace_level": ["TIMESTAMPS"]})


def _values(settings: object) -> dict[str, object]:
    """Settings as REST has them, of those of either protocol."""
    if not isinstance(settings, dict):
        settings = {"settings": {name: _field(value) for name, value in settings.settings.items()}}
    plain = settings.get("settings", settings)
    return {name: _plain(value) for name, value in plain.items()}


def _field(value: object) -> object:
    return list(value.value) if hasattr(value, "value") else getattr(value, value.WhichOneof("parameter_choice"))


def _plain(value: object) -> object:
    return next(iter(value.values())) if isinstance(value, dict) else value


@contextmanager
def shared_file(name: str, data: bytes) -> Iterator[str]:
    path = f"/dev/shm/{name}"
    with open(path, "wb") as file:
        file.write(data)
    try:
        yield path
    finally:
        os.unlink(path)


def test_tensors_may_be_in_shared_memory(call: Caller) -> None:
    name = f"onnxc-test-{os.getpid()}"
    with shared_file(name, bytes(32) + ROWS.tobytes()) as path:
        call("register_system_shared_memory", "region", f"/{name}", 64)
        assert "region" in str(call("get_system_shared_memory_status"))
        given = call.module.InferInput("x", [2, 4], "FP32")
        given.set_shared_memory("region", 32, offset=32)
        wanted = call.module.InferRequestedOutput("y")
        wanted.set_shared_memory("region", 32)
        call("infer", "scaled", [given], outputs=[wanted])
        with open(path, "rb") as file:
            assert file.read(32) == (3 * ROWS).tobytes()
        call("unregister_system_shared_memory", "region")
        assert "region" not in str(call("get_system_shared_memory_status"))
    call("get_cuda_shared_memory_status")
    call("unregister_cuda_shared_memory")
    with pytest.raises(tritonclient.utils.InferenceServerException, match=r"error\[device-memory\]"):
        call("register_cuda_shared_memory", "region", b"AAAA", 0, 64)


def test_requests_of_a_stream_are_answered_in_order(server: LiveServer) -> None:
    answers: queue.SimpleQueue[tuple[object, object]] = queue.SimpleQueue()
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for factor in (1, 2):
            given = tritonclient.grpc.InferInput("x", [2, 4], "FP32").set_data_from_numpy(factor * ROWS)
            client.async_stream_infer("scaled", [given])
        client.async_stream_infer("absent", [given])
        found = [answers.get(timeout=10) for _ in range(3)]
        client.stop_stream()
    np.testing.assert_array_equal(found[1][0].as_numpy("y"), 6 * ROWS)
    assert "error[unknown-model]" in str(found[2][1])


def test_requests_of_an_asynchronous_stream_are_answered(server: LiveServer) -> None:
    async def factors() -> list[object]:
        async with tritonclient.grpc.aio.InferenceServerClient(server.grpc) as client:
            given = tritonclient.grpc.aio.InferInput("x", [2, 4], "FP32")
            given.set_data_from_numpy(ROWS)

            async def requests() -> object:
                yield {"model_name": "scaled", "inputs": [given]}

            return [answer async for answer in client.stream_infer(requests())]

    ((result, error),) = asyncio.run(factors())
    assert error is None
    np.testing.assert_array_equal(result.as_numpy("y"), 3 * ROWS)
