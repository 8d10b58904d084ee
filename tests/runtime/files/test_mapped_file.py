"""Files that are read where they are: their pages are given back, and what was read of them stays as it is."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from onnxc.runtime.files.mapped_file import LEAST_BYTES, map_file, release_pages
from tests.runtime.files.resident_bytes import resident_bytes

WORDS = np.arange(LEAST_BYTES, dtype=np.float32)


def _mapped(folder: Path) -> memoryview:
    path = folder / "words.bin"
    WORDS.tofile(path)
    with path.open("rb") as file:
        return map_file(file.fileno())


@pytest.mark.parametrize("begin", [0, 1, 1023, 5000])
def test_pages_within_an_array_are_given_back_and_read_again(begin: int, tmp_path: Path) -> None:
    array = np.frombuffer(_mapped(tmp_path), np.float32)[begin:]
    assert array.sum() > 0
    before = resident_bytes(array)
    release_pages(array)
    assert before - resident_bytes(array) >= array.nbytes - 2 * mmap.PAGESIZE
    np.testing.assert_array_equal(array, WORDS[begin:])


def test_nothing_is_done_with_what_is_no_file_or_not_in_order(tmp_path: Path) -> None:
    array = np.frombuffer(_mapped(tmp_path), np.float32).reshape(1024, -1)
    assert array.sum() > 0
    before = resident_bytes(array)
    for view in (array.T, array[:, :1000], array[:1], array.astype(np.float64), array[:0]):
        release_pages(view)
    assert resident_bytes(array) == before
    memory = mmap.mmap(-1, WORDS.nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    anonymous = np.frombuffer(memory, np.float32)
    anonymous[:] = WORDS
    release_pages(anonymous)
    np.testing.assert_array_equal(anonymous, WORDS)
