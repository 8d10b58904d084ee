"""A session: a sequence, or several of equal length, that grows by what is fed, with its caches in place."""

from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np

from onnxc.runtime.arrays import describe
from onnxc.runtime.decoding.arguments import as_integer, as_integers, expect_tokens
from onnxc.runtime.decoding.cache_memory import CacheMemory, MakeCacheMemory
from onnxc.runtime.decoding.description import Description
from onnxc.runtime.dtypes import DType
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable

__all__ = ["Session"]


class Session:
    """Sequences in the memory of their caches; each call of `feed` makes them longer.

    Sessions of one decoder know nothing of each other. Calls of one session come one after the other, also where they
    are made from several threads; one that fails has changed nothing.
    """

    def __init__(
        self,
        executable: Executable,
        description: Description,
        make_memory: MakeCacheMemory,
        batch: int,
        capacity: int,
        longest: int | None,
        inputs: Mapping[str, object],
    ) -> None:
        self._executable, self._description, self._longest = executable, description, longest
        self._batch, self._length = batch, 0
        infos = {info.name: info for info in executable.inputs}
        self._infos, self._inputs = infos, _other_inputs(description, inputs)
        caches = [infos[name] for name in description.caches]
        self._memory: CacheMemory = make_memory(caches, description.caches, batch, capacity)
        # Which of the tokens count; behind them there is room.
        self._mask = np.zeros((batch, self._memory.capacity), bool)
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<Session of {self._batch} x {self._length} tokens, room for {self._memory.capacity}>"

    @property
    def batch(self) -> int:
        """How many sequences there are."""
        return self._batch

    @property
    def length(self) -> int:
        """How many tokens each of them has, padding included."""
        return self._length

    @property
    def capacity(self) -> int:
        """For how many tokens there is memory."""
        return self._memory.capacity

    @property
    def cache_bytes(self) -> int:
        """The memory of all caches."""
        return self._memory.nbytes

    def feed(self, tokens: object, mask: object = None) -> np.ndarray:
        """The logits behind the last of the tokens, f32[batch, vocabulary], which go behind those there are.

        tokens: integers [batch, count], or [count] for one sequence. mask: for each whether it counts; prompts of
        different lengths are padded on their left side, and 0 stands for the padding.

        Raises InputError for no tokens, one that is not in the vocabulary and more than the model has positions for.
        """
        with self._lock:
            return self._feed(self._checked(tokens), mask)

    def truncate(self, length: int) -> None:
        """Forgets what stands behind the first `length` tokens. It takes no time, as memory stays."""
        with self._lock:
            if as_integer("length", length, 0) > self._length:
                message = f"length is {length}, and the session has {self._length} tokens"
                raise InputError(message, code="session-option")
            self._length = length

    def reorder(self, rows: Sequence[int] | np.ndarray) -> None:
        """Sequence k becomes a copy of sequence `rows[k]`: what a beam search keeps after each step."""
        with self._lock:
            expected = f"{self._batch} indices of sequences, below {self._batch}"
            indices = as_integers(rows, "rows", expected)
            if indices.shape != (self._batch,) or not all(0 <= row < self._batch for row in indices):
                raise InputError(f"rows is {indices.tolist()}, expected {expected}", code="session-option")
            self._memory.reorder(indices, self._length)
            self._mask = self._mask[indices]

    def _feed(self, tokens: np.ndarray, mask: object) -> np.ndarray:
        count = tokens.shape[1]
        total = self._length + count
        if self._longest is not None and total > self._longest:
            message = f"{total} tokens, {count} of them new, and the model has {self._longest} positions"
            raise InputError(message, code="sequence-length")
        counts = self._mask_of(mask, count)
        self._memory.reserve(total, self._length, self._longest)
        masked = self._masked(counts, total)
        values = self._made_inputs(tokens, masked)
        values |= zip(self._description.caches, self._memory.values, strict=True)
        outputs = self._executable.run_to_host(values)
        logits = outputs[self._description.logits]
        assert isinstance(logits, np.ndarray), logits
        self._length = total
        return np.asarray(logits, np.float32)

    def _masked(self, counts: np.ndarray | bool, total: int) -> np.ndarray:
        """Which of all tokens count, the new ones with them: a view of what is kept."""
        if total > self._mask.shape[1]:
            room = np.zeros((self._batch, self._memory.capacity), bool)
            room[:, : self._length] = self._mask[:, : self._length]
            self._mask = room
        self._mask[:, self._length : total] = counts
        return self._mask[:, :total]

    def _made_inputs(self, tokens: np.ndarray, masked: np.ndarray) -> dict[str, object]:
        """The inputs that follow from the tokens and which of them count, and those of the session."""
        roles, count = self._description, tokens.shape[1]
        made = {**self._inputs, roles.tokens: tokens}
        made[roles.length] = np.empty((*(self._length,) * roles.lengths, 0), np.uint8)
        if roles.mask:
            made[roles.mask] = masked.astype(self._dtype(roles.mask))
        if roles.positions:
            positions = np.maximum(np.cumsum(masked, axis=1)[:, -count:] - 1, 0)
            made[roles.positions] = positions.astype(self._dtype(roles.positions))
        if roles.row_positions:
            made[roles.row_positions] = np.arange(self._length, self._length + count).astype(
                self._dtype(roles.row_positions)
            )
        return made

    def _dtype(self, name: str) -> DType:
        dtype = self._infos[name].dtype
        assert dtype is not None, name
        return dtype

    def _checked(self, tokens: object) -> np.ndarray:
        """The tokens as [batch, count] of the type that the model reads."""
        expected = f"integers [{self._batch}, count]"
        given = as_integers(tokens, "tokens", expected)
        if given.ndim < 2 and self._batch in (1, given.size):
            given = given.reshape(self._batch, -1)
        if given.ndim != 2 or given.shape[0] != self._batch or not given.size:
            raise InputError(f"tokens is {describe(given)}, expected {expected}, at least 1", code="session-tokens")
        expect_tokens(given, self._description.vocabulary)
        return np.ascontiguousarray(given, self._dtype(self._description.tokens))

    def _mask_of(self, mask: object, count: int) -> np.ndarray | bool:
        """Which of the new tokens count, True for all of them."""
        if mask is None:
            return True
        if not self._description.mask:
            raise InputError("mask was given, and the model has no attention_mask", code="session-mask")
        expected = f"0 or 1 for each of [{self._batch}, {count}] tokens"
        given = as_integers(mask, "mask", expected)
        if given.shape != (self._batch, count):
            raise InputError(f"mask is {describe(given)}, expected {expected}", code="session-mask")
        counts: np.ndarray = given != 0
        return counts


def _other_inputs(description: Description, inputs: object) -> dict[str, object]:
    """The inputs that the caller gives once for a session, all that there are and no others."""
    if not isinstance(inputs, Mapping):
        raise InputError(f"inputs is {inputs!r:.100}, expected arrays by name", code="session-inputs")
    missing = [name for name in description.others if name not in inputs]
    unknown = [name for name in inputs if name not in description.others]
    if missing or unknown:
        parts = [
            f"{word} {', '.join(names)}" for word, names in (("lacks", missing), ("has unknown", unknown)) if names
        ]
        raise InputError(f"what a session is given {' and '.join(parts)}", code="session-inputs")
    return dict(inputs)
