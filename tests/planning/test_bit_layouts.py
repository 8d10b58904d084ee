"""Codes of few bits as kernels read them: words side by side, each block from a word of its own on."""

import numpy as np
import pytest

from onnxc.compiler.planning.bit_layouts import PackedCodes, PackedGroups, PackedRuns


def packed(layout: PackedCodes, codes: np.ndarray) -> np.ndarray:
    out = np.full(layout.shape, 0x55, np.int8)
    layout.pack(codes.astype(np.int8), out)
    return out


def test_a_word_has_neighbours_the_first_in_the_lowest_bits() -> None:
    codes = np.array([[1, 2, 3, 4, 5, 6, 7, -8], [-1, 0, 0, 0, 0, 0, 0, 0]])
    out = packed(PackedCodes(width=4, columns=2, depth=8, bits=4, block=8), codes)
    assert out.view(np.uint32).reshape(1, 1, 4).tolist() == [[[0x87654321, 0x0000000F, 0, 0]]]


def test_blocks_begin_with_words() -> None:
    """Blocks of 10 codes of 4 bits have two words; the last one, of 3, has one."""
    layout = PackedCodes(width=1, columns=1, depth=13, bits=4, block=10)
    out = packed(layout, np.arange(1, 14).reshape(1, 13) % 8)
    assert layout.words == 3
    assert out.view(np.uint32).ravel().tolist() == [0x07654321, 0x21, 0x543]


@pytest.mark.parametrize(("bits", "words"), [(2, [0x1B]), (8, [3, 2, 1, 0])])
def test_words_are_as_wide_as_lanes_or_one_code_of_a_byte(bits: int, words: list[int]) -> None:
    layout = PackedCodes(width=1, columns=1, depth=4, bits=bits, block=4)
    out = packed(layout, np.array([[3, 2, 1, 0]]))
    assert out.view(np.uint32 if bits == 2 else np.uint8).ravel().tolist() == words


def test_the_last_panel_is_filled_up_with_zeros() -> None:
    layout = PackedCodes(width=2, columns=3, depth=2, bits=8, block=2)
    assert packed(layout, np.array([[1, 2], [3, 4], [5, 6]])).tolist() == [
        [[[1], [3]], [[2], [4]]],
        [[[5], [0]], [[6], [0]]],
    ]


def test_each_byte_of_a_word_has_a_code_of_every_group_without_sign() -> None:
    layout = PackedGroups(width=2, columns=1, depth=16, bits=4, block=16)
    out = np.full(layout.shape, 0x55, np.int8)
    layout.pack(np.arange(-8, 8, dtype=np.int8)[None], out)
    assert layout.words == 2
    # Codes 0 to 3 and 4 to 7, then 8 to 11 and 12 to 15; and a column that is filled up.
    words = [[[0x40, 0x51, 0x62, 0x73], [0] * 4], [[0xC8, 0xD9, 0xEA, 0xFB], [0] * 4]]
    assert out.view(np.uint8).tolist() == [words]


@pytest.mark.parametrize(
    ("bits", "words"), [(2, [[0b11_10_01_00] * 4]), (8, [[0x7E] * 4, [0x7F] * 4, [0x80] * 4, [0x81] * 4])]
)
def test_a_word_has_as_many_groups_as_a_byte_has_codes(bits: int, words: list[list[int]]) -> None:
    layout = PackedGroups(width=1, columns=1, depth=16, bits=bits, block=16)
    out = np.full(layout.shape, 0x55, np.int8)
    layout.pack(np.repeat(np.arange(-2, 2, dtype=np.int8), 4)[None], out)
    assert out.view(np.uint8).tolist() == [[[word] for word in words]]


def runs(layout: PackedRuns, codes: np.ndarray) -> np.ndarray:
    out = np.full(layout.shape, 0x55, np.int8)
    layout.pack(codes.astype(np.int8), out)
    return out.view(np.uint8)


def test_a_byte_has_a_code_of_each_run_of_a_step() -> None:
    layout = PackedRuns(run=2, width=2, columns=1, depth=4, bits=4, block=4)
    assert runs(layout, np.array([[1, 2, -1, -8]])).tolist() == [[[0xF1, 0], [0x82, 0]]]


def test_runs_are_of_one_block_and_the_last_step_is_filled_up_with_zeros() -> None:
    """Blocks of 3 codes are two runs each, the last block, of 1, is one; a step is four runs of 2 bits."""
    layout = PackedRuns(run=2, width=1, columns=1, depth=7, bits=2, block=3)
    assert (layout.steps, layout.shape) == (2, (2, 2, 1))
    out = runs(layout, np.array([[1, -2, 1, -1, 1, -2, -1]]))
    assert out.ravel().tolist() == [0b10_11_01_01, 0b00_01_00_10, 0b11, 0]


def test_columns_are_filled_up_with_zeros_and_bytes_stay() -> None:
    layout = PackedRuns(run=2, width=3, columns=2, depth=3, bits=8, block=4)
    assert runs(layout, np.array([[1, 2, 3], [-1, 5, 6]])).tolist() == [
        [[1, 255, 0], [2, 5, 0]],
        [[3, 6, 0], [0, 0, 0]],
    ]


@pytest.mark.parametrize(("columns", "depth"), [(0, 4), (3, 0)])
def test_nothing_takes_no_memory(columns: int, depth: int) -> None:
    layout = PackedRuns(run=2, width=columns, columns=columns, depth=depth, bits=4, block=2)
    assert runs(layout, np.zeros((columns, depth))).size == 0
