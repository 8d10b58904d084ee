"""Tries models in a process of its own, whose memory is bounded, so that each has an outcome and none ends the run."""

import importlib
import os
import resource
import time
import traceback
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal, get_args

import onnxc
from onnxc.compiler.diagnostics import model_error
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.runtime.errors import ModelError, OnnxcError
from tests.conformance.cases import RANDOM_OPERATORS
from tests.fuzz.agree import Disagreement, Subject, expect_agreement
from tests.fuzz.mutate import mutated, nodes
from tests.support.worker_process import WorkerProcess

# An endless run is the model's own; a hang is the compiler's.
# ran: both targets took the draws and agree; accepted: it compiles, and its inputs are none that are drawn.
Status = Literal["ran", "accepted", "refused", "endless", "differs", "crash", "hang", "memory"]
STATUSES: tuple[Status, ...] = get_args(Status)
WRONG: tuple[Status, ...] = ("differs", "crash", "hang", "memory")

# What a worker says when a model is compiled and begins to run.
RUNNING = "running"

MEMORY_BYTES = 2 << 30
LIMIT_S = 10.0

# Runs of what is drawn take milliseconds; one that takes more is as long as the model says, and tells nothing.
RUN_LIMIT_S = 3.0

# A model that does not work hangs too, after this many times the limit.
POLL_S, IDLE_FACTOR = 0.5, 6

# Runs a model, and returns how many draws it took.
Run = Callable[[], int]
Trial = Callable[[bytes], Run | None]

# The bytes of model `number` of the run with this seed.
Models = Callable[[int, int], bytes]


@dataclass(frozen=True)
class Outcome:
    """What became of one model; `reason` ends with the innermost places of the traceback."""

    number: int
    status: Status
    reason: str
    seconds: float


def examine(data: bytes) -> Run | None:
    """All that is done with a model: it is checked and its types inferred; if it is legal it is compiled.

    What comes back runs both targets on the same draws; that may take any time, as loops and windows are as long as
    the model says. Raises
    OnnxcError where it is refused. What the check has found legal, compiling may not find illegal.
    """
    try:
        findings = onnxc.check(data)
    except OnnxcError as raised:
        raise AssertionError(f"the check raises {raised.code} in place of telling it") from raised
    for finding in findings:
        assert str(finding).startswith(f"{finding.severity}["), finding
        assert finding.to_json()
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise model_error(errors)
    try:
        interpreter, native = (onnxc.compile(data, target) for target in ("interpreter", "cpu"))
    except ModelError as late:
        raise AssertionError(f"the check found no error, and compiling {late.code}") from late
    drawn = any(node.op_type in RANDOM_OPERATORS for node in nodes(ModelProto.FromString(data)))
    return partial(expect_agreement, Subject(data, interpreter, native, drawn), zlib.crc32(data))


def attempt(
    number: int,
    seed: int,
    trial: Trial = examine,
    tell: Callable[[], None] = lambda: None,
    models: Models = mutated,
) -> Outcome:
    """The outcome of one model in this process; `tell` is called when it begins to run."""
    started = time.perf_counter()
    status: Status = "accepted"
    reason = ""
    try:
        run = trial(models(number, seed))
        if run is not None:
            tell()
            status = "ran" if run() else "accepted"
    except Disagreement as found:
        status, reason = "differs", str(found)
    except OnnxcError as refused:
        status, reason = "refused", refused.code
    except MemoryError:
        status, reason = "memory", _places()
    except Exception as problem:
        status, reason = "crash", f"{type(problem).__name__}: {str(problem)[:300]} at {_places()}"
    return Outcome(number, status, reason, time.perf_counter() - started)


def _places() -> str:
    """The innermost places of ours of the exception at hand."""
    lines = traceback.format_exc().splitlines()
    root = str(Path(onnxc.__file__).parents[1]) + os.sep
    ours = [line.strip().removeprefix('File "').replace(root, "") for line in lines if root in line]
    return " < ".join(reversed(ours[-3:]))


def serve(connection: Connection, seed: int, trial: Trial, memory_bytes: int, models: Models) -> None:
    """The worker's loop: answers each number with an outcome."""
    models(0, seed)
    # What is imported late would count as the model's memory.
    importlib.import_module("onnxc.runtime.load")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    connection.send(None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while (number := connection.recv()) is not None:
            connection.send(attempt(number, seed, trial, partial(connection.send, RUNNING), models))


def processor_seconds(pid: int) -> float:
    """The time that all threads of a process have worked; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Worker(WorkerProcess):
    """A process that tries one model at a time, started again after it has died or was stopped."""

    def __init__(
        self,
        seed: int,
        trial: Trial = examine,
        limit_s: float = LIMIT_S,
        memory_bytes: int = MEMORY_BYTES,
        models: Models = mutated,
    ) -> None:
        self.limit_s = limit_s
        super().__init__(serve, seed, trial, memory_bytes, models)

    def run(self, number: int) -> Outcome:
        """The outcome of one model."""
        started = time.perf_counter()
        status: Status = "hang"
        limit_s = self.limit_s
        try:
            self.connection.send(number)
            while self._answers(limit_s):
                outcome = self.connection.recv()
                if isinstance(outcome, Outcome):
                    return outcome
                assert outcome == RUNNING, outcome
                status, limit_s = "endless", min(self.limit_s, RUN_LIMIT_S)
            reason = f"no answer within {limit_s:.0f} s"
            self.stop()
        except (EOFError, ConnectionError):
            status, reason = "crash", f"exit code {self.stop()}"
        self.start()
        return Outcome(number, status, reason, time.perf_counter() - started)

    def _answers(self, limit_s: float) -> bool:
        """Whether there is an answer within the limit, which is of processor time: the machine may be busy."""
        assert self.process.pid is not None
        started, begun = time.perf_counter(), processor_seconds(self.process.pid)
        while not self.connection.poll(POLL_S):
            waited = time.perf_counter() - started
            worked = processor_seconds(self.process.pid) - begun
            if worked > limit_s or waited > IDLE_FACTOR * limit_s:
                return False
        return True
