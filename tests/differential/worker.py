"""Judges cases in processes of their own, so that an engine's crash or hang is one case's outcome."""

import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue

from tests.differential.case import Pair, case_name, make_case
from tests.differential.engines import ENGINES
from tests.differential.judge import Outcome, judge
from tests.support.worker_process import WorkerProcess

Key = tuple[Pair, int, int]

CASE_LIMIT_S = 30.0


def serve(connection: Connection) -> None:
    """The worker's loop: answers each (key, engines) with its outcome."""
    connection.send(True)
    while (asked := connection.recv()) is not None:
        key, engines = asked
        try:
            outcome = judge(make_case(*key), engines)
        except Exception:
            outcome = Outcome(
                case_name(*key), "no case was made", {}, {}, {"generator": traceback.format_exc()[-700:]}, {}
            )
        connection.send(outcome)


class Worker(WorkerProcess):
    """A process that judges cases one at a time, started again after a crash or a hang."""

    def __init__(self) -> None:
        super().__init__(serve)

    def judge(self, key: Key) -> Outcome:
        """The outcome of a case; an engine that ends the process is found by asking one at a time."""
        engines = tuple(ENGINES)
        outcome = self.ask((key, engines), Outcome, CASE_LIMIT_S)
        if outcome is not None:
            return outcome
        alive = tuple(each for each in engines if self.ask((key, (each,)), Outcome, CASE_LIMIT_S) is not None)
        outcome = self.ask((key, alive), Outcome, CASE_LIMIT_S)
        assert outcome is not None, key
        dead = [engine for engine in engines if engine not in alive]
        crashes = dict.fromkeys(dead, "the process ended, or did not answer in time")
        ours = {engine: text for engine, text in crashes.items() if engine in ("interpreter", "cpu")}
        return Outcome(
            outcome.name,
            outcome.description,
            {**outcome.statuses, **dict.fromkeys(dead, "crashed")},
            {**outcome.messages, **crashes},
            {**outcome.differences, **ours},
            outcome.adjudicated,
        )


def judge_all(keys: Sequence[Key], jobs: int, report: Callable[[int, Outcome], None]) -> list[Outcome]:
    """The outcomes in the order of the keys; `report` hears of each as it comes."""
    waiting: SimpleQueue[int] = SimpleQueue()
    for place in range(len(keys)):
        waiting.put(place)
    outcomes: dict[int, Outcome] = {}

    def drain() -> None:
        worker = Worker()
        while True:
            try:
                place = waiting.get_nowait()
            except Empty:
                worker.stop(patience_s=0)
                return
            outcomes[place] = worker.judge(keys[place])
            report(len(outcomes), outcomes[place])

    threads = [threading.Thread(target=drain) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcomes[place] for place in range(len(keys))]
