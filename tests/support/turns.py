"""Programs of the interpreter that wait for each other: each is a thread, of which one runs at a time.

A program gives its turn away where it has to wait; that nobody can go on is a deadlock, and an error.
"""

import ctypes
import threading
from collections.abc import Callable, Sequence

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

__all__ = ["Turns", "meet"]

_running: "list[Turns]" = []


def meet(counter: tl.tensor, goal: tl.tensor) -> None:
    """What `meet` of a kernel does: waits until so many programs have come."""
    word = ctypes.c_int32.from_address(int(counter.handle.data[0]))
    word.value += 1
    _running[-1].wait(lambda: word.value >= int(goal.handle.data[0]))


class Turns:
    """The programs of one launch, by their places in the grid."""

    def __init__(self, programs: Sequence[tuple[int, int, int]], run: Callable[[], None]) -> None:
        self.programs = list(programs)
        self.may_run: dict[int, Callable[[], bool]] = {number: lambda: True for number in range(len(programs))}
        self.wakes = [threading.Semaphore(0) for _ in programs]
        self.back = threading.Semaphore(0)
        self.failures: list[BaseException] = []
        self.abandoned = False
        self.current = 0
        self.threads = [
            threading.Thread(target=self._program, args=(number, run), daemon=True) for number in range(len(programs))
        ]

    def run(self) -> None:
        """Runs all of them; raises what one of them does, and AssertionError where all wait."""
        _running.append(self)
        for thread in self.threads:
            thread.start()
        try:
            while self.may_run and not self.failures:
                # The last first: that none relies on the order of programs.
                number = next((number for number in reversed(self.may_run) if self.may_run[number]()), None)
                assert number is not None, f"{len(self.may_run)} programs wait for each other"
                self._let(number)
        finally:
            self.abandoned = True
            for number in list(self.may_run):
                self._let(number)
            _running.pop()
        if self.failures:
            raise self.failures[0]

    def wait(self, ready: Callable[[], bool]) -> None:
        """Gives the turn away until something holds."""
        number = self.current
        self.may_run[number] = ready
        self.back.release()
        self.wakes[number].acquire()
        if self.abandoned:
            raise SystemExit
        interpreter.interpreter_builder.set_grid_idx(*self.programs[number])

    def _let(self, number: int) -> None:
        self.current = number
        self.wakes[number].release()
        self.back.acquire()

    def _program(self, number: int, run: Callable[[], None]) -> None:
        self.wakes[number].acquire()
        try:
            if not self.abandoned:
                interpreter.interpreter_builder.set_grid_idx(*self.programs[number])
                with np.errstate(all="ignore"):
                    run()
        except SystemExit:
            pass
        except BaseException as problem:
            self.failures.append(problem)
        finally:
            self.may_run.pop(number, None)
            self.back.release()
