"""Random bits as a function of a seed and a counter, in the terms of any code generator.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, Philox4x32-10.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from onnxc.runtime.records import record

Word = TypeVar("Word")

ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


@record
class WordArithmetic(Generic[Word]):
    """Arithmetic of 32-bit words that are held in 64 bits.

    times: the 64-bit product with a constant. low, high: its halves. mixed: exclusive or of two words and a constant.
    """

    times: Callable[[Word, int], Word]
    low: Callable[[Word], Word]
    high: Callable[[Word], Word]
    mixed: Callable[[Word, Word, int], Word]


def philox(counter: Word, zero: Word, seed: int, arithmetic: WordArithmetic[Word]) -> Word:
    """The first word for a 64-bit counter, under the 64-bit key `seed`."""
    low, high, mixed = arithmetic.low, arithmetic.high, arithmetic.mixed
    words = [low(counter), high(counter), zero, zero]
    key = [seed & _LOW, seed >> 32 & _LOW]
    for _ in range(ROUNDS):
        first, second = (arithmetic.times(words[word], m) for word, m in zip((0, 2), _MULTIPLIERS, strict=True))
        words = [
            mixed(high(second), words[1], key[0]),
            low(second),
            mixed(high(first), words[3], key[1]),
            low(first),
        ]
        key = [(part + step) & _LOW for part, step in zip(key, _WEYL, strict=True)]
    return words[0]
