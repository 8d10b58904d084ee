"""`onnxc bench` end to end: what it prints, what its JSON holds, its exit codes, and what a user may get wrong."""

import json
import re
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import onnxc
from onnxc.command_line.main import main
from onnxc.measuring import runtimes
from onnxc.measuring.runtimes import Feed, NamedCall, Runtime
from tests.support.models import model_from_text

FEW = ("--seconds", "0.01", "--threads", "1", "--callers", "2")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "digits.onnx"
    with as_file(files("onnxc") / "data" / "digits.onnx") as shipped:
        path.write_bytes(shipped.read_bytes())
    return path


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    text = '<ir_version: 10, opset_import: ["" : 21]> m (float[N] x) => (float[N] y) { y = Sin (x) }'
    path = tmp_path / "tiny.onnx"
    path.write_bytes(model_from_text(text).SerializeToString())
    return path


@pytest.fixture(scope="module")
def artifact(digits: Path) -> Path:
    path = digits.with_suffix(".onnxc")
    onnxc.compile(digits).save(path)
    return path


def bench(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["bench", *(str(argument) for argument in arguments)])


def test_a_table_of_starts_answers_and_scenarios(digits: Path) -> None:
    result = bench(digits, "--dim", "batch=2", "--vs", "onnxruntime", *FEW)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "pixels f32[2, 1, 8, 8]" in result.stdout
    assert re.search(r"onnxc \S+ +[\d.]+ m?s +[\d.]+ [mu]?s +[\d.]+ [mu]?s +\d+ MB", result.stdout)
    assert "onnxruntime gives the same answer: probabilities differs by" in result.stdout
    for scenario in ("single-stream", "multi-stream", "offline", "server"):
        assert f"{scenario}: " in result.stdout
    assert "x as fast" in result.stdout


def test_a_server_that_no_rate_holds_for_has_none(tiny: Path) -> None:
    result = bench(tiny, "--dim", "N=2", "--scenario", "server", "--bound", "0.000001", *FEW)
    assert result.exit_code == 0
    assert re.search(r"onnxc within \S+ n?s +1 +2 +none +0 *$", result.stdout, re.MULTILINE)


def test_json_has_all_figures(artifact: Path) -> None:
    result = bench(artifact, "--dim", "batch=3", "--json", "--bound", "250", *FEW)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["inputs"] == {"pixels": "f32[3, 1, 8, 8]"}
    (subject,) = found["subjects"]
    assert (subject["runtime"], subject["compile_seconds"]) == ("onnxc", None)
    assert subject["start"]["peak_bytes"] > subject["start"]["base_bytes"] > 1_000_000
    assert subject["start"]["first_call_seconds"] > 0
    scenarios = {each["scenario"]: each for each in found["measurements"]}
    assert list(scenarios) == ["single-stream", "multi-stream", "offline", "server"]
    assert {name: each["callers"] for name, each in scenarios.items()} == {
        "single-stream": 1, "multi-stream": 2, "offline": 2, "server": 2,
    }  # fmt: skip
    assert scenarios["server"]["bound_seconds"] == 0.25
    latency = scenarios["single-stream"]["latency"]
    order = [latency[name] for name in ("min", "median", "p90", "p95", "p99")]
    assert order == sorted(order)
    assert order[0] > 0


def test_every_number_of_threads_and_callers_is_measured(artifact: Path) -> None:
    result = bench(artifact, "--json", "--seconds", "0.01", "--threads", "1,2", "--callers", "2,3", "--scenario",
                   "multi-stream")  # fmt: skip
    found = json.loads(result.stdout)["measurements"]
    assert [(each["threads"], each["callers"]) for each in found] == [(1, 2), (1, 3), (2, 2), (2, 3)]


def test_given_inputs_are_used(artifact: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", pixels=np.ones((5, 1, 8, 8), np.float32))
    result = bench(artifact, "--input", f"pixels=@{tmp_path / 'inputs.npz'}", "--scenario", "offline", "--json", *FEW)
    assert json.loads(result.stdout)["inputs"] == {"pixels": "f32[5, 1, 8, 8]"}


def test_values_that_are_written_out_reach_every_runtime(tiny: Path) -> None:
    result = bench(tiny, "--input", "x=[1, 2, 3]", "--vs", "onnxruntime", "--scenario", "offline", "--json", *FEW)
    found = json.loads(result.stdout)
    assert found["inputs"] == {"x": "f32[3]"}
    assert found["agreements"]["onnxruntime"]["same"] is True


def test_another_answer_is_an_exit_code(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_wrong(model: Path, threads: int) -> NamedCall:
        right = runtimes._open_onnxruntime(model, threads)

        def call(feed: Feed) -> dict[str, object]:
            return {name: np.asarray(value) * 2 for name, value in right(feed).items()}

        return call

    monkeypatch.setitem(runtimes.RUNTIMES, "onnxruntime", Runtime("onnxruntime", open_wrong))  # type: ignore[arg-type]
    result = bench(tiny, "--vs", "onnxruntime", "--scenario", "single-stream", *FEW)
    assert result.exit_code == 1
    assert "onnxruntime gives ANOTHER ANSWER: y differs by" in result.stdout


def test_a_runtime_that_cannot_run_the_model_says_why(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 22]> m (bfloat16[4] x) => (bfloat16[4] y) { y = Softplus (x) }'
    path = tmp_path / "bf16.onnx"
    path.write_bytes(model_from_text(text).SerializeToString())
    result = bench(path, "--vs", "onnxruntime", "--scenario", "single-stream", *FEW)
    assert result.exit_code == 0
    assert re.search(r"onnxruntime cannot run this model: .*(NOT_IMPLEMENTED|NotImplemented)", result.stdout)
    assert "onnxc " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--dim", "typo=8"), 1, "error[unknown-dim]"),
        (("--shape", "pixel=1,1,8,8"), 1, "error[unknown-input]"),
        (("--input", "pixels=[1, 2]"), 1, "error[input-"),
        (("--input", "pixel=[1, 2]"), 1, "error[unknown-input]"),
        (("--threads", "0"), 2, "is not of the form 1,2"),
        (("--threads", "two"), 2, "is not of the form 1,2"),
        (("--callers", "-1"), 2, "is not of the form 1,2"),
        (("--scenario", "burst"), 2, "Invalid value"),
        (("--bound", "0"), 2, "Invalid value"),
        (("--seconds", "0"), 2, "Invalid value"),
        (("--vs", "onnxruntime"), 2, "--vs needs the .onnx file"),
        (("--vs", "torch"), 2, "Invalid value"),
    ],
)
def test_what_a_user_may_get_wrong(artifact: Path, arguments: tuple[str, ...], code: int, text: str) -> None:
    result = bench(artifact, *arguments)
    assert (result.exit_code, text in result.stderr) == (code, True), result.stderr


def test_errors_of_compiling_are_those_of_compile(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"\x08\x07no model")
    assert "error[" in bench(path).stderr
    assert "error[unknown-dim]" in bench(tiny, "--dim", "typo=8").stderr


def test_a_runtime_that_is_not_installed(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Runtime("openvino-is-not-here", runtimes._open_openvino)
    monkeypatch.setitem(runtimes.RUNTIMES, "openvino", missing)  # type: ignore[arg-type]
    result = bench(tiny, "--vs", "openvino")
    assert (result.exit_code, "error[library-missing]" in result.stderr) == (1, True)
