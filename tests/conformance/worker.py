"""Runs cases in a process of its own, so that a crash or a hang is one case's outcome and not the end of the run."""

import importlib
import io
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Literal, Protocol

from tests.conformance.cases import Case, all_cases, draws_numbers
from tests.conformance.compare import difference, draw_difference
from tests.support.worker_process import WorkerProcess

Status = Literal["passed", "unsupported", "mismatch", "error", "crash", "hang"]
STATUSES: tuple[Status, ...] = ("passed", "unsupported", "mismatch", "error", "crash", "hang")
MESSAGE_LENGTH = 400


class Prepared(Protocol):
    def run(self, inputs: list[object]) -> object: ...


Prepare = Callable[..., Prepared]


@dataclass(frozen=True)
class Outcome:
    """What became of one case; `reason` is empty when it passed."""

    name: str
    kind: str
    status: Status
    reason: str
    seconds: float


def run_case(case: Case, prepare: Prepare) -> Outcome:
    """The outcome of one case in this process."""
    started = time.perf_counter()
    try:
        model, data = case.load()
        prepared = prepare(model, device="CPU")
        found = None
        for inputs, expected in data:
            actual = prepared.run(list(inputs))
            drawn = draws_numbers(model.graph)
            found = found or (
                draw_difference(expected, actual) if drawn else difference(expected, actual, case.rtol, case.atol)
            )
        status: Status = "mismatch" if found else "passed"
        reason = found or ""
    except Exception as problem:
        words = type(problem).__name__
        status = "unsupported" if "Unsupported" in words or "NotImplemented" in words else "error"
        reason = f"{words}: {problem}"
    return Outcome(case.name, case.kind, status, reason[:MESSAGE_LENGTH], time.perf_counter() - started)


def serve(connection: Connection, backend: str) -> None:
    """The worker's loop: sends the names of all cases, then answers each name with its outcome."""
    prepare = importlib.import_module(backend).prepare
    cases = {case.name: case for case in all_cases()}
    connection.send([(case.name, case.kind) for case in cases.values()])
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while (name := connection.recv()) is not None:
            connection.send(run_case(cases[name], prepare))


class Worker(WorkerProcess):
    """A process that runs cases one at a time, started again after a crash or a hang."""

    def __init__(self, backend: str, limit_s: float) -> None:
        self.limit_s = limit_s
        super().__init__(serve, backend)
        assert isinstance(self.ready, list), self.ready
        self.kinds: dict[str, str] = dict(self.ready)

    def run(self, name: str) -> Outcome:
        started = time.perf_counter()
        outcome = self.ask(name, Outcome, self.limit_s)
        if outcome is not None:
            return outcome
        status: Status = "hang" if self.hung else "crash"
        return Outcome(name, self.kinds[name], status, self.ended, time.perf_counter() - started)

    def run_all(self, names: Iterable[str]) -> Iterator[Outcome]:
        return map(self.run, names)
