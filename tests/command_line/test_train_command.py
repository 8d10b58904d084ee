"""`onnxc train`: what it prints and writes, and what it refuses."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import onnxc
from onnxc.command_line.main import main
from tests.command_line.broken_archives import broken_archives

LINE = """<ir_version: 10, opset_import: ["" : 21]>
    line (float[N, 2] x) => (float[N, 1] y) <float[2, 1] w = {5, 5}> { y = MatMul (x, w) }"""

X = np.array([[1, 0], [0, 1], [1, 1], [2, 1], [9, 9]], np.float32)
DATA = {"x": X, "targets": X @ np.array([[3], [-2]], np.float32)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "line.onnx"
    onnx.save(onnx.parser.parse_model(LINE), path)
    return path


def train(model: Path, data: Mapping[str, np.ndarray], *options: object) -> Result:
    path = model.with_name("data.npz")
    np.savez(path, **data)
    return CliRunner().invoke(main, ["train", str(model), "--data", str(path), *map(str, options)])


def test_it_learns_a_line_and_goes_on_where_it_stopped(model: Path) -> None:
    data = {name: array[:4] for name, array in DATA.items()}
    made = train(model, data, "--loss", "mean_squared_error", "--learning-rate", 0.2, "--batch", 2, "--epochs", 40)
    assert (made.exit_code, made.stderr) == (0, "")
    assert len(made.output.splitlines()) == 41
    trained = model.with_name("line.trained.onnx")
    np.testing.assert_allclose(onnxc.compile(trained, "interpreter")(X), DATA["targets"], atol=1e-2)
    # All samples are one batch, and the learning rate one for all steps.
    again = train(trained, {**data, "learning_rate": np.float32(0)}, "--epochs", 1, "--keep-weights", "-o", model)
    assert float(again.output.splitlines()[0].removeprefix("epoch 1: loss ")) < 1e-4
    np.testing.assert_array_equal(onnxc.compile(model, "interpreter")(X), onnxc.compile(trained, "interpreter")(X))


@pytest.mark.parametrize(
    ("data", "options", "code", "text"),
    [
        (DATA, (), 2, "no training information"),
        ({"x": X, "targets": X[:3]}, ("--loss", "mean_squared_error"), 2, "no one number of samples"),
        ({}, ("--loss", "mean_squared_error"), 2, "no one number of samples: none"),
        ({"x": X}, ("--loss", "mean_squared_error"), 1, 'input "targets" is missing'),
        (DATA | {"z": X}, ("--loss", "mean_squared_error"), 1, "there is no input 'z'"),
    ],
)
def test_what_cannot_be(
    data: Mapping[str, np.ndarray], options: tuple[str, ...], code: int, text: str, model: Path
) -> None:
    result = train(model, data, *options)
    assert (result.exit_code, text in result.stderr) == (code, True), result.stderr


def test_a_model_that_says_how_it_is_trained_takes_no_loss(model: Path) -> None:
    onnx.save(onnx.load_from_string(onnxc.make_training(model, "mean_squared_error").SerializeToString()), model)
    result = train(model, DATA, "--loss", "output")
    assert (result.exit_code, "are for models without training information" in result.stderr) == (2, True)
    model.with_name("data.npz").write_bytes(b"no arrays")
    result = CliRunner().invoke(main, ["train", str(model), "--data", str(model)])
    assert (result.exit_code, "cannot read arrays" in result.stderr) == (2, True)


def test_data_that_cannot_be_read_is_told(model: Path, tmp_path: Path) -> None:
    options = ["train", str(model), "--loss", "mean_squared_error", "--data"]
    for path, reason in broken_archives(tmp_path, {"x": X, "targets": DATA["targets"]}).items():
        result = CliRunner().invoke(main, [*options, str(path)])
        assert (result.exit_code, f"cannot read arrays from {path}: {reason}" in result.output) == (2, True), result
    np.save(tmp_path / "one.npy", X)
    result = CliRunner().invoke(main, [*options, str(tmp_path / "one.npy")])
    assert (result.exit_code, "it is an .npy, whose array has no name" in result.output) == (2, True)


def test_a_folder_that_is_not_there_is_told_before_training(model: Path) -> None:
    result = train(model, DATA, "--loss", "mean_squared_error", "-o", model.parent / "none" / "trained.onnx")
    assert result.exit_code == 2
    assert "there is no folder" in result.output
    assert "epoch" not in result.output
