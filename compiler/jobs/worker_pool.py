"""Processes that compile: started when there is work, kept for the next, replaced when they die or take too long."""

import atexit
import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Generic

from onnxc.compiler.jobs.job import Answer, AnyJob, Failed

if TYPE_CHECKING:
    from onnxc.compiler.jobs.worker_process import WorkerProcess

__all__ = ["WorkerPool", "default_count", "keep_while_running", "python_module", "worker_environment"]

# An estimate: each holds a compiler, so that memory is short before processors are.
MAX_WORKERS = 8

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
    """Processes that compile; what they answer does not depend on how many there are.

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
        self._workers: list[WorkerProcess] = []
        self._free: list[WorkerProcess] = []
        # Of the lists; that of turns is held for as long as somebody gives jobs.
        self._lock = threading.Lock()
        self._turns = threading.Lock()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The processes there are."""
        return tuple(worker.process.pid for worker in self._workers)

    def run(self, jobs: Sequence[AnyJob], count: int, progress: Progress | None = None) -> list[Answer | Failed]:
        """The answer to each job, by up to `count` processes; `progress` is told how many are done."""
        if not jobs:
            return []
        with self.stream(min(count, len(jobs))) as submit:
            # Long ones first: one that starts last would leave the other processes idle.
            order = sorted(range(len(jobs)), key=lambda ordinal: -len(jobs[ordinal].text))
            answers = {ordinal: submit(jobs[ordinal]) for ordinal in order}
            for done, _ in enumerate(as_completed(answers.values()), 1):
                if progress is not None:
                    progress(done)
            return [answers[ordinal].result() for ordinal in range(len(jobs))]

    @contextlib.contextmanager
    def stream(self, count: int) -> Iterator[Callable[[AnyJob], "Future[Answer | Failed]"]]:
        """Gives what takes jobs one after another, which up to `count` processes answer meanwhile.

        Others who have jobs wait for its end. If that is an exception, as of a signal, the processes end: nobody wants
        the answers of the jobs under way. Those raise DeviceError where the system gives no process.
        """
        with self._turns:
            stopped = threading.Event()
            threads = ThreadPoolExecutor(count, "onnxc-compile")
            try:
                yield lambda job: threads.submit(self._answer, job, stopped)
            except BaseException:
                stopped.set()
                self.close()
                threads.shutdown(cancel_futures=True)
                # What began meanwhile.
                self.close()
                raise
            threads.shutdown()

    def close(self) -> None:
        """Ends the processes; those that another thread waits for are its to remove, when it hears of their end."""
        with self._lock:
            free, self._free = self._free, []
            busy = [worker for worker in self._workers if worker not in free]
        for worker in busy:
            worker.kill()
        for worker in free:
            self._remove(worker)

    def forget(self) -> None:
        """After a fork: the processes are the parent's."""
        for worker in self._workers:
            worker.abandon()
        self._workers, self._free = [], []
        self._lock, self._turns = threading.Lock(), threading.Lock()

    def _answer(self, job: AnyJob, stopped: threading.Event) -> Answer | Failed:
        """A job whose process died is tried once more: the process may have died of something else."""
        answer: Answer | Failed = Failed("nobody waits for it")
        for _ in range(1 + _RETRIES):
            worker = self._take()
            # Whoever stops this ends all processes after saying so: this one too, or it is not given the job.
            if stopped.is_set():
                self._release(worker)
                break
            answer = worker.answer(job)
            if not worker.has_ended:
                self._release(worker)
                break
            self._remove(worker)
            if worker.is_late:
                break
        return answer

    def _take(self) -> "WorkerProcess":
        """A process without a job, a new one if there is none."""
        while True:
            with self._lock:
                worker = self._free.pop() if self._free else None
            if worker is None:
                return self._started()
            if worker.process.poll() is None:
                return worker
            self._remove(worker)

    def _started(self) -> "WorkerProcess":
        # Few compilations start one, and what starts processes takes 8 ms to import.
        processes = importlib.import_module("onnxc.compiler.jobs.worker_process")
        worker: WorkerProcess = processes.WorkerProcess.start(self._command, self._timeout_seconds, self._environment)
        with self._lock:
            self._workers.append(worker)
        return worker

    def _release(self, worker: "WorkerProcess") -> None:
        with self._lock:
            self._free.append(worker)

    def _remove(self, worker: "WorkerProcess") -> None:
        """Ends a process, unless another thread has."""
        with self._lock:
            if worker not in self._workers:
                return
            self._workers.remove(worker)
        worker.stop()


def keep_while_running(pool: WorkerPool[AnyJob, Answer]) -> WorkerPool[AnyJob, Answer]:
    """A pool whose processes end with this one; after a fork the child has none."""
    atexit.register(pool.close)
    os.register_at_fork(after_in_child=pool.forget)
    return pool
