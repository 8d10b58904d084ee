"""The weights of an image: once in each layout, and in memory once when they come from a file."""

from mmap import PAGESIZE
from pathlib import Path

import numpy as np

from onnxc.compiler.codegen_host.weights import ALIGNMENT_BYTES, WeightBlock
from onnxc.compiler.planning.layouts import Permuted
from onnxc.runtime.files.mapped_file import map_file
from tests.runtime.files.resident_bytes import resident_bytes


def test_a_constant_lies_once_in_each_layout_and_keeps_its_values_in_the_file(tmp_path: Path) -> None:
    words = np.arange(1 << 20, dtype=np.float32).reshape(1024, -1)
    words.tofile(tmp_path / "words.bin")
    with (tmp_path / "words.bin").open("rb") as file:
        array = np.frombuffer(map_file(file.fileno()), np.float32).reshape(words.shape)
    block = WeightBlock()
    small, plain, turned = (
        block.add(np.arange(3, dtype=np.int8)),
        block.add(array),
        block.add(array, Permuted((1, 0), array.shape)),
    )
    assert block.add(array) == plain
    assert {offset % ALIGNMENT_BYTES for offset in (small, plain, turned)} == {0}
    packed = block.bytes()
    assert resident_bytes(array) <= PAGESIZE
    for offset, expected in ((plain, words), (turned, words.T)):
        written = packed[offset : offset + words.nbytes].view(np.float32)
        np.testing.assert_array_equal(written, expected.reshape(-1))
    np.testing.assert_array_equal(array, words)
