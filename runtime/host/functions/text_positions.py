"""Looking up texts."""

from collections.abc import Callable
from itertools import repeat

import numpy as np

from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.prepared import Constants, HostCall, prepared
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.text_codes import of_each_text
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


def _lookup_among(keys: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function from texts to the index of each among the keys."""
    index_of, absent = {key: index for index, key in enumerate(keys.tolist())}.get, keys.size

    def indices_of(words: np.ndarray) -> np.ndarray:
        return np.fromiter(map(index_of, words.tolist(), repeat(absent)), np.int64, words.size)

    def lookup(x: np.ndarray) -> np.ndarray:
        return of_each_text(indices_of, x.ravel()).reshape(x.shape)

    return lookup
