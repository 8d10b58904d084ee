"""`onnxc precision`: what it prints for people and for programs, and that the document shows what it prints."""

import json
import re
import shlex
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from onnxc.command_line.main import main
from tests.models.builders import BUILDERS
from tests.support.models import model_from_text

DOCUMENT = Path(__file__).parents[2] / "docs" / "precision.md"


def onnxc(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    path = tmp_path / "digits.onnx"
    with as_file(files("onnxc") / "data" / "digits.onnx") as shipped:
        path.write_bytes(shipped.read_bytes())
    return path


def shape_of_text(text: str) -> list[list[str]]:
    """Lines as words, with a # for each number and without what only fills columns."""
    return [[re.sub(r"^[\d.e+-]+$", "#", word) for word in line.split()] for line in text.strip().splitlines()]


def test_the_document_shows_what_is_printed(digits: Path) -> None:
    (shown,) = re.findall(r"```console\n\$ onnxc (precision .*?)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    command, printed = shown
    words = [str(digits) if word.endswith("digits.onnx") else word for word in shlex.split(command)]
    result = onnxc(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert shape_of_text(result.output) == shape_of_text(printed)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_json_has_a_field_for_each_figure(digits: Path, target: str) -> None:
    result = onnxc("precision", digits, "--to", "fp16", "--target", target, "--samples", 3, "--layers", 2, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.output)
    assert (found["precision"], found["samples"], len(found["layers"])) == ("fp16", 3, 2)
    (output,) = found["outputs"]
    assert (output["name"], output["elements"], output["nan"], output["infinite"]) == ("probabilities", 30, 0, 0)
    assert 0 < output["max_relative"] < 3e-3
    assert 0 < output["relative_rms"] <= output["max_absolute"] / output["rms"]
    assert output["max_relative"] == pytest.approx(output["max_absolute"] / output["largest"])
    first, second = found["layers"]
    assert first["growth"] >= second["growth"] > 0
    assert first["operator"].startswith("ai.onnx.")


def test_given_inputs_are_used(tmp_path: Path) -> None:
    path, x = tmp_path / "m.onnx", tmp_path / "x.npy"
    model = model_from_text("""
    <ir_version: 8, opset_import: ["": 17]>
    m (float[N, 2] x) => (float[N, 2] y, int64[N] place)
    <float[2, 2] w = {300, 0, 0, 1}> { y = MatMul (x, w) place = ArgMax <axis = 1, keepdims = 0> (x) }
    """)
    path.write_bytes(model.SerializeToString())
    np.save(x, np.array([[300, 1 + 2**-12], [np.nan, 1e-30]], np.float32))
    result = onnxc("precision", path, "--to", "fp16", "--input", f"x=@{x}", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    y, place = json.loads(result.output)["outputs"]
    assert (y["elements"], y["nan"], y["infinite"], y["largest"]) == (4, 0, 0, 90000)
    assert y["max_absolute"] == pytest.approx(2**-12)
    assert (place["changed"], place["max_absolute"], place["max_relative"]) == (0, 0, 0)


def test_layers_are_those_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(BUILDERS["encoder"]("dynamo").model.SerializeToString())
    result = onnxc("precision", path, "--to", "bf16", "--dim", "sequence=5", "--layers", 5)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "MatMul" in result.output or "Gemm" in result.output


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--to", "tf32"], 2), ([], 2), (["--to", "bf16", "--samples", "0"], 2)]
)
def test_wrong_usage(digits: Path, arguments: list[str], code: int) -> None:
    assert onnxc("precision", digits, *arguments).exit_code == code


def test_compile_and_run_take_a_precision(digits: Path) -> None:
    assert onnxc("compile", digits, "--precision", "bf16").exit_code == 0
    held = onnxc("run", digits.with_suffix(".onnxc"))
    again = onnxc("run", digits, "--precision", "bf16")
    assert (held.exit_code, again.exit_code) == (0, 0)
    assert held.output == again.output != onnxc("run", digits).output
    refused = onnxc("run", digits, "--precision", "tf32")
    assert refused.exit_code == 1
    assert "unsupported-precision" in refused.stderr
