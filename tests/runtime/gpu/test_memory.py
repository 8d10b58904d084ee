"""Memory of a device: sizes of blocks, what is used again, what is given back when there is none left."""

import sys

import numpy as np
import pytest

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.memory import Block, Buffer, MemoryPool, PinnedMemory, rounded_bytes
from tests.support.fake_driver import FakeDriver


@pytest.fixture
def device(fake: FakeDriver) -> Device:
    made = Device(fake.driver)
    made.enter()
    return made


@pytest.mark.parametrize(
    ("nbytes", "rounded"),
    [(0, 512), (1, 512), (512, 512), (513, 1024), ((1 << 20) - 1, 1 << 20), (1 << 20, 1 << 20),
     ((1 << 20) + 1, 9 << 17), (5 << 20, 5 << 20), ((5 << 20) + 1, 11 << 19), ((9 << 30) + 1, (9 << 30) + (64 << 20))],
)  # fmt: skip
def test_sizes_of_blocks(nbytes: int, rounded: int) -> None:
    assert rounded_bytes(nbytes) == rounded


def test_a_block_that_a_signal_left_unfinished_gives_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    unfinished = Block.__new__(Block)
    assert not hasattr(unfinished, "__dict__")
    del unfinished
    assert raised == []


def test_a_block_comes_back_when_nothing_refers_to_it(fake: FakeDriver, device: Device) -> None:
    pool = MemoryPool(device)
    first = pool.take(1000, "a test")
    second = pool.take(1000, "a test")
    assert first.address != second.address
    address = first.address
    del first
    assert pool.take(700, "a test").address == address
    assert fake.memory.live == 2
    assert pool.held_bytes == 2048


def test_a_much_larger_block_is_kept_for_larger_requests(fake: FakeDriver, device: Device) -> None:
    pool = MemoryPool(device)
    large = pool.take(4096, "a test").address
    assert pool.take(512, "a test").address != large
    assert pool.take(2048, "a test").address == large


def test_a_pool_gives_its_memory_back_with_its_last_block(fake: FakeDriver, device: Device) -> None:
    pool = MemoryPool(device)
    block, _ = pool.take(1, "a test"), pool.take(1, "a test")
    del pool
    assert fake.memory.holds(block.address, 512)
    del block, _
    assert fake.memory.live == 0


def test_what_pools_keep_is_given_up_before_memory_is_out(fake: FakeDriver, device: Device) -> None:
    pool, other = MemoryPool(device), MemoryPool(device)
    kept = other.take(1 << 20, "a test")
    del kept
    fake.memory.limit_bytes = 3 << 20
    block = pool.take(3 << 20, "a test")
    assert fake.memory.holds(block.address, 3 << 20)
    assert (pool.held_bytes, other.held_bytes) == (3 << 20, 0)


def test_out_of_memory_names_what_for_and_how_much(fake: FakeDriver, device: Device) -> None:
    fake.memory.limit_bytes = 1 << 20
    buffer = Buffer(device, 1000, "the weights")
    with pytest.raises(DeviceError, match=r"an output needs 2097152 bytes .* has 1047576 free of 1048576") as refused:
        MemoryPool(device).take(2 << 20, "an output")
    assert refused.value.code == "out-of-device-memory"
    buffer.free()
    assert fake.memory.live == 0


def test_a_buffer_is_freed_once(fake: FakeDriver, device: Device) -> None:
    buffer = Buffer(device, 0, "nothing")
    buffer.free()
    del buffer
    assert fake.calls.count("cuMemFree_v2") == 1


def test_pinned_memory_is_given_back(fake: FakeDriver, device: Device) -> None:
    pinned = PinnedMemory(device, 64)
    pinned.bytes[:] = 3
    assert np.all(fake.view(pinned.address, np.uint8, (64,)) == 3)
    del pinned
    assert fake.memory.live == 0


def test_memory_that_cannot_be_pinned_says_how_much(fake: FakeDriver, device: Device) -> None:
    fake.fail("cuMemHostAlloc", 801)
    with pytest.raises(DeviceError, match="to pin 64 bytes") as refused:
        PinnedMemory(device, 64)
    assert refused.value.code == "not-supported"
    assert fake.memory.live == 0
