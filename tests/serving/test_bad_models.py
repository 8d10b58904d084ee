"""Models that cannot be served on this machine, or whose calls cannot be made: others are answered."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest

from onnxc.runtime.artifact import tie_images, write_artifact
from onnxc.runtime.load import read_artifact
from onnxc.serving.proto import inference_pb2 as pb
from tests.serving.live_server import HEAD, LiveServer, live_server, scaled, write_version
from tests.serving.test_protocols import DATA, code_of, infer, post, unary

# y has as many elements as a request says.
ROOMY = HEAD + (
    "roomy (int64[2] s, float[N] x) => (float[a, b] y) { z = ConstantOfShape(s) m = ReduceSum(x) y = Add(z, m) }"
)


def for_another_machine(path: Path) -> None:
    """Changes the artifact to one that needs instructions which no processor has."""
    artifact = read_artifact(path)
    needed = {target: ("avx1024", *features) for target, features in artifact.features.items()}
    write_artifact(tie_images(replace(artifact, features=needed)), path)


@pytest.fixture(scope="module")
def odd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Models: scaled, roomy, and foreign, which is for another machine."""
    repository, cache = (tmp_path_factory.mktemp(name) for name in ("repository", "cache"))
    for name, text in (("scaled", scaled(3)), ("roomy", ROOMY), ("foreign", scaled(3))):
        write_version(repository, name, 1, text)
    for_another_machine(repository / "foreign" / "1" / "model.onnxc")
    with live_server(repository, cache) as running:
        yield running


def test_an_artifact_of_another_machine_is_an_error_of_its_model(odd_server: LiveServer) -> None:
    listed = {entry["name"]: entry for entry in json.loads(post(odd_server, "/v2/repository/index", b"{}")[2])}
    assert {name: entry["state"] for name, entry in listed.items()} == {
        "foreign": "UNAVAILABLE", "roomy": "READY", "scaled": "READY",
    }  # fmt: skip
    assert listed["foreign"]["reason"].startswith("error[image-features]")
    assert "avx1024" in listed["foreign"]["reason"]
    assert infer(odd_server, {"inputs": [DATA]})[0] == 200


SIZES = ([1 << 20, 1 << 20], [1 << 40, 1 << 40])


@pytest.mark.parametrize("sizes", SIZES)
def test_a_call_that_memory_does_not_hold_is_an_error_and_others_are_answered(
    odd_server: LiveServer, sizes: list[int]
) -> None:
    inputs: list[dict[str, object]] = [
        {"name": "s", "datatype": "INT64", "shape": [2], "data": sizes},
        {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]},
    ]
    status, answer = infer(odd_server, {"inputs": inputs}, model="roomy")
    assert (status, code_of(answer)) == (503, "out-of-memory")
    request = pb.ModelInferRequest(model_name="roomy")
    for name, array in (("s", np.array(sizes)), ("x", np.ones(1, np.float32))):
        request.inputs.add(name=name, datatype={"s": "INT64", "x": "FP32"}[name], shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    with pytest.raises(grpc.RpcError) as refused:
        unary(odd_server, request)
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    assert refused.value.details().startswith("error[out-of-memory]")
    inputs[0]["data"] = [2, 3]
    status, answer = infer(odd_server, {"inputs": inputs}, model="roomy")
    assert isinstance(answer, dict)
    assert (status, answer["outputs"][0]["data"]) == (200, [1] * 6)
    assert infer(odd_server, {"inputs": [DATA]})[0] == 200
