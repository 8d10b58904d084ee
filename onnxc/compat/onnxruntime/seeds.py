"""The seeds of runs: what `set_seed` chose before a session was made, and which run of the session it is."""

from itertools import count

from onnxc.runtime.random_state import mixed_words

_WORD_BITS, _LONG_WORD = 32, (1 << 64) - 1

_chosen: dict[str, int] = {}
"""What `set_seed` chose last, if it was called: of the process, as in ONNX Runtime."""


def choose_seed(seed: int) -> None:
    """Sessions that are made from now on draw by this seed."""
    _chosen["seed"] = seed & _LONG_WORD


class RunSeeds:
    """The seeds of the runs of a session: each draws other numbers, and so again in another session."""

    def __init__(self) -> None:
        self._seed, self._runs = _chosen.get("seed"), count()

    def next(self) -> int | None:
        """The seed of the next run; None where none was chosen."""
        if self._seed is None:
            return None
        low, high = map(int, mixed_words(self._seed, next(self._runs)))
        return low | high << _WORD_BITS
