"""Devices: what they are, whether code fits them, kernels loaded."""

import gc
import os
from dataclasses import replace

import numpy as np
import pytest

from onnxc.runtime.device_code import DeviceCode
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.device import Device, expect_architecture, load_code, properties_of
from tests.runtime.gpu.programs import AFFINE, CODE, executable, fake_driver, kernel
from tests.support.fake_driver import FakeDriver


def test_the_properties_of_a_device() -> None:
    found = properties_of(FakeDriver(capability=(8, 9), multiprocessors=58, memory_bytes=1 << 32).driver, 0)
    assert (found.name, found.multiprocessors, found.capability) == ("Fake H200", 58, (8, 9))
    assert (found.architecture, found.memory_bytes, found.shared_bytes) == ("sm_89", 1 << 32, 232448)


@pytest.mark.parametrize("number", [-1, 1, 7])
def test_a_device_that_is_not_there_is_told(number: int) -> None:
    with pytest.raises(DeviceError, match=f"device {number} is needed, and this process sees 1") as refused:
        Device(FakeDriver().driver, number)
    assert refused.value.code == "no-cuda-device"


@pytest.mark.parametrize(
    ("architecture", "capability", "fits"),
    [("sm_80", (8, 0), True), ("sm_80", (8, 6), True), ("sm_86", (8, 0), False), ("sm_80", (9, 0), False),
     ("sm_90", (9, 0), True), ("sm_90", (8, 9), False), ("sm_90", (10, 0), False), ("sm_100", (10, 0), True),
     ("sm_100", (10, 3), False), ("sm_90a", (9, 0), True), ("sm_120", (12, 0), True), ("sm_120", (12, 1), False)],
)  # fmt: skip
def test_code_for_another_architecture_is_refused_naming_both(
    architecture: str, capability: tuple[int, int], fits: bool
) -> None:
    device = Device(FakeDriver(capability=capability).driver)
    if fits:
        expect_architecture(architecture, device)
        return
    has = f"sm_{capability[0]}{capability[1]}"
    with pytest.raises(DeviceError, match=rf'code for {architecture}, and .* is {has}: .*target="cuda:{has}"') as refused:  # fmt: skip # noqa: E501
        expect_architecture(architecture, device)
    assert refused.value.code == "wrong-architecture"


def test_a_driver_that_does_not_know_the_architecture_is_too_old() -> None:
    device = Device(FakeDriver(capability=(10, 0), version=12040).driver)
    with pytest.raises(DeviceError, match=r"sm_100 needs a driver of CUDA 12.8 or newer, and a fake is of CUDA 12.4") as refused:  # fmt: skip # noqa: E501
        expect_architecture("sm_100", device)
    assert refused.value.code == "driver-too-old"


def test_kernels_are_loaded_in_order_and_given_their_shared_memory(fake: FakeDriver) -> None:
    device = Device(fake.driver)
    with device.current():
        loaded = load_code(device, CODE)
    assert [fake.modules[function - 1] for function in loaded.functions] == [0, 1, 2, 3]
    assert fake.attributes == {loaded.functions[0]: {8: 64 << 10}}
    del loaded
    gc.collect()
    assert fake.modules == {}


def test_large_clusters_are_asked_for() -> None:
    code = DeviceCode("sm_90", (kernel("wide", ctas=16),))
    fake = FakeDriver(code)
    device = Device(fake.driver)
    with device.current():
        loaded = load_code(device, code)
    assert fake.attributes == {loaded.functions[0]: {14: 1}}


@pytest.mark.parametrize("damage", ["cubin", "name"])
def test_a_kernel_that_cannot_be_loaded_is_named_and_the_others_are_unloaded(damage: str) -> None:
    wrong = replace(CODE.kernels[1], **{damage: b"\x7fELFnothing" if damage == "cubin" else "other"})
    code = DeviceCode("sm_90", (CODE.kernels[0], wrong))
    fake = fake_driver()
    device = Device(fake.driver)
    with device.current(), pytest.raises(DeviceError, match=f"kernel {wrong.name}") as refused:
        load_code(device, code)
    assert refused.value.code == "kernel-image"
    assert fake.modules == {}
    fake.check()


def test_a_kernel_with_too_much_shared_memory_is_refused() -> None:
    code = DeviceCode("sm_90", (kernel("huge", shared_bytes=300_000),))
    device = Device(FakeDriver(code).driver)
    with device.current(), pytest.raises(DeviceError, match=r"needs 300000 bytes of shared memory, .* has 232448") as refused:  # fmt: skip # noqa: E501
        load_code(device, code)
    assert refused.value.code == "launch-resources"


def test_a_forked_process_is_told_that_it_cannot_use_the_device(fake: FakeDriver) -> None:
    exe = executable(fake, AFFINE)
    exe._device_engine.device._process = os.getpid() + 1
    with pytest.raises(DeviceError, match="forked") as refused:
        exe(np.zeros(3, np.float32))
    assert refused.value.code == "device-forked"
