"""`onnxc doctor`: what it lists, and when it fails."""

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from onnxc.command_line import doctor
from onnxc.command_line.doctor import Finding, examine
from onnxc.command_line.main import main
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.driver import Driver
from tests.support.fake_driver import FakeDriver


def named(find_driver: Callable[[], Driver]) -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(find_driver)}


def no_driver() -> Driver:
    raise DeviceError("there is no driver library", code="no-cuda-driver")


def test_everything_is_listed_with_its_version() -> None:
    found = named(no_driver)
    assert list(found) == [
        "Python", "onnxc", "numpy", "ml_dtypes", "protobuf", "llvmlite", "click", "rich", "pillow", "triton",
        "cupy-cuda13x", "processor", "threads", "cache", "NVIDIA driver", "CUDA device",
    ]  # fmt: skip
    assert all(found[name].state == "found" for name in ("Python", "numpy", "llvmlite", "protobuf", "processor"))
    assert "target cpu" in found["processor"].found


def test_a_device_is_told_with_its_target() -> None:
    found = named(lambda: FakeDriver(capability=(9, 0), memory_bytes=141 << 30, version=13000).driver)
    assert found["NVIDIA driver"].found.startswith("CUDA 13.0 (a fake)")
    assert found["CUDA device"] == Finding(
        "CUDA device", "found", '0: Fake H200, 141.0 GiB, 132 multiprocessors, target "cuda:sm_90"', "running on GPUs",
        gpu=True,
    )  # fmt: skip


def test_each_device_has_its_line() -> None:
    lines = [
        finding.found for finding in examine(lambda: FakeDriver(devices=3).driver) if finding.name == "CUDA device"
    ]
    assert [line[:2] for line in lines] == ["0:", "1:", "2:"]


@pytest.mark.parametrize(
    ("find_driver", "state", "text"),
    [(no_driver, "missing", "no driver library"), (lambda: FakeDriver(version=11040).driver, "wrong", "CUDA 11.4"),
     (lambda: FakeDriver(devices=0).driver, "wrong", "NO_DEVICE")],
)  # fmt: skip
def test_a_driver_that_cannot_be_used_says_why(find_driver: Callable[[], Driver], state: str, text: str) -> None:
    found = named(find_driver)
    assert found["NVIDIA driver"].state == state
    assert text in found["NVIDIA driver"].found
    assert found["CUDA device"].state == "missing"


def test_a_device_that_cannot_be_asked_says_why() -> None:
    fake = FakeDriver()
    driver = fake.driver
    fake.fail("cuDeviceGetName", 46)
    assert "another process has the device" in named(lambda: driver)["CUDA device"].found


@pytest.mark.parametrize(
    ("text", "state"),
    [("3.5.1", "wrong"), ("3.6.0", "found"), ("3.9.0", "found"), ("3.10.0", "wrong"), (None, "missing")],
)
def test_versions_are_compared(monkeypatch: pytest.MonkeyPatch, text: str | None, state: str) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda name: text if name == "triton" else "9.0")
    found = named(no_driver)["triton"]
    assert found.state == state
    assert state == "found" or "3.6 or newer, below 3.10" in found.found


def test_a_machine_without_a_gpu_is_well_unless_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxc.runtime.gpu.driver.LIBRARIES", ("libno-such-driver.so.1",))
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0
    assert "all that is needed is there" in result.output
    assert "libno-such-driver" in result.output
    result = CliRunner().invoke(main, ["doctor", "--gpu"])
    assert result.exit_code == 1
    assert "needed and not there: NVIDIA driver, CUDA device" in result.output.replace("triton, ", "")


def test_json_for_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxc.runtime.gpu.driver.LIBRARIES", ("libno-such-driver.so.1",))
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == 0
    told = json.loads(result.output)
    assert told["ok"] is True
    assert {"name", "state", "found", "use", "required", "gpu"} == set(told["findings"][0])


def test_what_is_needed_and_missing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda name: None if name == "llvmlite" else "99.0")
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.output)["ok"] is False
