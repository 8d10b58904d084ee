"""Processes that compile: started when there is work, kept for the next, replaced when they die or take too long.

They are plain child processes, each with a socket, not `multiprocessing`'s: that imports the caller's main module
again and refuses to work below a daemonic process.
"""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Generic

from onnxc.compiler.jobs.job import Answer, AnyJob, Failed
from onnxc.runtime.errors import DeviceError

__all__ = ["WorkerPool", "default_count", "keep_while_running", "python_module", "worker_environment"]

# An estimate: each holds a compiler, so that memory is short before processors are.
MAX_WORKERS = 8

# Compilers print whole modules before the line that matters.
_TAIL_BYTES = 4000

# Settings of the user's that would change what compilers make.
_FOREIGN = ("TRITON_", "MLIR_", "LLVM_", "PTXAS_", "NVPTX_", "DISABLE_", "PYTHONWARN", "PYTHONOPT", "PYTHONINSPECT")

# A worker that the system ended for want of memory may end well alone; a job that ends its worker twice is at fault.
_RETRIES = 1

Progress = Callable[[int], None]


def python_module(name: str) -> tuple[str, ...]:
    """The command that runs a module of ours as the program of a process."""
    return (sys.executable, "-P", "-m", name)


def default_count() -> int:
    """How many processes may compile: as many as this process may use CPUs, 8 at most."""
    return min(MAX_WORKERS, len(os.sched_getaffinity(0)))


def worker_environment(folder: str) -> dict[str, str]:
    """The environment of a process that compiles, whose files, all of them temporary, go to that folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return kept | {"PYTHONPATH": paths, "PYTHONHASHSEED": "0", "TMPDIR": folder}


class WorkerPool(Generic[AnyJob, Answer]):
    """Processes that compile; the results of `run` do not depend on how many there are.

    command: the program, which `answer_jobs`. environment: that of a process, given the folder for its files.
    """

    def __init__(
        self,
        command: Sequence[str],
        timeout_seconds: float,
        environment: Callable[[str], Mapping[str, str]] = worker_environment,
    ) -> None:
        self._command = tuple(command)
        self._timeout_seconds = timeout_seconds
        self._environment = environment
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The processes there are."""
        return tuple(worker.process.pid for worker in self._workers)

    def run(self, jobs: Sequence[AnyJob], count: int, progress: Progress | None = None) -> list[Answer | Failed]:
        """The result of each job, by up to `count` processes; `progress` is told how many are done."""
        with self._lock:
            try:
                return _Run(self, jobs, count, progress).results()
            except BaseException:
                # Nobody waits for the answers of the jobs under way.
                self.close()
                raise

    def close(self) -> None:
        """Ends the processes, also those that another thread waits for."""
        for worker in tuple(self._workers):
            self.remove(worker)

    def take(self, limit: int) -> "_Worker | None":
        """A worker that is free, a new one if there are fewer than the limit."""
        for worker in [worker for worker in self._workers if worker.process.poll() is not None and not worker.jobs]:
            self.remove(worker)
        free = next((worker for worker in self._workers if not worker.jobs), None)
        if free is None and len(self._workers) < limit:
            free = _Worker.start(self._command, self._timeout_seconds, self._environment)
            self._workers.append(free)
        return free

    def remove(self, worker: "_Worker") -> None:
        """Ends a worker."""
        self._workers.remove(worker)
        worker.stop()

    def forget(self) -> None:
        """After a fork: the processes are the parent's."""
        for worker in self._workers:
            worker.abandon()
        self._workers = []
        self._lock = threading.Lock()


