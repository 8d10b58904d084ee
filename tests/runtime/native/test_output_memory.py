"""Memory of outputs: given back when nothing of it is held any more, and never to two arrays at once."""

import ctypes
import errno
import gc
import mmap
import sys
import threading
from collections.abc import Iterator
from math import prod

import numpy as np
import pytest

import onnxc
from onnxc.runtime.executable import Executable
from onnxc.runtime.native import heap, output_memory
from onnxc.runtime.native.heap import waiting_buffers
from onnxc.runtime.native.output_memory import KNOWN_BLOCKS, KNOWN_BYTES, SMALLEST_BYTES, array_maker, is_output
from onnxc.runtime.native.waiting_blocks import KEPT_BYTES
from tests.support.models import model_from_text

F32 = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def _nothing_waits() -> Iterator[None]:
    gc.collect()
    forget_all()
    yield
    forget_all()


def forget_all() -> None:
    # Makers of executables that live on have their queues.
    for queue in output_memory._queues.values():
        queue.clear()
    waiting_buffers.clear()


def made(*shape: int, dtype: np.dtype = F32) -> np.ndarray:
    return array_maker(prod(shape) * dtype.itemsize)(shape, dtype)


def known() -> int:
    """The bytes of all blocks that the queues know."""
    return sum(len(block) for queue in output_memory._queues.values() for block in queue)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "complex128", "bool"])
def test_an_array_is_whole_writable_and_aligned(dtype: str) -> None:
    array = made(3, 1, 70_001, dtype=np.dtype(dtype))
    assert (array.shape, array.dtype, type(array)) == ((3, 1, 70_001), np.dtype(dtype), np.ndarray)
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.ctypes.data % 64 == 0
    assert is_output(array)
    array[:] = 1
    assert array.sum() == array.size


def test_small_ones_are_of_numpy() -> None:
    few = SMALLEST_BYTES // 4
    assert not is_output(made(few - 1))
    assert is_output(made(few))
    assert not is_output(np.empty(few, F32))
    assert array_maker(KEPT_BYTES + 1) is np.empty


def test_what_nobody_holds_serves_again() -> None:
    array = made(300, 400)
    address, size = array.ctypes.data, array.nbytes
    del array
    assert known() >= size
    assert made(300, 400).ctypes.data == address
    # A little less is the same step of sizes, half of it is not.
    assert made(300, 399).ctypes.data == address
    assert made(150, 400).ctypes.data != address


def test_a_view_holds_the_memory() -> None:
    array = made(300, 400)
    address, row = array.ctypes.data, array[7, ::2]
    array[:] = np.arange(400)
    assert not is_output(row)
    del array
    other = made(300, 400)
    other[:] = -1
    assert other.ctypes.data != address
    assert np.array_equal(row, np.arange(0, 400, 2))
    del row
    assert made(300, 400).ctypes.data == address


def test_few_more_than_are_held_at_a_time_are_made() -> None:
    held: list[np.ndarray] = []
    addresses = set[int]()
    for turn in range(200):
        held.append(made(300, 400))
        addresses.add(held[-1].ctypes.data)
        if turn >= 10:
            del held[0]
    assert 11 <= len(addresses) <= 13


def test_those_that_are_held_for_good_are_not_in_the_way() -> None:
    kept = [made(300, 400) for _ in range(KNOWN_BLOCKS + 20)]
    addresses = [made(300, 400).ctypes.data for _ in range(100)]
    assert len(set(addresses)) < 20
    queue = output_memory._queues[len(kept[0].base)]  # type: ignore[arg-type]
    assert len(queue) <= KNOWN_BLOCKS + 1
    assert len({array.ctypes.data for array in kept} | set(addresses)) == len(kept) + len(set(addresses))


