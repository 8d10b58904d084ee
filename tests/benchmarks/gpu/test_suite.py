"""The suite for machines with a GPU: every section runs at tiny sizes on the fake device. No times are looked at."""

import ctypes.util
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import suite
from benchmarks.gpu.bench import Bench, Row, attempt
from benchmarks.gpu.calibration import calibration, write_calibration
from benchmarks.gpu.environment import environment
from benchmarks.gpu.kernel_times import TIMED, kernel_times, module_of
from benchmarks.gpu.kernel_values import kernel_values, worst_error
from benchmarks.gpu.model_times import model_times
from benchmarks.gpu.model_values import model_values, official_cases
from benchmarks.gpu.tile_sweep import tile_sweep
from onnxc.compiler.back_ends import back_end
from onnxc.compiler.codegen_gpu.emit import emit
from onnxc.compiler.codegen_gpu.schedules.cost_model import Calibration
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import make_options
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import make_executable
from tests.codegen_gpu.support import Device
from tests.models.builders import mlp
from tests.support.fake_driver import FakeDriver
from tests.support.fake_gpu import interpret_launch

LIBRARIES_HERE = ctypes.util.find_library("cuda")


class FakeBench(Bench):
    """A bench on a fake device, which gets to know the kernels that are compiled."""

    def __init__(self, models: Path | None = None) -> None:
        self.fake = FakeDriver(None, interpret_launch)
        self.scratch_bytes = 0
        super().__init__(self.fake.driver, self.compile_fake, rounds=2, size="tiny", models=models)

    def compile_fake(self, sources: Sequence[KernelSource]) -> list[DeviceKernel]:
        made = []
        for source in sources:
            key = sha256(repr(source).encode()).hexdigest()
            types = tuple(parameter.type for parameter in source.parameters)
            cubin = b"\x7fELF" + key.encode()
            made.append(
                DeviceKernel(
                    key, "kernel", cubin, types, source.warps, 1, 0, self.scratch_bytes, False, 32, 0, source.text
                )
            )
        self.fake.kernels = (*self.fake.kernels, *made)
        return made

    def make(self, model: object, precision: str) -> Executable:
        """The model on the device of this bench."""
        options = make_options("cuda:sm_90", precision=precision, cache=False)
        real = back_end(options)
        end = replace(real, emit=lambda plan: emit(plan, real.target, real.host, self.compile_fake))
        *_, (_, artifact) = run_stages(model, options, end)  # type: ignore[arg-type]
        assert isinstance(artifact, Artifact)
        return make_executable(artifact, driver=self.driver)


@pytest.fixture
def bench() -> Iterator[FakeBench]:
    made = FakeBench()
    yield made
    made.synchronize()
    made.fake.check()


def well(rows: list[Row]) -> list[Row]:
    assert rows
    assert [row for row in rows if "error" in row] == []
    assert json.loads(json.dumps(rows, default=str))
    return rows


def test_environment_describes_the_device(bench: FakeBench) -> None:
    rows = {str(row["name"]): row for row in environment(bench)}
    device = rows["device"]["is"]
    assert isinstance(device, dict)
    assert device["capability"] == (9, 0)
    assert rows["driver"]["cuda"] == "13.0"
    assert rows["software"]["numpy"] == np.__version__


def test_values_of_kernels_are_right(bench: FakeBench) -> None:
    assert all(row["ok"] is True for row in well(list(kernel_values(bench))))


def test_programs_get_memory_of_their_own(bench: FakeBench) -> None:
    """The fake driver refuses launches whose programs have less than their kernel asks for."""
    bench.scratch_bytes = 384
    assert all(row["ok"] is True for row in well(list(kernel_values(bench))))
    assert all(launched.trailing[0] for launched in bench.fake.launches)


def test_wrong_values_are_told(bench: FakeBench) -> None:
    bench.fake.execute = None
    rows = list(kernel_values(bench))
    assert any(row["ok"] is False for row in rows)
    assert suite.failures_of({"kernel_values": rows})


def test_calibration_gives_an_entry_of_the_table(bench: FakeBench, tmp_path: Path) -> None:
    rows = well(list(calibration(bench)))
    launches = next(row for row in rows if row["name"] == "launches")
    assert launches["launches"] == 3
    entry = rows[-1]["entry"]
    assert isinstance(entry, dict)
    assert tuple(entry) == tuple(field.name for field in fields(Calibration))
    path = tmp_path / "calibration.json"
    path.write_text('{"sm_80": {"peak": 0.5}}')
    write_calibration(str(rows[-1]["architecture"]), entry, path)
    assert json.loads(path.read_text()) == {"sm_80": {"peak": 0.5}, "sm_90": entry}


