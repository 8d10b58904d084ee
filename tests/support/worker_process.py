"""A process of its own for work that may crash or hang; it can be started again."""

import multiprocessing
from collections.abc import Callable
from typing import TypeVar

# A start takes 6 s of a processor; on two cores with sixteen busy processes one took more than 180 s.
START_LIMIT_S = 600.0

Answer = TypeVar("Answer")


class WorkerProcess:
    """`serve(connection, *arguments)` in a process; `ready` is what it sends first, `connection` what to ask it by.

    ended: how the process before this one ended, which was in time unless it `hung`.
    """

    ended = ""
    hung = False

    def __init__(self, serve: Callable[..., None], *arguments: object) -> None:
        self.serve, self.arguments = serve, arguments
        self.start()

    def start(self) -> None:
        """Starts the process, and waits until it is ready."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=self.serve, args=(theirs, *self.arguments), daemon=True)
        self.process.start()
        theirs.close()
        if not self.connection.poll(START_LIMIT_S):
            raise TimeoutError(f"the worker did not start within {START_LIMIT_S} s")
        try:
            self.ready: object = self.connection.recv()
        except EOFError as problem:
            raise RuntimeError(f"the worker {self.arguments} ended at once; its message is above") from problem

    def ask(self, question: object, answer: type[Answer], limit_s: float) -> Answer | None:
        """The answer; None where the process ended or gave none within `limit_s`, and was started again."""
        self.hung = True
        try:
            self.connection.send(question)
            if self.connection.poll(limit_s):
                given = self.connection.recv()
                assert isinstance(given, answer), given
                return given
        except (EOFError, ConnectionError):
            self.hung = False
        code = self.stop(patience_s=0.0 if self.hung else 1.0)
        self.ended = f"no answer within {limit_s:.0f} s" if self.hung else f"exit code {code}"
        self.start()
        return None

    def stop(self, patience_s: float = 1.0) -> int | None:
        """Ends the process, which may do so by itself within `patience_s`; its exit code."""
        self.process.join(timeout=patience_s)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()
        return self.process.exitcode
