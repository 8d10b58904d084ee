"""Generation over HTTP: tokens in and out, at once or as events, and what becomes of requests that are none."""

import http.client
import json
from contextlib import closing
from pathlib import Path

import pytest

from onnxc.serving.model_registry import ModelRegistry
from onnxc.serving.repository import Repository
from onnxc.serving.served_model import ServingLimits
from tests.decoding.models import summing
from tests.serving.live_server import LiveServer
from tests.serving.test_protocols import code_of, post
from tests.support.models import model_from_text

PATH = "/v2/models/summing"
SHARED = {"model_name": "summing", "model_version": "1"}


def posted(server: LiveServer, path: str, request: object) -> tuple[int, object]:
    status, _, data = post(server, path, json.dumps(request).encode())
    return status, json.loads(data)


def test_generate_gives_all_tokens_at_once(server: LiveServer) -> None:
    request = {"id": "7", "tokens": [0, 1], "max_new_tokens": 3}
    assert posted(server, f"{PATH}/generate", request) == (200, {**SHARED, "id": "7", "tokens": [2, 2, 2]})
    inner = {"tokens": [0, 1], "parameters": {"max_new_tokens": 4, "repetition_penalty": 1.5, "stop": [3]}}
    assert posted(server, f"{PATH}/versions/1/generate", inner) == (200, {**SHARED, "tokens": [2]})


def test_generate_stream_gives_each_token_as_an_event(server: LiveServer) -> None:
    body = json.dumps({"tokens": [0, 1], "max_new_tokens": 4, "parameters": {"temperature": 1, "seed": 3}}).encode()
    status, headers, data = post(server, f"{PATH}/generate_stream", body)
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    *events, rest = data.decode().split("\n\n")
    assert (len(events), rest) == (4, "")
    contents = [json.loads(event.removeprefix("data: ")) for event in events]
    _, at_once = posted(server, f"{PATH}/generate", json.loads(body))
    assert at_once == {**SHARED, "tokens": [each.pop("token") for each in contents]}
    assert contents == [SHARED] * 4


def test_a_client_that_goes_away_ends_its_stream(server: LiveServer) -> None:
    # As many as may be at a time, each longer than the test would wait: their places are free again.
    body = json.dumps({"tokens": [0], "max_new_tokens": 30000}).encode()
    for _ in range(40):
        with closing(http.client.HTTPConnection(server.http, timeout=20)) as connection:
            connection.request("POST", f"{PATH}/generate_stream", body)
            assert connection.getresponse().read(5) == b"data:"
    assert posted(server, f"{PATH}/generate", {"tokens": [1], "max_new_tokens": 1})[0] == 200


def test_infer_gives_the_likeliest_tokens(server: LiveServer) -> None:
    tokens = {"name": "tokens", "datatype": "INT64", "shape": [2], "data": [0, 1]}
    status, answer = posted(server, f"{PATH}/infer", {"inputs": [tokens]})
    assert status == 200
    assert isinstance(answer, dict)
    assert answer["outputs"] == [{"name": "generated", "datatype": "INT64", "shape": [16], "data": [2] * 16}]


@pytest.mark.parametrize("form", ["generate", "generate_stream"])
@pytest.mark.parametrize(
    ("request_object", "code"),
    [
        ({}, "session-tokens"),
        ({"tokens": [9]}, "token-range"),
        ({"tokens": [0.5]}, "request-parameter"),
        ({"tokens": [1], "max_new_tokens": "3"}, "request-parameter"),
        ({"tokens": [1], "max_new_tokens": 40000}, "sequence-length"),
        ({"tokens": [1], "temperature": True}, "request-parameter"),
        ({"tokens": [1], "top_p": 2}, "sampling-option"),
        ({"tokens": [1], "beams": 4}, "request-parameter"),
        ({"tokens": [1], "parameters": 4}, "malformed-request"),
    ],
)
def test_requests_that_are_none(server: LiveServer, form: str, request_object: object, code: str) -> None:
    status, answer = posted(server, f"{PATH}/{form}", request_object)
    assert (status, code_of(answer)) == (400, code)


def test_a_model_that_does_not_generate_says_so(server: LiveServer) -> None:
    status, answer = posted(server, "/v2/models/scaled/generate", {"tokens": [1]})
    assert (status, code_of(answer)) == (400, "no-generation")


def test_a_model_whose_configuration_says_so_is_compiled_as_a_decoder(tmp_path: Path) -> None:
    folder = tmp_path / "words" / "1"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model_from_text(summing()).SerializeToString())
    (tmp_path / "words" / "config.pbtxt").write_text('parameters { key: "generates" value { string_value: "on" } }')
    registry = ModelRegistry(Repository(tmp_path), ServingLimits(threads=1))
    registry.load("words")
    decoder = registry.find("words").decoder
    assert decoder is not None
    assert list(decoder.generate([0, 1], 2)) == [2, 2]
