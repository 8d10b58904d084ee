"""The table of meanings: the name of a primitive, and the function from arrays to arrays that defines it."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

Arrays = Sequence[np.ndarray]
Attributes = Mapping[str, object]
Meaning = Callable[[Arrays, Attributes], tuple[np.ndarray, ...]]

MEANINGS: dict[str, Meaning] = {}


def meaning(name: str) -> Callable[[Meaning], Meaning]:
    """A decorator that registers a function as the meaning of the primitive `name`.

    Attributes arrive with every size an int and every element type a NumPy dtype. NumPy's floating-point warnings are
    silenced here, for all of them: each meaning says itself what a division by zero gives.
    """

    def register(function: Meaning) -> Meaning:
        assert name not in MEANINGS, name
        MEANINGS[name] = np.errstate(all="ignore")(function)
        return MEANINGS[name]

    return register
