"""The random state of a call: what a seed becomes, and what the input is called that has it."""

import numpy as np

from onnxc.runtime.errors import InputError

__all__ = ["RANDOM_STATE", "mixed_words", "seed_words"]

RANDOM_STATE = "onnxc:random_state"
"""The input of the random state, u32[2], behind those of the model; among the variables of a trainer too."""

_WORD, _LONG_WORD = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_NEXT = 0x9E3779B97F4A7C15


def seed_words(seed: object) -> np.ndarray:
    """u32[2], never zeros, which stand for no seed; InputError for what is no integer from 0 to 2^64 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= _LONG_WORD:
        raise InputError(f"seed is {seed!r}, expected an integer from 0 to 2^64 - 1", code="seed-range")
    words = mixed_words(int(seed))
    # One seed of all has zeros for words: it takes those of another.
    return words if words.any() else mixed_words(0)


def mixed_words(*integers: int) -> np.ndarray:
    """u32[2]: words that look random, of numbers of 64 bits; of one alone, other words for each.

    Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014, mix64.
    """
    mixed = 0
    for integer in integers:
        mixed = mixed + integer + _NEXT & _LONG_WORD
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ mixed >> shift) * factor & _LONG_WORD
        mixed ^= mixed >> 31
    return np.array([mixed & _WORD, mixed >> 32], np.uint32)
