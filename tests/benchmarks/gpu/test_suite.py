"""The suite for machines with a GPU: every section runs at tiny sizes on the fake device. No times are looked at."""

import ctypes.util
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import suite
from benchmarks.gpu.bench import Bench, Row, attempt
from benchmarks.gpu.calibration import calibration, write_calibration
from benchmarks.gpu.environment import environment
from benchmarks.gpu.kernel_times import TIMED, kernel_times, timed_module
from benchmarks.gpu.kernel_values import distribution, kernel_values, launch_kind, worst_error
from benchmarks.gpu.smoke import smoke
from benchmarks.gpu.sweeps import sweeps
from onnxc.compiler.codegen_gpu.schedules.cost_model import Calibration
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.runtime.device_code import DeviceKernel
from tests.codegen_gpu.kinds import KINDS
from tests.codegen_gpu.support import Device
from tests.support.fake_driver import FakeDriver
from tests.support.fake_gpu import fake_kernels, interpret_launch

LIBRARIES_HERE = ctypes.util.find_library("cuda")


class FakeBench(Bench):
    """A bench on a fake device, which gets to know the kernels that are compiled."""

    def __init__(self) -> None:
        self.fake = FakeDriver(None, interpret_launch)
        self.scratch_bytes = 0
        super().__init__(self.fake.driver, self.compile_fake, rounds=2, size="tiny")

    def compile_fake(self, sources: Sequence[KernelSource]) -> list[DeviceKernel]:
        made = [replace(kernel, scratch_bytes=self.scratch_bytes) for kernel in fake_kernels(sources)]
        self.fake.kernels = (*self.fake.kernels, *made)
        return made


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
    *rows, told = well(list(kernel_values(bench)))
    assert all(row["ok"] is True for row in rows)
    assert str(told["f32"]).endswith("of the bound (2)")


def test_two_products_are_the_same_however_often(bench: FakeBench) -> None:
    assert [row["ok"] for row in well(list(smoke(bench)))] == [True, True]


def test_programs_get_memory_of_their_own(bench: FakeBench) -> None:
    """The fake driver refuses launches whose programs have less than their kernel asks for."""
    bench.scratch_bytes = 384
    assert all(row["ok"] is True for row in well(list(kernel_values(bench)))[:-1])
    assert all(launched.trailing[0] for launched in bench.fake.launches)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_launched_as_its_kernels_ask_for(bench: FakeBench, name: str) -> None:
    """At the sizes of a run; the fake driver refuses, among others, a cooperative kernel that is launched as others."""
    bench.size, bench.fake.execute = "full", None
    launch_kind(bench, name, KINDS[name].dtypes[0])
    assert bench.fake.launches


def test_wrong_values_are_told(bench: FakeBench) -> None:
    bench.fake.execute = None
    rows = list(kernel_values(bench))
    assert any(row.get("ok") is False for row in rows)
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
        assert Device(timed_module(name, dtype, TIMED[name])).sources()


def test_tiles_are_tried(bench: FakeBench) -> None:
    (row,) = well(list(sweeps(bench)))
    assert isinstance(row["tried"], list)
    assert len(row["tried"]) == 2
    assert row["best"] in [tried["schedule"] for tried in row["tried"]]


def test_a_row_that_fails_says_why() -> None:
    assert attempt("x", lambda: {"y": 1 / 0}) == {"name": "x", "error": "ZeroDivisionError: division by zero"}


def test_what_is_not_reached_is_skipped_and_no_failure(bench: FakeBench) -> None:
    bench.deadline = 0.0
    for section in (smoke, kernel_values, kernel_times, sweeps):
        rows = [row for row in section(bench) if row["name"] not in ("copy", "distribution")]
        assert rows
        assert all(row["skipped"] == "no time was left" for row in rows)
        assert suite.failures_of({"a": rows}) == []


def test_sections_take_nine_minutes_at_most() -> None:
    assert sum(seconds for _, seconds in suite.SECTIONS.values()) <= suite.LONGEST_S == 540
    assert suite.plan_text(["smoke", "sweeps"]).splitlines()[-1].split() == ["all", "95", "s"]


def test_a_section_that_fails_ends_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(name: str, pack: Path, seconds: float) -> list[Row]:
        return [{"name": name, "error": "lost"}] if name == "smoke" else [{"name": name, "seconds": 1.5, "ok": True}]

    out = tmp_path / "out.json"
    results = suite.run_suite(["smoke", "sweeps"], tmp_path, out, run)
    assert suite.failures_of(results) == ["smoke: smoke, error lost"]
    assert json.loads(out.read_text())["sections"] == results
    assert "sweeps, seconds 1.5, ok True" in capsys.readouterr().out


@pytest.mark.skipif(bool(LIBRARIES_HERE), reason="there is a driver library")
def test_without_a_driver_it_says_so_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["suite", "--pack", "absent"])
    assert suite.main() == 1
    assert capsys.readouterr().err.count("no-cuda-driver") == 1


def test_a_file_that_is_no_pack_is_named(
    bench: FakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "PACK"
    path.write_bytes(b"no zip")
    monkeypatch.setattr(suite, "load_driver", lambda: bench.driver)
    monkeypatch.setattr(sys, "argv", ["suite", "--pack", str(path)])
    assert suite.main() == 1
    assert capsys.readouterr().err == f"{path} is no pack: File is not a zip file\n"


def test_errors_are_told_as_shares_of_their_bounds() -> None:
    rows: list[Row] = [
        {"name": f"x/{t}", "error_ratio": e, "bound": 0.5} for t, e in (("a", 0.1), ("a", 0.5), ("b", 0.0))
    ]
    assert distribution(rows) == {"a": "0.2, 0.6, 1 of the bound (2)", "b": "0, 0, 0 of the bound (1)"}


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
