"""The fake driver notices what a real one would punish: each of these is a mistake that a test must not pass with."""

import ctypes
import struct
from dataclasses import replace

import numpy as np
import pytest

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.device import Device, load_code
from onnxc.runtime.gpu.memory import Buffer, PinnedMemory
from tests.runtime.gpu.programs import CODE, fake_driver
from tests.support.fake_driver import FakeDriver


@pytest.fixture
def wrong() -> FakeDriver:
    """A fake that is not checked at the end."""
    return fake_driver()


def launch(fake: FakeDriver, number: int, values: list[int], **changes: int) -> int:
    """A launch of a kernel of `CODE` on the default stream; `changes` are what differs from what it needs."""
    device = Device(fake.driver)
    with device.current():
        loaded = load_code(device, CODE)
        kept.append(loaded)
        kernel = CODE.kernels[number]
        words = (ctypes.c_int64 * (len(values) + 2))(*values, 0, 0)
        base = ctypes.addressof(words)
        pointers = (ctypes.c_int64 * len(words))(*range(base, base + 8 * len(words), 8))
        grid, warps, shared = changes.get("grid", 1), changes.get("warps", kernel.warps), changes.get("shared")
        shared = kernel.shared_bytes if shared is None else shared
        config = struct.pack("<3I3II4xQQI4x", grid, 1, 1, 32 * warps, 1, 1, shared, 0, 0, 0)
        function = device.driver.functions["cuLaunchKernelEx"]
        return function(config, loaded.functions[number], ctypes.addressof(pointers), None)


kept: list[object] = []


def addresses(fake: FakeDriver, count: int) -> list[int]:
    return [fake.place(np.zeros(4, np.float32)) for _ in range(count)]


def test_a_launch_as_it_should_be(fake: FakeDriver) -> None:
    assert launch(fake, 0, [*addresses(fake, 3), 4]) == 0


@pytest.mark.parametrize("changes", [{"grid": 0}, {"warps": 3}, {"shared": 5}])
def test_a_launch_of_another_shape_is_noticed(wrong: FakeDriver, changes: dict[str, int]) -> None:
    assert launch(wrong, 1, [*addresses(wrong, 3), 4], **changes) != 0
    assert len(wrong.problems) == 1


@pytest.mark.parametrize("value", [0, 8, 1 << 40])
def test_a_pointer_into_nothing_is_noticed(wrong: FakeDriver, value: int) -> None:
    assert launch(wrong, 0, [*addresses(wrong, 2), value, 4]) != 0
    assert "parameter 2" in wrong.problems[0]


def test_a_pointer_on_no_boundary_is_noticed(wrong: FakeDriver) -> None:
    first, second, third = addresses(wrong, 3)
    assert launch(wrong, 0, [first, second, third + 4, 4]) != 0
    assert "boundary" in wrong.problems[0]


def test_memory_that_is_freed_before_the_kernel_runs_is_noticed(wrong: FakeDriver) -> None:
    places = addresses(wrong, 3)
    launch(wrong, 0, [*places, 4])
    wrong.memory.free(places[2], on_device=True)
    with pytest.raises(AssertionError, match="when it runs: parameter 2"):
        wrong.check()


def test_writing_behind_an_allocation_is_noticed(wrong: FakeDriver) -> None:
    places = addresses(wrong, 1)
    ctypes.memset(places[0] + 16, 0, 1)
    with pytest.raises(AssertionError, match="outside of the 16 bytes"):
        wrong.check()


def test_freeing_twice_is_noticed(wrong: FakeDriver) -> None:
    device = Device(wrong.driver)
    with device.current():
        address = Buffer(device, 16, "a test").address
        with pytest.raises(DeviceError):
            wrong_free(device, address)
    assert "freed twice" in wrong.problems[0]


def wrong_free(device: Device, address: int) -> None:
    device.driver.call("to free", "cuMemFree_v2", address)


def test_a_thread_without_a_context_is_noticed(wrong: FakeDriver) -> None:
    driver = wrong.driver
    with pytest.raises(DeviceError) as refused:
        driver.call("to allocate", "cuMemAlloc_v2", ctypes.byref(ctypes.c_void_p()), 5)
    assert refused.value.code == "device-context"
    assert len(wrong.problems) == 1


def test_nothing_runs_before_somebody_waits(fake: FakeDriver) -> None:
    device = Device(fake.driver)
    with device.current():
        pinned, buffer, stream = PinnedMemory(device, 16), Buffer(device, 16, "a test"), device.new_stream()
        pinned.bytes[:] = 1
        device.driver.call("to copy", "cuMemcpyHtoDAsync_v2", buffer.address, pinned.address, 16, stream)
        pinned.bytes[:] = 2
        device.driver.call("to wait", "cuStreamSynchronize", stream)
    assert fake.view(buffer.address, np.uint8, (16,)).tolist() == [2] * 16


def test_a_stream_that_waits_for_an_event_runs_what_was_before_it(fake: FakeDriver) -> None:
    device = Device(fake.driver)
    done = []
    with device.current():
        first, second, event = device.new_stream(), device.new_stream(), device.new_event()
        fake.streams.find(first).enqueue(lambda: done.append("first"))
        device.driver.call("to record", "cuEventRecord", event, first)
        fake.streams.find(first).enqueue(lambda: done.append("later"))
        device.driver.call("to wait", "cuStreamWaitEvent", second, event, 0)
        fake.streams.find(second).enqueue(lambda: done.append("second"))
        device.driver.call("to wait", "cuStreamSynchronize", second)
    assert done == ["first", "second"]


@pytest.mark.parametrize("changes", [{"cooperative": True}, {"scratch_bytes": 128}, {"ctas": 2}])
def test_what_a_kernel_needs_besides_is_noticed(changes: dict[str, object]) -> None:
    fake = fake_driver()
    fake.kernels = (CODE.kernels[0], replace(CODE.kernels[1], **changes), *CODE.kernels[2:])
    assert launch(fake, 1, [*addresses(fake, 3), 4]) != 0
    assert len(fake.problems) == 1


def test_failures_that_are_asked_for(fake: FakeDriver) -> None:
    driver = fake.driver
    fake.fail("cuDeviceGetCount", 999, after=1, times=2)
    results = [driver.functions["cuDeviceGetCount"](ctypes.byref(ctypes.c_int())) for _ in range(5)]
    assert results == [0, 999, 999, 0, 0]
