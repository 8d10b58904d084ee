"""A decoder: a compiled model whose caches stay in place, from which sessions are made."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnxc.runtime.arrays import describe
from onnxc.runtime.artifact import Artifact, write_artifact
from onnxc.runtime.decoding.arguments import as_integer, as_integers, expect_tokens
from onnxc.runtime.decoding.cache_memory import MakeCacheMemory
from onnxc.runtime.decoding.description import Description
from onnxc.runtime.decoding.sampling import Sampler, SamplingOptions
from onnxc.runtime.decoding.session import Session
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.program import JsonValue
from onnxc.runtime.signature import TensorInfo

__all__ = ["Decoder"]

ROOM = 256
"""For so many new tokens there is memory from the start, if so many are asked for: most answers end before."""


class Decoder:
    """A model that generates: `generate` for the tokens behind a prompt, `session` for all else.

    It may be used from any number of threads at once.
    """

    def __init__(
        self,
        executable: Executable,
        sampler: Executable,
        description: Description,
        make_memory: MakeCacheMemory,
        artifact: Artifact,
        max_length: int | None = None,
    ) -> None:
        self._executable, self._sampler, self._description = executable, sampler, description
        self._make_memory, self._artifact = make_memory, artifact
        limits = (None if max_length is None else as_integer("max_length", max_length, 1), description.longest)
        self._max_length = min((limit for limit in limits if limit is not None), default=None)

    def __repr__(self) -> str:
        caches = len(self._description.caches)
        return f"<Decoder of {self.vocabulary} tokens, {caches} caches, at most {self.max_length} positions>"

    @property
    def vocabulary(self) -> int | None:
        """How many tokens there are, None where the model does not say."""
        return self._description.vocabulary

    @property
    def max_length(self) -> int | None:
        """The most tokens of a sequence, None where neither the model nor the caller says."""
        return self._max_length

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs that a session must be given, beside tokens and what follows from them."""
        return tuple(info for info in self._executable.inputs if info.name in self._description.others)

    def session(self, batch: int = 1, capacity: int = 0, inputs: Mapping[str, object] | None = None) -> Session:
        """A session without tokens, for `batch` sequences at once.

        capacity: for how many tokens there is memory from the start; it grows when it is full. inputs: by name, what
        the model reads beside the tokens, such as the states of an encoder.
        """
        batch_size, room = as_integer("batch", batch, 1), as_integer("capacity", capacity, 0)
        given = {} if inputs is None else inputs
        return Session(
            self._executable, self._description, self._make_memory, batch_size, room, self._max_length, given
        )

    def sampler(
        self,
        *,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
    ) -> Sampler:
        """What picks tokens from logits: `pick(logits, seen)`. The options are those of `generate`."""
        return self.sampler_with(SamplingOptions(temperature, top_k, top_p, repetition_penalty, seed))

    def sampler_with(self, options: SamplingOptions) -> Sampler:
        """As `sampler`, for options that are checked already."""
        return Sampler(self._sampler, options)

    def generate(
        self,
        prompt: Sequence[int] | np.ndarray,
        max_new_tokens: int = 20,
        *,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop: Collection[int] = (),
        inputs: Mapping[str, object] | None = None,
    ) -> Iterator[int]:
        """The tokens behind a prompt, each as soon as it is there, in a session of its own.

        temperature: 0 takes the likeliest token, the first of equals. top_k: how many of the likeliest may be drawn, 0
        for all. top_p: of these the likeliest, until their probabilities add up to so much. repetition_penalty: above 1
        makes tokens less likely that were there before. seed: the same one gives the same tokens. stop: tokens that
        end it, which are not given. inputs: as for `session`.

        Raises InputError; what can be checked before the first token is checked when this is called.
        """
        picks = self.sampler(
            temperature=temperature, top_k=top_k, top_p=top_p, repetition_penalty=repetition_penalty, seed=seed
        )
        return self.generate_with(picks, prompt, max_new_tokens, stop, inputs)

    def generate_with(
        self,
        sampler: Sampler,
        prompt: Sequence[int] | np.ndarray,
        max_new_tokens: int,
        stop: Collection[int] = (),
        inputs: Mapping[str, object] | None = None,
    ) -> Iterator[int]:
        """As `generate`, the tokens being picked by `sampler`."""
        tokens = _prompt(prompt)
        expect_tokens(tokens, self.vocabulary)
        count, ends = as_integer("max_new_tokens", max_new_tokens, 1), _stop_tokens(stop)
        # The last token is given, not fed.
        total = tokens.size + count - 1
        if self._max_length is not None and total > self._max_length:
            message = (
                f"a prompt of {tokens.size} tokens and {count} new ones, and the model has {self._max_length} positions"
            )
            raise InputError(message, code="sequence-length")
        session = self.session(capacity=min(total, tokens.size + ROOM), inputs=inputs)
        return _generated(session, sampler, tokens, count, ends)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file that `onnxc.load_decoder` reads; the same bytes for the same model and options."""
        self._artifact = replace(self._artifact, file=write_artifact(self._artifact, path))

    def report(self) -> JsonValue:
        """What was compiled, as `Executable.report` has it."""
        return self._executable.report()


def _generated(
    session: Session, sampler: Sampler, prompt: np.ndarray, count: int, stop: frozenset[int]
) -> Iterator[int]:
    seen, fed = prompt, prompt
    for left in range(count, 0, -1):
        token = sampler.pick(session.feed(fed), seen.reshape(1, -1))
        if int(token[0]) in stop:
            return
        yield int(token[0])
        if left > 1:
            fed, seen = token, np.append(seen, token)


def _prompt(prompt: object) -> np.ndarray:
    """The prompt as i64[count], of one token at least."""
    tokens = as_integers(prompt, "prompt", "a sequence of tokens")
    if tokens.ndim != 1 or not tokens.size:
        message = f"prompt is {describe(tokens)}, expected a sequence of at least one token"
        raise InputError(message, code="session-tokens")
    return tokens


def _stop_tokens(stop: object) -> frozenset[int]:
    """The tokens that end a sequence."""
    if not isinstance(stop, Collection) or not all(isinstance(token, int | np.integer) for token in stop):
        raise InputError(f"stop is {stop!r:.100}, expected a collection of tokens", code="session-option")
    return frozenset(map(int, stop))
