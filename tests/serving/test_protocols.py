"""Both protocols on the wire: the same bytes, every datatype, and what becomes of requests that are none."""

import http.client
import json
import socket
import struct
import threading
import urllib.request
import zlib
from collections.abc import Mapping
from contextlib import closing

import grpc
import ml_dtypes
import numpy as np
import pytest

from onnxc.serving.datatypes import DATATYPES, raw_bytes
from onnxc.serving.proto import inference_pb2 as pb
from tests.serving.live_server import LiveServer

HEADER = "Inference-Header-Content-Length"
X = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
DATA = {**X, "data": [1, 2, 3, 4]}
BINARY = {**X, "parameters": {"binary_data_size": 16}}


def post(
    server: LiveServer, path: str, body: bytes, headers: Mapping[str, str] | None = None
) -> tuple[int, Mapping[str, str], bytes]:
    with closing(http.client.HTTPConnection(server.http, timeout=20)) as connection:
        connection.request("POST", path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, {name.lower(): text for name, text in response.headers.items()}, response.read()


def code_of(answer: object) -> str:
    """The code of the error that an answer is."""
    assert isinstance(answer, dict), answer
    return answer["error"].split(":")[0].removeprefix("error[").removesuffix("]")


def infer(server: LiveServer, request: object, tail: bytes = b"", model: str = "scaled") -> tuple[int, object]:
    """The status and JSON of an answer; the body is JSON, and bytes behind it."""
    told = json.dumps(request).encode()
    headers = {HEADER: str(len(told))} if tail else {}
    status, _, data = post(server, f"/v2/models/{model}/infer", told + tail, headers)
    return status, json.loads(data)


def unary(server: LiveServer, request: pb.ModelInferRequest) -> pb.ModelInferResponse:
    with grpc.insecure_channel(server.grpc) as channel:
        method = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            pb.ModelInferRequest.SerializeToString,
            pb.ModelInferResponse.FromString,
        )
        answer: pb.ModelInferResponse = method(request, timeout=20)
        return answer


def typed_values() -> dict[str, np.ndarray]:
    """Three elements of each datatype, the extreme ones among them."""
    values: dict[str, np.ndarray] = {"BYTES": np.array(["", "ä\0b", "x" * 300], object)}
    for name, dtype in DATATYPES.items():
        if dtype.kind in "iu":
            values[name] = np.array([np.iinfo(dtype).min, 7, np.iinfo(dtype).max], dtype)
        elif name == "BOOL":
            values[name] = np.array([True, False, True])
        elif name != "BYTES":
            values[name] = np.array([-0.5, float(ml_dtypes.finfo(dtype).max), 1], dtype)
    return values


def test_both_protocols_give_the_same_bytes_for_every_datatype(server: LiveServer) -> None:
    values = typed_values()
    raw = {name: raw_bytes(array) for name, array in values.items()}
    request = pb.ModelInferRequest(model_name="types", raw_input_contents=raw.values())
    told = []
    for name, data in raw.items():
        request.inputs.add(name=name, datatype=name, shape=[3])
        told.append({"name": name, "datatype": name, "shape": [3], "parameters": {"binary_data_size": len(data)}})
    answer = unary(server, request)
    assert {output.name: data for output, data in zip(answer.outputs, answer.raw_output_contents, strict=True)} == {
        f"{name}_out": raw[name] for name in DATATYPES
    }
    head = json.dumps({"inputs": told, "parameters": {"binary_data_output": True}}).encode()
    path = "/v2/models/types/infer"
    status, headers, data = post(server, path, head + b"".join(raw.values()), {HEADER: str(len(head))})
    assert status == 200
    assert data[int(headers[HEADER.lower()]) :] == b"".join(answer.raw_output_contents)


def test_typed_fields_and_json_say_what_bytes_say(server: LiveServer) -> None:
    from_fields = pb.ModelInferRequest(model_name="scaled")
    tensor = from_fields.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    tensor.contents.fp32_contents.extend([1, 2, 3, 4])
    assert np.frombuffer(unary(server, from_fields).raw_output_contents[0], np.float32).tolist() == [3, 6, 9, 12]
    for data in ([1, 2, 3, 4], [[1.0, 2, 3, 4]]):
        status, answer = infer(server, {"id": "a", "inputs": [{**X, "data": data}]})
        assert (status, answer["id"], answer["outputs"][0]["data"]) == (200, "a", [3, 6, 9, 12])
    body = np.array([[1, 2, 3, 4]], np.float32).tobytes()
    status, headers, data = post(server, "/v2/models/scaled/infer", body, {HEADER: "0"})
    assert np.frombuffer(data[int(headers[HEADER.lower()]) :], np.float32).tolist() == [3, 6, 9, 12]


