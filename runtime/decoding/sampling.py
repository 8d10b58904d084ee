"""What picks the next token: options that are checked once, and the native code that draws by them."""

import math
import random
from dataclasses import dataclass

import numpy as np

from onnxc.runtime.arrays import import_array
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable

__all__ = ["Sampler", "SamplingOptions"]

SEEN_MULTIPLE = 64
"""Tokens that were seen are passed in so many, the first again for those that are too few: calls of a shape that was
there before take 10 microseconds in place of 60."""


@dataclass(frozen=True)
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
            ("temperature", _is_number(self.temperature) and self.temperature >= 0, "a number of at least 0"),
            ("top_k", _is_integer(self.top_k) and 0 <= self.top_k < 1 << 63, "an integer of at least 0"),
            ("top_p", _is_number(self.top_p) and 0 < self.top_p <= 1, "a number above 0, at most 1"),
            ("repetition_penalty", _is_number(penalty) and penalty > 0, "a number above 0"),
            ("seed", _is_integer(self.seed), "an integer"),
        ):
            if not holds:
                message = f"{name} is {getattr(self, name)!r}, expected {expected}"
                raise InputError(message, code="sampling-option")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


class Sampler:
    """Picks tokens by options; the same seed gives the same tokens for the same logits."""

    def __init__(self, executable: Executable, options: SamplingOptions) -> None:
        self._executable, self._options = executable, options
        self._random = random.Random(options.seed)
        temperature, penalty = np.float32(options.temperature), np.float32(options.repetition_penalty)
        # A temperature that f32 has no number for is the smallest: 0 would mean another thing.
        if options.temperature and not temperature:
            temperature = np.finfo(np.float32).tiny
        self._temperature, self._penalty = temperature, penalty
        self._top_k, self._top_p = np.int64(options.top_k), np.float64(options.top_p)

    def pick(self, logits: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
        """The next token of each row, i64[batch]; `seen` are the tokens there were, i64[batch, count].

        Raises InputError where logits are not numbers that can be drawn from.
        """
        logits = import_array(logits, np.dtype(np.float32), "logits", "f32[batch, vocabulary]")
        batch = logits.shape[0] if logits.ndim else 0
        if seen is None or self._penalty == 1 or not seen.size:
            seen = np.empty((batch, 0), np.int64)
        uniform = np.array([self._random.random() for _ in range(batch)]).reshape(batch, 1)
        tokens = self._executable(
            logits, self._temperature, self._top_k, self._top_p, self._penalty, _padded(seen), uniform
        )
        assert isinstance(tokens, np.ndarray), tokens
        if (tokens < 0).any():
            message = "no token can be drawn: the logits are not finite"
            raise InputError(message, code="logits-not-finite")
        return tokens


def _padded(seen: np.ndarray) -> np.ndarray:
    """The tokens and the first of them again, as many as make a multiple."""
    missing = -seen.shape[1] % SEEN_MULTIPLE
    if not missing or not seen.shape[1]:
        return np.ascontiguousarray(seen, np.int64)
    return np.concatenate((seen, np.repeat(seen[:, :1], missing, axis=1)), axis=1).astype(np.int64)
