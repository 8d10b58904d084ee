"""What a rank knows of the others: who has failed, died, ended or gone silent, and which error that is for a call.

Nothing here reads a clock or a socket: `watch.py` says what came and when.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from threading import Lock

from onnxc.runtime.errors import DeviceError, InputError, ModelError, OnnxcError, UnsupportedError
from onnxc.runtime.records import record

__all__ = ["HEARTBEAT", "Failure", "Health", "RankFailed", "failure_of", "farewell"]

HEARTBEAT, BYE = b"", b"bye "

MOST_TEXT = 10_000
"""Characters of an error that are sent on: enough for any of ours, and a small part of the buffer of a socket."""

_KINDS: Mapping[str, type[OnnxcError]] = {
    kind.__name__: kind for kind in (DeviceError, InputError, ModelError, UnsupportedError)
}


@record
class Failure:
    """Why a call cannot be completed, as it is told to all ranks; `call` is None for what ends all calls."""

    call: int | None
    kind: str
    code: str
    text: str

    def error(self) -> OnnxcError:
        return _KINDS[self.kind](self.text, code=self.code)

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def farewell(calls: int) -> bytes:
    """What a rank says that ends after so many calls."""
    return BYE + str(calls).encode()


def failure_of(call: int, problem: OnnxcError) -> Failure:
    """What the others are told of an error."""
    kind = next((each.__name__ for each in type(problem).__mro__ if each.__name__ in _KINDS), "DeviceError")
    return Failure(call, kind, problem.code, str(problem)[:MOST_TEXT])


class RankFailed(DeviceError):
    """What ends a call of this rank because of a failure that is not its own."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text, code=failure.code)
        self.failure = failure


class Health:
    """The state of the other ranks, which are called `names`; silent for `limit_s` counts as stalled."""

    def __init__(self, names: Mapping[int, str], limit_s: float, now: float) -> None:
        self._names, self._limit_s = names, limit_s
        self._heard = dict.fromkeys(names, now)
        self._failures: list[Failure] = []
        self._said: dict[int, Failure] = {}
        self._gone: dict[int, Failure] = {}
        # How many calls who has said farewell has made: what it has sent for these still comes.
        self._left: dict[int, int] = {}
        self._stalled: set[int] = set()
        self._lock = Lock()

    def receive(self, rank: int, line: bytes, now: float) -> None:
        """Takes what a rank has sent: a sign of life, a farewell or a failure."""
        with self._lock:
            self._heard[rank] = now
            self._stalled.discard(rank)
            if line.startswith(BYE) and line.removeprefix(BYE).isdigit():
                self._left[rank] = int(line.removeprefix(BYE))
            elif line != HEARTBEAT:
                failure = _decoded(line)
                self._said[rank] = failure
                self._failures.append(failure)

    def note(self, failure: Failure) -> None:
        """Takes a failure that this rank has told the others."""
        with self._lock:
            self._failures.append(failure)

    def close(self, rank: int) -> None:
        """Takes that nothing more will come from a rank: the system closes what a process had open when it ends."""
        with self._lock:
            if rank not in self._left:
                # Who fails and then ends has said why.
                cause = self._said.get(rank, _lost(f"{self._names[rank]} has died"))
                self._gone[rank] = Failure(None, cause.kind, cause.code, cause.text)

    def judge(self, now: float, *, late: bool) -> None:
        """Finds who has been silent too long; nobody, where this process was itself too `late` to listen."""
        with self._lock:
            if late:
                self._heard = dict.fromkeys(self._heard, now)
            silent = {rank for rank, heard in self._heard.items() if now - heard > self._limit_s}
            self._stalled = silent - self._left.keys() - self._gone.keys()

    def begin(self, call: int) -> None:
        """Forgets what calls before this one have failed of."""
        with self._lock:
            self._failures = [each for each in self._failures if each.call is None or each.call >= call]
            self._said = {rank: each for rank, each in self._said.items() if each in self._failures}

    def failure(self, call: int | None, awaited: Collection[int] = ()) -> Failure | None:
        """What ends a call that waits for these ranks; for no call, what ends all."""
        with self._lock:
            reported = (each for each in self._failures if each.call is None or each.call == call)
            first = next(reported, None) or next(iter(self._gone.values()), None)
            if first is not None:
                return first
            for rank in awaited:
                if call is not None and self._left.get(rank, call) < call:
                    return _lost(f"{self._names[rank]} has ended, and takes no part in this call")
            for rank in sorted(self._stalled.intersection(awaited)):
                text = f"{self._names[rank]} has not shown any life for {self._limit_s:g} s"
                return Failure(call, "DeviceError", "device-stalled", f"error[device-stalled]: {text}")
            return None

    def unsettled(self) -> tuple[int, ...]:
        """The ranks that have neither said farewell nor died nor stalled."""
        with self._lock:
            return tuple(self._names.keys() - self._left.keys() - self._gone.keys() - self._stalled)

    def has_lost(self) -> bool:
        """Whether a rank cannot take part in anything any more, not even in the end of all."""
        with self._lock:
            return bool(self._gone or self._stalled)


def _lost(text: str) -> Failure:
    return Failure(None, "DeviceError", "device-lost", f"error[device-lost]: {text}")


def _decoded(line: bytes) -> Failure:
    """A failure; what is malformed is one, too: who sends it is not of this protocol."""
    try:
        value = json.loads(line)
        call, kind, code, text = (value[name] for name in ("call", "kind", "code", "text"))
        if kind in _KINDS and isinstance(code, str) and isinstance(text, str) and isinstance(call, int | None):
            return Failure(call, kind, code, text)
    except (ValueError, TypeError, KeyError):
        pass
    return _lost("a rank sends what is no message")