MALFORMED = {
    "no JSON": (b"{", {}, 400, "malformed-json"),
    "no object": (b"[1]", {}, 400, "malformed-json"),
    "deep": (b"[" * 100_000, {}, 400, "malformed-json"),
    "inputs of another kind": (b'{"inputs": 3}', {}, 400, "malformed-request"),
    "no input": (b"{}", {}, 400, "missing-input"),
    "a header that is no number": (b"{}", {HEADER: "x"}, 400, "header-length"),
    "a header beyond the body": (b"{}", {HEADER: "3"}, 400, "header-length"),
    "a bomb": (zlib.compress(bytes(100 << 20)), {"Content-Encoding": "deflate"}, 413, "body-size"),
    "an unknown encoding": (b"{}", {"Content-Encoding": "br"}, 400, "content-encoding"),
    "half of a stream": (zlib.compress(b"{}")[:4], {"Content-Encoding": "deflate"}, 400, "content-encoding"),
    "another site's page": (b"{}", {"Origin": "http://example.org"}, 403, "foreign-origin"),
    "too much": (b"{}" + b" " * (65 << 20), {}, 413, "body-size"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_body_is_an_error_with_a_code(server: LiveServer, name: str) -> None:
    body, headers, expected, code = MALFORMED[name]
    try:
        status, _, data = post(server, "/v2/models/scaled/infer", body, headers)
    except (BrokenPipeError, ConnectionResetError):
        # The server has answered and gone before all of a body that is too large was sent.
        assert expected == 413
    else:
        assert (status, code_of(json.loads(data))) == (expected, code)
    assert infer(server, {"inputs": [DATA]})[0] == 200


def test_bytes_that_are_no_message_are_an_error_with_a_code(server: LiveServer) -> None:
    """A stream goes on behind them."""
    right = pb.ModelInferRequest(model_name="scaled", raw_input_contents=[bytes(16)])
    right.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    with grpc.insecure_channel(server.grpc) as channel:
        for name in ("ModelInfer", "ModelMetadata", "RepositoryIndex", "LogSettings"):
            method = channel.unary_unary(f"/inference.GRPCInferenceService/{name}", None, None)
            with pytest.raises(grpc.RpcError) as refused:
                method(b"\x0a\xff", timeout=20)
            assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert refused.value.details().startswith("error[malformed-request]: the request is no message")
        stream = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer", None, pb.ModelStreamInferResponse.FromString
        )
        first, second = stream(iter([b"\x0a\xff", right.SerializeToString()]), timeout=20)
    assert first.error_message.startswith("error[malformed-request]")
    assert second.infer_response.raw_output_contents == [bytes(16)]


WRONG = {
    "absent type": ({**DATA, "datatype": "FP8"}, b"", "unknown-datatype"),
    "negative size": ({**DATA, "shape": [-1, 4]}, b"", "request-shape"),
    "absurd size": ({**DATA, "shape": [0, 2**60], "data": []}, b"", "request-shape"),
    "more elements than shape": ({**DATA, "data": [1] * 5}, b"", "tensor-bytes"),
    "ragged rows": ({**DATA, "data": [[1, 2], 3, 4]}, b"", "json-type"),
    "texts for numbers": ({**DATA, "data": ["1", "2", "3", "4"]}, b"", "json-type"),
    "numbers too large": ({**DATA, "datatype": "INT8", "data": [1, 2, 3, 400]}, b"", "json-type"),
    "floats too large": ({**DATA, "data": [1, 2, 3, 1e39]}, b"", "json-type"),
    "no number": ({**DATA, "data": [1, 2, 3, float("nan")]}, b"", "malformed-json"),
    "halves in JSON": ({**DATA, "datatype": "FP16"}, b"", "json-type"),
    "bytes that do not come": (BINARY, bytes(12), "tensor-bytes"),
    "bytes of nobody": (BINARY, bytes(20), "tensor-bytes"),
    "a text that ends early": ({**BINARY, "datatype": "BYTES"}, struct.pack("<IIII", 9, 0, 0, 0), "tensor-bytes"),
    "an unknown input": ({**DATA, "name": "z"}, b"", "unknown-input"),
    "another rank": ({**DATA, "shape": [4]}, b"", "input-rank"),
    "an unknown region": ({**X, "parameters": {"shared_memory_region": "r"}}, b"", "shared-memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_tensor_is_an_error_with_a_code(server: LiveServer, name: str) -> None:
    tensor, tail, code = WRONG[name]
    status, answer = infer(server, {"inputs": [tensor]}, tail)
    assert (status, code_of(answer)) == (400, code)


def test_what_would_be_ignored_is_refused(server: LiveServer) -> None:
    for parameters, expected in (({"sequence_id": 3}, 501), ({"timeout": -1}, 400)):
        status, answer = infer(server, {"inputs": [DATA], "parameters": parameters})
        assert (status, code_of(answer)) == (expected, "request-parameter")
    status, answer = infer(server, {"inputs": [DATA], "outputs": [{"name": "z"}]})
    assert (status, code_of(answer)) == (400, "unknown-output")
    nan = {**BINARY, "shape": [1, 4]}
    status, answer = infer(server, {"inputs": [nan]}, np.full(4, np.nan, np.float32).tobytes())
    assert (status, code_of(answer)) == (400, "json-type")


def test_a_path_with_another_method_is_said(server: LiveServer) -> None:
    status, _, data = post(server, "/v2/models/scaled", b"")
    assert (status, code_of(json.loads(data))) == (405, "wrong-method")


def get(server: LiveServer, path: str) -> tuple[int, object]:
    with closing(http.client.HTTPConnection(server.http, timeout=20)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def test_health_is_told_in_the_objects_of_the_protocol(server: LiveServer) -> None:
    """Open Inference Protocol, REST: $live_server_response, $ready_server_response and $ready_model_response."""
    assert get(server, "/v2/health/live") == (200, {"live": True})
    assert get(server, "/v2/health/ready") == (200, {"live": True, "ready": True})
    for path in ("/v2/models/scaled/ready", "/v2/models/scaled/versions/2/ready"):
        assert get(server, path) == (200, {"name": "scaled", "ready": True})
    status, answer = get(server, "/v2/models/none/ready")
    assert (status, code_of(answer)) == (404, "unknown-model")


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip", "gzip"), ("br, deflate;q=0.5", "deflate"), ("gzip;q=0, deflate", "deflate"), ("gzip; Q=0.00", None)],
)
def test_an_answer_is_encoded_as_its_client_accepts(server: LiveServer, accepted: str, encoding: str | None) -> None:
    body = json.dumps({"inputs": [DATA]}).encode()
    status, headers, _ = post(server, "/v2/models/scaled/infer", body, {"Accept-Encoding": accepted})
    assert (status, headers.get("content-encoding")) == (200, encoding)


def test_who_asks_for_a_list_of_models_is_told_where_it_is(server: LiveServer) -> None:
    """The Open Inference Protocol has none; Triton's extension for repositories has."""
    status, answer = get(server, "/v2/models")
    assert (status, code_of(answer)) == (404, "unknown-path")
    assert "POST v2/repository/index" in answer["error"]


def test_paths_that_leave_the_repository_lead_nowhere(server: LiveServer) -> None:
    for name in ("..", "%2e%2e", "..%2Fscaled", "scaled%00", ""):
        status, _, data = post(server, f"/v2/repository/models/{name}/load", b"")
        assert (status, code_of(json.loads(data))) in ((404, "unknown-model"), (404, "unknown-path"))


def test_clients_that_vanish_harm_nobody(server: LiveServer) -> None:
    host, port = server.http.split(":")
    for _ in range(20):
        with socket.create_connection((host, int(port))) as half:
            half.sendall(b"POST /v2/models/scaled/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{")
    threads = [threading.Thread(target=infer, args=(server, {"inputs": [DATA]})) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert infer(server, {"inputs": [DATA]})[0] == 200


def test_metrics_have_the_names_that_dashboards_know(server: LiveServer) -> None:
    infer(server, {"inputs": [DATA]})
    for address in (server.metrics, server.http):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
            page = answer.read().decode()
        (line,) = [line for line in page.splitlines() if line.startswith('nv_inference_request_success{model="scaled"')]
        assert int(line.split()[1]) > 0
        assert 'onnxc_request_seconds_bucket{model="scaled",version="2",le="+Inf"}' in page


def test_a_trace_goes_back_with_the_answer(server: LiveServer) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    _, headers, _ = post(
        server, "/v2/models/scaled/infer", json.dumps({"inputs": [DATA]}).encode(), {"traceparent": trace}
    )
    assert headers["traceparent"] == trace
