"""Random bits that count: each element is a function of the seed and its own index, so no order or layout shows."""

import math

import numpy as np

from onnxc.runtime.host.attributes import integer, integers
from onnxc.runtime.host.registry import Arrays, Attributes, meaning

_LOW_WORD = np.uint64(0xFFFFFFFF)
_WORD_BITS = np.uint64(32)
# The multipliers of the even words and the steps of the key.
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


@meaning("random_bits")
def random_bits(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """->  u32[*shape], element i in row-major order being the first word of Philox4x32-10 of counter i under key seed.

    The counter is (low word of i, high word of i, 0, 0), the key the two words of seed; Triton's `randint` is the same.
    Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011.
    """
    shape, seed = integers(attributes, "shape"), integer(attributes, "seed")
    index = np.arange(math.prod(shape), dtype=np.uint64)
    zero = np.zeros_like(index)
    words = (index & _LOW_WORD, index >> _WORD_BITS, zero, zero)
    key = (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)
    for _ in range(_ROUNDS):
        first, second = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = (
            second >> _WORD_BITS ^ words[1] ^ np.uint64(key[0]),
            second & _LOW_WORD,
            first >> _WORD_BITS ^ words[3] ^ np.uint64(key[1]),
            first & _LOW_WORD,
        )
        key = (key[0] + _KEY_STEPS[0] & 0xFFFFFFFF, key[1] + _KEY_STEPS[1] & 0xFFFFFFFF)
    return (words[0].astype(np.uint32).reshape(shape),)
