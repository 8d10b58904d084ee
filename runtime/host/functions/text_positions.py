"""Where texts are among others, and among themselves in order."""

from collections.abc import Callable
from itertools import repeat

import numpy as np

from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.prepared import Constants, HostCall, prepared
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.text_codes import coded_texts, of_each_text
from onnxc.runtime.host.values import HostValue, as_texts


@function("text_positions")
def text_positions(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...], keys: string[k]  ->  i64[...], the index of each text among the keys, k where it is none

    The last of equal keys counts.
    """
    return (_lookup_among(as_texts(operands[1]))(as_texts(operands[0])),)


@prepared("text_positions")
def _positions_among(constants: Constants, attributes: Attributes) -> HostCall | None:
    if 1 not in constants:
        return None
    lookup = _lookup_among(as_texts(constants[1]))
    return lambda x, keys: (lookup(x),)


@function("text_ranks")
def text_ranks(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...]  ->  i64[...], the index of each text among the distinct ones in ascending order"""
    x = as_texts(operands[0])
    coded = coded_texts(x.ravel())
    if coded is not None:
        return (coded.codes.astype(np.int64).reshape(x.shape),)
    words = x.ravel().tolist()
    rank_of = {word: rank for rank, word in enumerate(sorted(set(words)))}
    return (np.fromiter(map(rank_of.__getitem__, words), np.int64, len(words)).reshape(x.shape),)


def _lookup_among(keys: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function from texts to the index of each among the keys."""
    index_of, absent = {key: index for index, key in enumerate(keys.tolist())}.get, keys.size

    def indices_of(words: np.ndarray) -> np.ndarray:
        return np.fromiter(map(index_of, words.tolist(), repeat(absent)), np.int64, words.size)

    def lookup(x: np.ndarray) -> np.ndarray:
        return of_each_text(indices_of, x.ravel()).reshape(x.shape)

    return lookup