@dataclass(eq=False)
class _Worker:
    """A process; `jobs` holds the number of the job it has, if any."""

    process: subprocess.Popen[bytes]
    connection: Connection
    folder: str
    log: int
    timeout_seconds: float
    jobs: list[int]
    deadline: float = 0.0

    @classmethod
    def start(
        cls, command: Sequence[str], timeout_seconds: float, environment: Callable[[str], Mapping[str, str]]
    ) -> "_Worker":
        """A new process; DeviceError if the system does not give one."""
        ours, theirs = Pipe()
        folder = tempfile.mkdtemp(prefix="onnxc-compile-")
        log = os.open(os.path.join(folder, "stderr"), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(folder),
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        except OSError as problem:
            ours.close()
            os.close(log)
            shutil.rmtree(folder, ignore_errors=True)
            message = f"cannot start a process that compiles kernels ({command[0]}): {problem.strerror}"
            raise DeviceError(message, code="no-compile-process") from problem
        finally:
            theirs.close()
        return cls(process, ours, folder, log, timeout_seconds, [])

    def send(self, ordinal: int, job: object) -> None:
        """Gives the process a job."""
        self.jobs = [ordinal]
        self.deadline = time.monotonic() + self.timeout_seconds
        try:
            self.connection.send(job)
        except OSError:
            # It is dead, which its connection tells as well.
            return

    def printed(self) -> str:
        """The end of what the process has printed about its job."""
        size = os.fstat(self.log).st_size
        text = os.pread(self.log, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace").strip()
        return f"\n{text}" if text else ""

    def stop(self) -> None:
        """Ends the process, with the assembler it may have started, and removes its files."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.abandon()
        shutil.rmtree(self.folder, ignore_errors=True)

    def abandon(self) -> None:
        """Lets go of the process."""
        self.process.returncode = self.process.returncode or 0
        self.connection.close()
        os.close(self.log)


class _Run(Generic[AnyJob, Answer]):
    """One call of `WorkerPool.run`."""

    def __init__(
        self, pool: WorkerPool[AnyJob, Answer], jobs: Sequence[AnyJob], count: int, progress: Progress | None
    ) -> None:
        self.pool, self.jobs, self.progress = pool, jobs, progress
        self.count = max(1, min(count, len(jobs)))
        self.answers: dict[int, Answer | Failed] = {}
        self.deaths = [0] * len(jobs)
        # Long ones first: one that starts last would leave the other processes idle.
        self.waiting = deque(sorted(range(len(jobs)), key=lambda ordinal: -len(jobs[ordinal].text)))
        self.busy: list[_Worker] = []

    def results(self) -> list[Answer | Failed]:
        while len(self.answers) < len(self.jobs):
            self._give_jobs()
            self._collect()
        return [self.answers[ordinal] for ordinal in range(len(self.jobs))]

    def _give_jobs(self) -> None:
        while self.waiting and len(self.busy) < self.count:
            worker = self.pool.take(self.count)
            if worker is None:
                return
            ordinal = self.waiting.popleft()
            self.busy.append(worker)
            worker.send(ordinal, self.jobs[ordinal])

    def _collect(self) -> None:
        """Takes answers, and notices who is dead or late."""
        seconds = min(worker.deadline for worker in self.busy) - time.monotonic()
        ready = wait([worker.connection for worker in self.busy], max(0.0, seconds))
        now = time.monotonic()
        for worker in tuple(self.busy):
            if worker.connection in ready:
                self._receive(worker)
            elif now >= worker.deadline:
                reason = f"compiling took more than {worker.timeout_seconds:g} s{worker.printed()}"
                self._end(worker, Failed(reason))

    def _receive(self, worker: _Worker) -> None:
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        if isinstance(answer, Failed):
            answer = Failed(answer.reason + worker.printed())
        self._finish(worker, answer)

    def _bury(self, worker: _Worker) -> None:
        """A job whose process died is tried once more: the process may have died of something else."""
        (ordinal,) = worker.jobs
        status = worker.process.wait()
        died = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        reason = Failed(f"the process that compiles it {died}{worker.printed()}")
        self.deaths[ordinal] += 1
        if self.deaths[ordinal] > _RETRIES:
            self._end(worker, reason)
            return
        self.busy.remove(worker)
        self.pool.remove(worker)
        self.waiting.appendleft(ordinal)

    def _end(self, worker: _Worker, answer: Failed) -> None:
        self._finish(worker, answer)
        self.pool.remove(worker)

    def _finish(self, worker: _Worker, answer: Answer | Failed) -> None:
        (ordinal,) = worker.jobs
        worker.jobs = []
        self.busy.remove(worker)
        self.answers[ordinal] = answer
        if self.progress is not None:
            self.progress(len(self.answers))


def keep_while_running(pool: WorkerPool[AnyJob, Answer]) -> WorkerPool[AnyJob, Answer]:
    """A pool whose processes end with this one; after a fork the child has none."""
    atexit.register(pool.close)
    os.register_at_fork(after_in_child=pool.forget)
    return pool
