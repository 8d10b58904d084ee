"""Every order in which threads take their locks: one runs at a time, and they change only where a lock is taken.

That is every order that matters to threads which share nothing but what they change under a lock.
"""

import threading
from collections.abc import Callable, Iterator, Sequence

__all__ = ["TurnLock", "Turns", "every_order"]


class Turns:
    """One order: at each point where a thread could go on, which of them does, by the choices and then the first."""

    def __init__(self, choices: Sequence[int]) -> None:
        self.taken: list[tuple[int, int]] = []
        self._choices, self._started = choices, 0
        self._wakes: dict[int, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)
        self._own = threading.local()
        self._failures: list[BaseException] = []

    def start(self, work: Callable[[], object]) -> None:
        """Another thread, which begins when it has its turn."""
        number = self._started
        self._started += 1
        self._wakes[number] = threading.Semaphore(0)

        def run() -> None:
            self._own.number = number
            self._wakes[number].acquire()
            try:
                work()
            except BaseException as problem:
                self._failures.append(problem)
            finally:
                del self._wakes[number]
                self._back.release()

        threading.Thread(target=run, daemon=True).start()

    def pause(self) -> None:
        """Gives the turn away, in a thread that was started here; does nothing in another."""
        number = getattr(self._own, "number", None)
        if number is not None:
            self._back.release()
            self._wakes[number].acquire()

    def run(self, *, in_any_order: bool = True) -> None:
        """Lets the threads go on until all have ended; raises what one of them has."""
        while self._wakes:
            ready, step, chosen = sorted(self._wakes), len(self.taken), 0
            if in_any_order:
                chosen = self._choices[step] if step < len(self._choices) else 0
                self.taken.append((chosen, len(ready)))
            self._wakes[ready[chosen]].release()
            self._back.acquire()
        if self._failures:
            raise self._failures[0]


class TurnLock:
    """A lock before which a thread gives its turn away; who has the turn finds it free."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def acquire(self) -> bool:
        self._turns.pause()
        return True

    def release(self) -> None:
        pass

    def _is_owned(self) -> bool:
        """For threading.Condition."""
        return True

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *problem: object) -> None:
        self.release()


def every_order(run: Callable[[Turns], None]) -> Iterator[tuple[int, ...]]:
    """Runs it once for each order of its threads, and gives the choices that made it."""
    choices: list[int] = []
    while True:
        turns = Turns(choices)
        run(turns)
        yield tuple(chosen for chosen, _ in turns.taken)
        open_steps = [step for step, (chosen, count) in enumerate(turns.taken) if chosen + 1 < count]
        if not open_steps:
            return
        last = open_steps[-1]
        choices = [chosen for chosen, _ in turns.taken[:last]] + [turns.taken[last][0] + 1]
