"""`onnxc profile` end to end, and names that `run` does not know."""

import json
from importlib.resources import as_file, files
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import onnxc
from onnxc.command_line.main import main


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "digits.onnxc"
    with as_file(files("onnxc") / "data" / "digits.onnx") as shipped:
        onnxc.compile(shipped).save(path)
    return path


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_table_of_kernels_and_operators(artifact: Path) -> None:
    result = command("profile", artifact, "--dim", "batch=4", "--calls", "3", "--threads", "1")
    assert (result.exit_code, result.stderr) == (0, "")
    for text in ("digits at batch = 4", "of roofline", "convolution", "ai.onnx.Conv-11", "us in kernels", "GB/s"):
        assert text in result.stdout
    for text in ("entering the call", "between kernels", "% of a call"):
        assert text in result.stdout
    assert len(command("profile", artifact, "--calls", "1", "--top", "1").stdout) < len(result.stdout)


def test_json_a_page_and_a_trace(artifact: Path, tmp_path: Path) -> None:
    page, trace = tmp_path / "p.html", tmp_path / "t.json"
    result = command("profile", artifact, "--calls", "2", "--json", "--html", page, "--trace", trace)
    found = json.loads(result.stdout)
    assert (found["model"], found["calls"], found["sizes"]) == ("digits", 2, {"batch": 1})
    assert found["kernels"][0]["nodes"]
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert {event["ph"] for event in json.loads(trace.read_text())["traceEvents"]} == {"M", "X"}


@pytest.mark.parametrize("name", ["run", "profile"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--dim", "typo=8"), "unknown-dim"), (("--shape", "pixel=8,1,8,8"), "unknown-input")],
)
def test_a_name_that_an_artifact_does_not_have_is_an_error(
    artifact: Path, name: str, arguments: tuple[str, ...], code: str
) -> None:
    result = command(name, artifact, *arguments)
    assert (result.exit_code, f"error[{code}]" in result.stderr) == (1, True)


def test_the_interpreter_has_nothing_to_profile(artifact: Path) -> None:
    with as_file(files("onnxc") / "data" / "digits.onnx") as model:
        result = command("profile", model, "--target", "interpreter")
    assert (result.exit_code, "error[no-profile]" in result.stderr) == (1, True)


def test_what_cannot_be_written_and_what_is_no_input(artifact: Path, tmp_path: Path) -> None:
    nowhere = command("profile", artifact, "--calls", "1", "--html", tmp_path / "no" / "p.html")
    assert (nowhere.exit_code, "No such file or directory" in nowhere.stderr) == (1, True)
    unknown = command("profile", artifact, "--input", "pixel=[1]")
    assert (unknown.exit_code, "error[unknown-input]" in unknown.stderr) == (1, True)