def test_what_is_known_is_bounded_and_the_first_size_goes_first() -> None:
    assert KNOWN_BYTES == 512 * 2**20
    sizes = [(40 + 4 * ordinal) * 2**20 for ordinal in range(5)]
    held = [[made(size // 4) for size in sizes] for _ in range(2)]
    queues = [output_memory._queues[len(array.base)] for array in held[0]]  # type: ignore[arg-type]
    assert [len(queue) for queue in queues] == [2, 2, 2, 2, 2]
    made(KEPT_BYTES // 4)
    assert known() <= KNOWN_BYTES
    assert [len(queue) for queue in queues] == [0, 0, 0, 2, 2]


def test_without_memory_all_that_is_free_is_unmapped(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def allocate(size: int) -> mmap.mmap:
        tried.append(known())
        if known():
            raise MemoryError
        return mmap.mmap(-1, size)

    made(300, 400)
    assert known()
    monkeypatch.setattr(output_memory, "_map", allocate)
    assert made(3000, 400).nbytes == 4_800_000
    assert tried == [491_520, 0]


def test_the_memory_of_an_array_is_not_closed() -> None:
    array = made(300, 400)
    with pytest.raises(BufferError, match="as long as the output"):
        array.base.close()  # type: ignore[union-attr]
    array[:] = 1
    assert array.sum() == array.size


def test_memory_that_the_system_does_not_have_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> mmap.mmap:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(output_memory, "_Block", refuse)
    with pytest.raises(MemoryError, match="bytes for an output"):
        made(30_864_000)


def test_threads_never_share_what_they_hold() -> None:
    wrong: list[int] = []

    def work(mark: int) -> None:
        held: list[np.ndarray] = []
        for turn in range(300):
            array = made(200 + turn % 3, 200)
            array[:] = mark
            held.append(array)
            if len(held) > mark % 3:
                oldest = held.pop(0)
                if not (oldest == mark).all():
                    wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_of_calls_are_their_own() -> None:
    graph = "g (float[N, 500] x) => (float[N, 500] y, float[N, 500] z) { y = Neg(x) z = Relu(x) }"
    executable = onnxc.compile(model_from_text(f'<ir_version: 10, opset_import: ["" : 21]> {graph}'))
    results = []
    for number in range(5):
        x = np.full((200, 500), number, np.float32)
        results.append(executable(x))
    for number, (y, z) in enumerate(results):
        assert is_output(y)
        assert (y == -number).all()
        assert (z == number).all()
    kept, results = results[0][1][3], []
    executable(x)
    assert (kept == 0).all()


def filled(outputs: str, nodes: str) -> Executable:
    """What makes arrays of 2 of a shape that is data."""
    graph = f"g (int64[2] s) => ({outputs}) {{ y = ConstantOfShape<value = int32[1] {{2}}>(s) {nodes} }}"
    return onnxc.compile(model_from_text(f'<ir_version: 10, opset_import: ["" : 21]> {graph}'), threads=1)


def test_outputs_whose_sizes_are_data_are_their_own() -> None:
    executable, results = filled("int32[A, B] y", ""), list[np.ndarray]()
    shapes = [(300, 400), (300, 400), (300, 401), (700, 400), (300, 400), (2, 3), (0, 3), (300, 400), (300, 399)]
    for ordinal, shape in enumerate(shapes):
        y = executable(np.array(shape))
        assert (y.shape, y.dtype, y.flags.c_contiguous) == (shape, np.int32, True)
        assert (y == 2).all()
        y[:] = ordinal
        results.append(y)
    for ordinal, (y, shape) in enumerate(zip(results, shapes, strict=True)):
        assert y.shape == shape
        assert (y == ordinal).all()


def test_a_buffer_that_nobody_holds_serves_again() -> None:
    executable, addresses = filled("int32[A, B] y", ""), list[int]()
    for _ in range(8):
        y = executable(np.array([300, 400]))
        assert is_output(y)
        addresses.append(y.ctypes.data)
    assert set(addresses[-3:]) <= set(addresses[:-3])


def test_the_buffer_of_the_last_output_serves_first() -> None:
    """It is in the caches: where an output dies before the next call, all lie in one buffer, also among others."""
    others = [filled("int32[A, B] y", "")(np.array([300, 400])) for _ in range(3)]
    del others
    executable, addresses = filled("int32[A, B] y", ""), set[int]()
    for _ in range(8):
        y = executable(np.array([300, 400]))
        addresses.add(y.ctypes.data)
        del y
    assert len(addresses) == 1


def test_a_view_holds_the_buffer() -> None:
    executable = filled("int32[A, B] y", "")
    y = executable(np.array([300, 400]))
    row = y[7, ::2]
    row[:] = np.arange(200)
    del y
    for _ in range(4):
        executable(np.array([300, 400]))
    assert np.array_equal(row, np.arange(200))


def test_what_is_much_smaller_than_the_buffer_is_copied() -> None:
    executable = filled("int32[A, B] y", "")
    for rows, leaves in [(3000, True), (3000, True), (2500, True), (300, False)]:
        y = executable(np.array([rows, 400]))
        assert isinstance(y.base, output_memory._HeapLease) == leaves
        assert y.shape == (rows, 400)
        assert (y == 2).all()


def test_two_outputs_of_one_value_are_two_arrays() -> None:
    executable = filled("int32[A, B] y, int32[C] z", "one = Constant<value = int64[1] {-1}>() z = Reshape(y, one)")
    for _ in range(3):
        y, z = executable(np.array([300, 400]))
        y[:] = 1
        assert (z == 2).all()
        assert z.shape == (120_000,)


def test_a_block_is_freed_when_the_names_of_its_module_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are at exit, for what the module itself holds."""
    malloc = ctypes.CDLL(None).malloc
    malloc.restype = ctypes.c_void_p
    problems: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", problems.append)
    block = heap.HeapBlock(malloc(ctypes.c_size_t(64)), 64)
    monkeypatch.setattr(heap, "_free", None)
    del block
    assert problems == []
