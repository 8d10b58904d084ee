"""Every state that a model of threads can reach, whatever the order of their steps.

A model is a first state, the steps that can be taken in a state, and which states are ends; states are hashable.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Fault", "Findings", "explore"]

State = TypeVar("State", bound=Hashable)


class Fault(Exception):
    """What a model promises does not hold; raised by a step."""


@dataclass(frozen=True)
class Findings:
    """How many states there are up to the first fault, what that is ("" for none), and a shortest way to it."""

    states: int
    fault: str
    steps: tuple[str, ...]


@dataclass(frozen=True)
class _Graph(Generic[State]):
    """The states met so far; for each, by ordinal, the step by which it was met first and where every way in begins."""

    ordinals: dict[State, int]
    causes: list[tuple[int, str]]
    sources: list[list[int]]

    def add(self, state: State, source: int, step: str) -> bool:
        """Whether the state is new."""
        ordinal = self.ordinals.setdefault(state, len(self.causes))
        is_new = ordinal == len(self.causes)
        if is_new:
            self.causes.append((source, step))
            self.sources.append([])
        self.sources[ordinal].append(source)
        return is_new

    def findings(self, fault: str, state: int) -> Findings:
        steps: list[str] = []
        while state:
            state, step = self.causes[state]
            steps.append(step)
        return Findings(len(self.causes), fault, tuple(reversed(steps)))


def explore(
    start: State, successors: Callable[[State], Iterable[tuple[str, State]]], is_end: Callable[[State], bool]
) -> Findings:
    """The first fault, breadth first; a state from which no end can be reached is one too."""
    graph: _Graph[State] = _Graph({}, [], [])
    graph.add(start, 0, "")
    waiting = deque([start])
    ordinal = -1
    while waiting:
        state = waiting.popleft()
        ordinal += 1
        try:
            for step, following in successors(state):
                if graph.add(following, ordinal, step):
                    waiting.append(following)
        except Fault as fault:
            return graph.findings(str(fault), ordinal)
    good = _sources_of_ends(graph, is_end)
    stuck = next((ordinal for ordinal in range(len(graph.causes)) if ordinal not in good), None)
    if stuck is not None:
        return graph.findings("no end can be reached", stuck)
    return Findings(len(graph.causes), "", ())


def _sources_of_ends(graph: _Graph[State], is_end: Callable[[State], bool]) -> set[int]:
    """The states from which an end can be reached."""
    good = {ordinal for state, ordinal in graph.ordinals.items() if is_end(state)}
    waiting = list(good)
    while waiting:
        sources = [source for source in graph.sources[waiting.pop()] if source not in good]
        good.update(sources)
        waiting.extend(sources)
    return good
