"""The smallest model that fails as a model does: refusals, defects, crashes, hanging, and what is no failure."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from onnx import load

from onnxc.command_line.main import main
from onnxc.comparing import attempt
from onnxc.comparing.attempt import Attempts, Job
from onnxc.comparing.minimal import minimal
from onnxc.comparing.reduce import reduce_model
from onnxc.runtime.errors import DeviceError, InputError
from tests.support.models import model_from_text

# The fourth node asks for more values than there are; no other one is wrong.
WRONG_AT_A_CALL = """<ir_version: 10, opset_import: ["": 21]>
    m (float[N, 6] x) => (float[N, 6] y, float[N, 6] z) <float[6] w = {1, 2, 3, 4, 5, 6}, int64[2] i = {0, 9}> {
        a = Relu (x)
        b = Mul (a, w)
        c = Add (b, x)
        d = Gather <axis = 1> (c, i)
        e = ReduceSum <keepdims = 1> (d)
        y = Add (e, b)
        z = Neg (a)
    }"""

REFUSED = """<ir_version: 10, opset_import: ["": 21, "shop": 1]>
    m (float[N, 6] x) => (float[N, 6] y) {
        a = Relu (x)
        b = shop.Buy <count = 3, name = "thing"> (a)
        y = Neg (b)
    }"""

UNDEFINED = """<ir_version: 10, opset_import: ["": 21]>
    m (float[N, 6] x) => (float[N, 6] y) {
        a = Relu (x)
        b = Add (a, nowhere)
        y = Neg (b)
    }"""


FOREVER = """<ir_version: 10, opset_import: ["": 21]>
    m () => (float y) <int64 n = {4000000000000}, bool yes = {1}, float zero = {0}> {
        y = Loop (n, yes, zero) <body = b (int64 i, bool c, float s) => (bool d, float t) {
            d = Identity (c)
            t = Add (s, s)
        }>
    }"""


def write(folder: Path, text: str) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model_from_text(text).SerializeToString())
    return path


@pytest.fixture(scope="module")
def attempts() -> Iterator[Attempts]:
    with Attempts() as running:
        yield running


@pytest.mark.parametrize(
    ("text", "fails", "operator"),
    [
        (WRONG_AT_A_CALL, "index-out-of-range", "Gather"),
        (REFUSED, "unsupported-node", "Buy"),
        (UNDEFINED, '"nowhere" is used and never defined', "Add"),
    ],
    ids=["index", "refusal", "illegal"],
)
def test_a_failure_ends_at_its_node(text: str, fails: str, operator: str, tmp_path: Path, attempts: Attempts) -> None:
    found = reduce_model(write(tmp_path, text), fails, Job("interpreter"), attempts)
    (node,) = found.model.graph.node
    assert node.op_type == operator
    assert fails in found.outcome
    assert found.nodes_before == len(model_from_text(text).graph.node)
    sizes = {dim.dim_value for info in found.model.graph.input for dim in info.type.tensor_type.shape.dim}
    assert sizes <= {0, 1}
    assert operator != "Buy" or not node.attribute


def test_the_command_writes_the_model_and_says_how_it_fails(tmp_path: Path) -> None:
    output = tmp_path / "small.onnx"
    path = write(tmp_path, REFUSED)
    arguments = ["reduce", str(path), "--fails", "unsupported-node", "-o", str(output), "--compile-only", "--json"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    assert (told["nodes"], told["nodes_before"]) == (1, 3)
    assert "unsupported-node" in told["outcome"]
    assert [node.op_type for node in load(output).graph.node] == ["Buy"]


def test_what_does_not_fail_so_is_an_error(tmp_path: Path, attempts: Attempts) -> None:
    path = write(tmp_path, UNDEFINED.replace("nowhere", "x"))
    with pytest.raises(InputError, match="it compiles and runs") as raised:
        reduce_model(path, "SIGSEGV", Job("interpreter"), attempts)
    assert raised.value.code == "reduce-no-failure"


def test_a_model_that_never_ends_is_told_of_and_others_go_on(attempts: Attempts) -> None:
    forever = model_from_text(FOREVER)
    assert attempts.outcome(forever, Job("interpreter", seconds=0.5)) == "it took more than the time limit of 0.5 s"
    assert attempts.outcome(model_from_text(UNDEFINED.replace("nowhere", "x")), Job("interpreter")) == ""


def test_too_much_memory_is_an_error_of_the_attempt(attempts: Attempts) -> None:
    large = model_from_text(UNDEFINED.replace("nowhere", "x").replace("6", "4000000000"))
    assert "MemoryError" in attempts.outcome(large, Job("interpreter", memory_bytes=4 << 30))


def test_a_process_that_ends_by_a_signal_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "_try", lambda model, job: os.kill(os.getpid(), signal.SIGKILL))
    assert attempt._forked(tmp_path / "model.onnx", Job()).endswith("it was ended by SIGKILL")


def test_attempts_that_have_ended_say_so() -> None:
    with Attempts() as ended:
        ended._process.terminate()
        ended._process.wait()
        with pytest.raises(DeviceError) as raised:
            ended.outcome(model_from_text(UNDEFINED), Job())
    assert raised.value.code == "attempts-ended"


@pytest.mark.parametrize(
    ("needed", "expected"), [({3}, [3]), ({1, 6}, [1, 6]), ({0, 4, 7}, [0, 4, 7]), (set(range(8)), [*range(8)])]
)
def test_the_smallest_part_has_what_is_needed_and_no_more(needed: set[int], expected: list[int]) -> None:
    assert minimal(range(8), lambda part: needed <= {*part}) == expected
