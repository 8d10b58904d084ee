"""The side of a process that compiles: one job after another over a connection, whose descriptor is its argument."""

import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

from onnxc.compiler.jobs.job import Answer, AnyJob, Failed

__all__ = ["answer_jobs"]


def answer_jobs(compile_job: Callable[[AnyJob], Answer | Failed], idle_seconds: float) -> None:
    """Answers jobs until the other end closes the connection, or has none for so long.

    Standard error is a file of the parent's, emptied before each job: what a compiler prints there, whole modules if it
    fails, is read from it when it is needed.
    """
    connection = Connection(int(sys.argv[1]))
    while connection.poll(idle_seconds):
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        os.ftruncate(sys.stderr.fileno(), 0)
        connection.send(compile_job(job))
