"""A process that compiles, given one job after another.

It is a plain child process with a socket, not one of `multiprocessing`'s: that imports the caller's main module again
and refuses to work below a daemonic process.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from onnxc.compiler.jobs.job import Answer, Failed
from onnxc.runtime.errors import DeviceError

__all__ = ["WorkerProcess"]

# Compilers print whole modules before the line that matters.
_TAIL_BYTES = 4000


@dataclass(eq=False)
class WorkerProcess:
    """A process. is_late: whether its job took too long; has_ended: whether it is of no use any more."""

    process: subprocess.Popen[bytes]
    connection: Connection
    folder: str
    log: int
    timeout_seconds: float
    is_late: bool = False
    has_ended: bool = False

    @classmethod
    def start(
        cls, command: Sequence[str], timeout_seconds: float, environment: Callable[[str], Mapping[str, str]]
    ) -> "WorkerProcess":
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
        return cls(process, ours, folder, log, timeout_seconds)

    def answer(self, job: object) -> Answer | Failed:
        """What the process answers, or how it has ended."""
        try:
            # That it is dead the answer tells.
            with contextlib.suppress(OSError):
                self.connection.send(job)
            if not self.connection.poll(self.timeout_seconds):
                self.is_late = self.has_ended = True
                return Failed(f"compiling took more than {self.timeout_seconds:g} s{self.printed()}")
            answer: Answer | Failed = self.connection.recv()
        except (EOFError, OSError):
            self.has_ended = True
            status = self.process.wait()
            died = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            return Failed(f"the process that compiles it {died}{self.printed()}")
        return Failed(answer.reason + self.printed()) if isinstance(answer, Failed) else answer

    def printed(self) -> str:
        """The end of what the process has printed about its job."""
        size = os.fstat(self.log).st_size
        text = os.pread(self.log, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace").strip()
        return f"\n{text}" if text else ""

    def stop(self) -> None:
        """Ends the process, with the assembler it may have started, and removes its files."""
        self.kill()
        self.process.wait()
        self.abandon()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """Ends the process; whoever waits for its answer hears of it."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def abandon(self) -> None:
        """Lets go of the process."""
        self.process.returncode = self.process.returncode or 0
        self.connection.close()
        os.close(self.log)
