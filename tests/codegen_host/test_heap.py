"""Buffers of the heap grow, keep what is asked, and lie in huge pages where they are large."""

import ctypes
import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from onnxc.compiler.codegen_host.heap import GROW, heap_functions
from onnxc.compiler.planning.place_buffers import ALIGNMENT_BYTES
from onnxc.runtime.cpu import HUGE_PAGE_BYTES
from tests.codegen_host.native import load, module

Grow = Callable[..., int]


@pytest.fixture(scope="module")
def grow() -> Grow:
    return load(module(*heap_functions()), [GROW]).function(GROW, 3)


@pytest.fixture
def words() -> Iterator[np.ndarray]:
    """The address and the bytes of a buffer, none at first."""
    buffer = np.zeros(2, np.int64)
    yield buffer
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    free(int(buffer[0]))


def elements(words: np.ndarray, count: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * count).from_address(int(words[0])), np.uint8)


def flags_at(address: int) -> list[str]:
    """What the kernel knows of the mapping in which an address lies."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first:
            start, stop = (int(bound, 16) for bound in first.split("-"))
            inside = start <= address < stop
        elif inside and first == "VmFlags:":
            return rest
    return []


@pytest.mark.parametrize("nbytes", [1, 63, 64, 65, HUGE_PAGE_BYTES - 64])
def test_small_buffers_lie_on_cache_lines(grow: Grow, words: np.ndarray, nbytes: int) -> None:
    assert grow(words.ctypes.data, nbytes, 0) == 0
    address, capacity = map(int, words)
    assert address % ALIGNMENT_BYTES == 0
    assert capacity == -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


@pytest.mark.parametrize(
    "nbytes", [HUGE_PAGE_BYTES - 63, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1, 7 * HUGE_PAGE_BYTES + 100]
)
def test_large_buffers_lie_in_huge_pages_and_are_no_larger_for_them(grow: Grow, words: np.ndarray, nbytes: int) -> None:
    assert grow(words.ctypes.data, nbytes, 0) == 0
    address, capacity = map(int, words)
    assert address % HUGE_PAGE_BYTES == 0
    assert capacity == -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    if hasattr(mmap, "MADV_HUGEPAGE") and Path("/sys/kernel/mm/transparent_hugepage").exists():
        assert "hg" in flags_at(address)


def test_what_is_kept_goes_along_from_small_pages_to_huge_ones(grow: Grow, words: np.ndarray) -> None:
    assert grow(words.ctypes.data, 100_000, 0) == 0
    elements(words, 100_000)[:] = np.arange(100_000) % 251
    assert grow(words.ctypes.data, 3 * HUGE_PAGE_BYTES, 99_999) == 0
    elements(words, 3 * HUGE_PAGE_BYTES)[99_999:] = 7
    assert grow(words.ctypes.data, 3 * HUGE_PAGE_BYTES + 64, 3 * HUGE_PAGE_BYTES) == 0
    assert words[1] == 9 * HUGE_PAGE_BYTES // 2
    assert (elements(words, 99_999) == np.arange(99_999) % 251).all()
    assert (elements(words, 3 * HUGE_PAGE_BYTES)[99_999:] == 7).all()
    elements(words, int(words[1]))[-1] = 1


def test_a_buffer_for_which_there_is_no_memory_stays_as_it_was(grow: Grow, words: np.ndarray) -> None:
    assert grow(words.ctypes.data, 10, 0) == 0
    before = words.copy()
    assert grow(words.ctypes.data, 1 << 62, 10) == 1
    assert (words == before).all()
