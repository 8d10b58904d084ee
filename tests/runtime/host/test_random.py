"""random_bits against Philox4x32-10 in Python's integers, and against the published vector."""

import numpy as np
import pytest

from onnxc.runtime.host import MEANINGS


def philox(index: int, seed: int) -> int:
    words, key = [index & 0xFFFFFFFF, index >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            (second >> 32) ^ words[1] ^ key[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ words[3] ^ key[1],
            first & 0xFFFFFFFF,
        ]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return words[0]


def bits(shape: tuple[int, ...], seed: int) -> np.ndarray:
    (result,) = MEANINGS["random_bits"]([], {"shape": shape, "seed": seed})
    assert (type(result), result.dtype, result.shape) == (np.ndarray, np.dtype(np.uint32), shape)
    return result


def test_the_published_vector() -> None:
    # Random123, kat_vectors: philox4x32 10, counter and key all zero.
    assert int(bits((), 0)) == 0x6627E8D5


@pytest.mark.parametrize("seed", [0, 1, -1, 1 << 40, (1 << 64) - 1])
def test_each_element_is_philox_of_its_index(seed: int) -> None:
    assert bits((20,), seed).tolist() == [philox(index, seed) for index in range(20)]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (4, 0), (2, 3, 4)], ids=str)
def test_an_element_depends_on_its_row_major_index_alone(shape: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(bits(shape, 9).reshape(-1), bits((30,), 9)[: np.prod(shape, dtype=int)])


def test_bits_are_even() -> None:
    sample = bits((100000,), 5)
    share = [((sample >> np.uint32(bit)) & 1).mean() for bit in range(32)]
    assert max(abs(np.array(share) - 0.5)) < 0.01
