"""The benchmark command measures a folder of models, and survives one that cannot be measured."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.models.builders import mlp

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest of two models, one of them no model at all."""
    folder = tmp_path_factory.mktemp("models")
    built = mlp("dynamo")
    (folder / "mlp.onnx").write_bytes(built.model.SerializeToString())
    (folder / "broken.onnx").write_bytes(b"no model")
    entry = {"inputs": [asdict(spec) for spec in built.inputs], "outputs": ["y"], "sizes": built.sizes}
    manifest = {name: {"files": {"dynamo": f"{name}.onnx"}, **entry} for name in ("broken", "mlp")}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def run_benchmarks(folder: Path, *options: str) -> tuple[str, list[dict[str, object]]]:
    """What is printed, and the rows of the JSON file."""
    out = folder / "rows.json"
    command = [sys.executable, "-m", "benchmarks", "--dir", str(folder), "--json", str(out), *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    return result.stdout, json.loads(out.read_text())["rows"]


def test_calls_are_timed_and_compared(folder: Path) -> None:
    text, rows = run_benchmarks(folder, "--threads", "1", "--sizes", "one,prime", "--rounds", "2")
    broken, *measured = rows
    assert "error[not-a-model]" in str(broken["error"])
    assert [(row["model"], row["size"], row["threads"]) for row in measured] == [("mlp", "one", 1), ("mlp", "prime", 1)]
    for row in measured:
        assert isinstance(row["difference"], float)
        assert row["difference"] < 1e-6
        assert row["compilations"] == 1
    assert "2 figures, ratio to ONNX Runtime: geometric mean" in text
    assert "failed: broken" in text


def test_compiling_and_loading_are_measured(folder: Path) -> None:
    text, rows = run_benchmarks(folder, "--compile", "--models", "mlp")
    assert [row["model"] for row in rows] == ["mlp"]
    assert set(rows[0]) == {"model", "model_mb", "compile_s", "peak_ratio", "artifact_mb", "load_ms"}
    assert "artifact MB" in text


def test_an_unknown_model_is_named(folder: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--dir", str(folder), "--models", "other"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1
    assert "there are broken, mlp" in result.stderr


def test_any_folder_is_measured(folder: Path) -> None:
    options = ["--sizes", "1,3", "--rounds", "3", "--seconds", "0.1"]
    command = [sys.executable, "-m", "benchmarks.folder", str(folder), *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    rows = [line.strip("| ").split(" | ") for line in result.stdout.splitlines() if line.startswith("| ")][1:]
    assert sorted(row[:2] for row in rows if row[0] == "mlp") == [["mlp", "1"], ["mlp", "3"]]
    assert "WRONG" not in result.stdout
    assert "error[not-a-model]" in result.stdout
    assert "2 rows, geometric mean of the ratio" in result.stdout