def test_kernels_are_timed(bench: FakeBench) -> None:
    rows = well(list(kernel_times(bench)))
    assert {"seconds", "share_of_copy", "share_of_peak", "bytes", "flops"} <= set(rows[-1])


@pytest.mark.parametrize("name", TIMED)
def test_every_kind_that_is_timed_is_one_segment_of_kernels(name: str) -> None:
    for dtype in ("bf16", "f32"):
        assert Device(module_of(name, dtype, TIMED[name])).sources()


def test_tiles_are_tried(bench: FakeBench) -> None:
    (row,) = well(list(tile_sweep(bench)))
    assert isinstance(row["tried"], list)
    assert len(row["tried"]) == 2
    assert row["best"] in [tried["tile"] for tried in row["tried"]]


def test_models_are_compared(bench: FakeBench) -> None:
    assert all(row["ok"] is True for row in well(list(model_values(bench, bench.make))))


@pytest.mark.slow
def test_official_cases_are_counted(bench: FakeBench) -> None:
    (row,) = well(list(official_cases(bench, bench.make)))
    assert row["passed"] == row["chosen"]


def test_models_of_a_folder_are_timed(folder: Path) -> None:
    bench = FakeBench(folder)
    rows = well(list(model_times(bench, bench.make)))
    assert [str(row["name"]) for row in rows] == ["mlp/fp32/large", "mlp/fp32/one"]
    assert all(row["launches"] == 3 and row["ours_seconds"] for row in rows)
    bench.fake.check()


def test_a_section_without_models_says_so(bench: FakeBench) -> None:
    (row,) = model_times(bench)
    assert "--models" in str(row["error"])


def test_a_row_that_fails_says_why() -> None:
    assert attempt("x", lambda: {"y": 1 / 0}) == {"name": "x", "error": "ZeroDivisionError: division by zero"}


def test_nothing_is_begun_when_it_is_late(bench: FakeBench) -> None:
    bench.deadline = 0.0
    for section in (kernel_values, kernel_times, tile_sweep):
        assert "no time was left" in str(list(section(bench))[-1]["error"])


def test_a_section_that_fails_ends_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(name: str, size: str, models: Path | None) -> list[Row]:
        return [{"name": name, "error": "lost"}] if name == "first" else [{"name": name, "seconds": 1.5, "ok": True}]

    out = tmp_path / "out.json"
    results = suite.run_suite(["first", "second"], "quick", None, out, run)
    assert suite.failures_of(results) == ["first: first, error lost"]
    assert json.loads(out.read_text())["sections"] == results
    assert "second, seconds 1.5, ok True" in capsys.readouterr().out


@pytest.mark.skipif(bool(LIBRARIES_HERE), reason="there is a driver library")
def test_without_a_driver_it_says_so_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["suite", "--quick"])
    assert suite.main() == 1
    assert capsys.readouterr().err.count("no-cuda-driver") == 1


@pytest.mark.slow
def test_a_section_in_a_process_of_its_own_says_what_is_missing() -> None:
    (row,) = suite.run_section("environment", "quick", None)
    assert "no-cuda-driver" in str(row["error"]) or "device" in str(row["name"])


@pytest.mark.parametrize(
    ("found", "wanted", "error"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5), ([np.nan], [np.nan], 0.0), ([1.0], [np.inf], np.inf),
        ([np.nan], [1.0], np.inf), ([], [], 0.0),
    ],
)  # fmt: skip
def test_the_worst_error_is_a_part_of_the_largest_magnitude(
    found: list[float], wanted: list[float], error: float
) -> None:
    assert worst_error(np.array(found, np.float32), np.array(wanted, np.float32)) == error


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built = mlp("dynamo")
    (tmp_path / "mlp.onnx").write_bytes(built.model.SerializeToString())
    inputs = [vars(spec) for spec in built.inputs]
    entry = {"inputs": inputs, "outputs": ["y"], "sizes": built.sizes, "files": {"dynamo": "mlp.onnx"}}
    (tmp_path / "manifest.json").write_text(json.dumps({"mlp": entry}))
    return tmp_path
