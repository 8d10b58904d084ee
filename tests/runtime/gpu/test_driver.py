"""The driver: found or not, new enough or not, and its failures as errors of ours."""

import ctypes

import pytest

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu import driver
from onnxc.runtime.gpu.driver import PROTOTYPES, driver_of_library, load_driver, version_text
from tests.support.fake_driver import FakeDriver


def test_a_machine_without_a_driver_is_told_what_is_needed_and_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LIBRARIES", ("libno-such-driver.so.1", "libnor-this.so"))
    with pytest.raises(DeviceError, match=r"CUDA 12.0 or newer.*libno-such-driver.so.1: .*libnor-this.so: ") as refused:
        load_driver()
    assert refused.value.code == "no-cuda-driver"
    assert "onnxc doctor" in str(refused.value)


def test_a_library_that_is_no_driver_is_told_what_it_lacks() -> None:
    with pytest.raises(DeviceError, match=r"the C library is of CUDA unknown, and has no cuInit, .*needed is CUDA 12.0") as refused:  # fmt: skip # noqa: E501
        driver_of_library(ctypes.CDLL(None), "the C library")
    assert refused.value.code == "driver-too-old"


@pytest.mark.parametrize("version", [11080, 11000])
def test_a_driver_that_is_too_old_is_told_both_versions(version: int) -> None:
    with pytest.raises(DeviceError, match=rf"is of CUDA {version_text(version)}; needed is CUDA 12.0") as refused:
        _ = FakeDriver(version=version).driver
    assert refused.value.code == "driver-too-old"


def test_a_driver_that_lacks_a_function_is_told_which() -> None:
    with pytest.raises(DeviceError, match="has no cuLaunchKernelEx;") as refused:
        _ = FakeDriver(without=("cuLaunchKernelEx",)).driver
    assert refused.value.code == "driver-too-old"


def test_a_driver_without_a_device_says_so() -> None:
    with pytest.raises(DeviceError, match=r"CUDA_ERROR_NO_DEVICE \(100\), no CUDA-capable device") as refused:
        _ = FakeDriver(devices=0).driver
    assert refused.value.code == "no-cuda-device"


def test_the_newest_driver_is_taken() -> None:
    assert FakeDriver(version=13020).driver.version == 13020


@pytest.mark.parametrize(
    ("result", "code"),
    [(1, "driver-error"), (2, "out-of-device-memory"), (100, "no-cuda-device"), (200, "kernel-image"),
     (209, "wrong-architecture"), (214, "device-lost"), (222, "driver-too-old"), (700, "device-lost"),
     (701, "launch-resources"), (719, "device-lost"), (803, "driver-mismatch"), (900, "stream-capture"),
     (999, "device-lost"), (123456, "driver-error")],
)  # fmt: skip
def test_every_failure_has_a_code_and_says_what_to_do(result: int, code: str) -> None:
    fake = FakeDriver()
    made = fake.driver
    fake.fail("cuDeviceGetCount", result)
    with pytest.raises(DeviceError, match=rf"cuDeviceGetCount failed to count: .*\({result}\), .*; ") as refused:
        made.call("to count", "cuDeviceGetCount", ctypes.byref(ctypes.c_int()))
    assert refused.value.code == code


def test_a_primary_context_is_asked_for_once() -> None:
    fake = FakeDriver(devices=2)
    made = fake.driver
    assert made.primary_context(0) == made.primary_context(0) != made.primary_context(1)
    assert fake.calls.count("cuDevicePrimaryCtxRetain") == 2


def test_the_functions_that_native_code_calls_have_addresses() -> None:
    made = FakeDriver().driver
    assert set(made.addresses) == set(PROTOTYPES)
    assert all(made.addresses.values())


@pytest.mark.parametrize(("version", "text"), [(12080, "12.8"), (13000, "13.0"), (11080, "11.8"), (0, "unknown")])
def test_versions_as_people_write_them(version: int, text: str) -> None:
    assert version_text(version) == text
