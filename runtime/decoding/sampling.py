"""What picks the next token: options that are checked once, and the native code that draws by them."""

import random

import numpy as np

from onnxc.runtime.arrays import describe, import_array
from onnxc.runtime.decoding.arguments import as_integers, expect_tokens
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.records import record

__all__ = ["Sampler", "SamplingOptions"]

SEEN_MULTIPLE = 64
"""Tokens that were seen are passed in so many, the first again for those that are too few: calls of a shape that was
there before take 10 microseconds in place of 60."""


SMALLEST, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


@record
class SamplingOptions:
    """How tokens are picked; each is checked.

    temperature: 0 takes the likeliest token, the first of equals. top_k: how many of the likeliest may be drawn, and
    those as likely as the last of them; 0 for all. top_p: of those the likeliest, until their probabilities add up to
    so much. repetition_penalty: tokens that were there before are made less likely by this factor of their logits, as
    in CTRL (Keskar et al., 2019). seed: where the random numbers begin.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        penalty = self.repetition_penalty
        for name, holds, expected in (
            ("temperature", _is_number(self.temperature) and self.temperature >= 0, "a number from 0 to 3.4e38"),
            ("top_k", _is_integer(self.top_k) and 0 <= self.top_k < 1 << 63, "an integer of at least 0"),
            ("top_p", _is_number(self.top_p) and 0 < self.top_p <= 1, "a number above 0, at most 1"),
            ("repetition_penalty", _is_number(penalty) and penalty > 0, "a number above 0, at most 3.4e38"),
            ("seed", _is_integer(self.seed), "an integer"),
        ):
            if not holds:
                message = f"{name} is {getattr(self, name)!r}, expected {expected}"
                raise InputError(message, code="sampling-option")


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    # Integers of Python's may be too large for a float.
    return bool(-LARGEST <= value <= LARGEST)


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _in_f32(value: float) -> np.float32:
    """The number in f32; one too small for it is the smallest that is not 0, which would mean another thing."""
    return np.float32(max(value, SMALLEST) if value else 0)


class Sampler:
    """Picks tokens by options; the same seed gives the same tokens for the same logits."""

    def __init__(self, executable: Executable, options: SamplingOptions) -> None:
        self._executable, self._options = executable, options
        self._random = random.Random(int(options.seed))
        self._temperature, self._penalty = _in_f32(options.temperature), _in_f32(options.repetition_penalty)
        self._top_k, self._top_p = np.int64(options.top_k), np.float64(options.top_p)

    def pick(self, logits: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
        """The next token of each row, i64[batch]; `seen` are the tokens there were, i64[batch, count].

        Raises InputError where logits are not numbers that can be drawn from.
        """
        logits = import_array(logits, np.dtype(np.float32), "logits", "f32[batch, vocabulary]")
        batch = logits.shape[0] if logits.ndim else 0
        before = np.empty((batch, 0), np.int64) if seen is None or self._penalty == 1 else _checked(seen, logits)
        uniform = np.array([self._random.random() for _ in range(batch)]).reshape(batch, 1)
        tokens = self._executable(
            logits, self._temperature, self._top_k, self._top_p, self._penalty, _padded(before), uniform
        )
        assert isinstance(tokens, np.ndarray), tokens
        if (tokens < 0).any():
            message = "no token can be drawn: the logits are not finite"
            raise InputError(message, code="logits-not-finite")
        return tokens


def _checked(seen: object, logits: np.ndarray) -> np.ndarray:
    """The tokens that were seen, for each row of the logits as many, all of the vocabulary."""
    expected = f"tokens [{logits.shape[0]}, count]"
    tokens = as_integers(seen, "seen", expected)
    if tokens.ndim != 2 or len(tokens) != len(logits):
        raise InputError(f"seen is {describe(tokens)}, expected {expected}", code="session-tokens")
    if tokens.size:
        expect_tokens(tokens, logits.shape[1])
    return tokens


def _padded(seen: np.ndarray) -> np.ndarray:
    """The tokens and the first of them again, as many as make a multiple."""
    missing = -seen.shape[1] % SEEN_MULTIPLE
    if not missing or not seen.shape[1]:
        return np.ascontiguousarray(seen, np.int64)
    return np.concatenate((seen, np.repeat(seen[:, :1], missing, axis=1)), axis=1).astype(np.int64)
