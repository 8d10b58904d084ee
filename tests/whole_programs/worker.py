"""Judges programs in processes of their own, so that a crash or a hang is one program's verdict."""

import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

from tests.support.worker_process import WorkerProcess
from tests.whole_programs.judge import Verdict, judge
from tests.whole_programs.program import program

# Programs take under 2 s each; sixteen busy processes on two cores are no hang.
LIMIT_S = 120.0


def serve(connection: Connection, seed: int) -> None:
    """The worker's loop: answers each number, and whether to ask ONNX Runtime, with a verdict."""
    connection.send(None)
    while (asked := connection.recv()) is not None:
        number, asks_ort = asked
        try:
            verdict = judge(program(number, seed), asks_ort=asks_ort)
        except Exception as problem:
            verdict = Verdict(number, "crash", f"{type(problem).__name__}: {problem}"[:600])
        connection.send(verdict)


def verdict_of(worker: WorkerProcess, number: int) -> Verdict:
    """The verdict on one program. Where the process ends, ONNX Runtime may have done it: it is not asked again."""
    for asks_ort in (True, False):
        verdict = worker.ask((number, asks_ort), Verdict, LIMIT_S)
        if verdict is not None:
            return verdict
    return Verdict(number, "crash", worker.ended)


def judge_all(numbers: Sequence[int], seed: int, jobs: int, report: Callable[[Verdict], None]) -> list[Verdict]:
    """The verdicts in the order of the numbers; `report` hears of each as it comes."""
    waiting, lock = iter(numbers), threading.Lock()
    verdicts: dict[int, Verdict] = {}

    def drain() -> None:
        worker = WorkerProcess(serve, seed)
        while True:
            with lock:
                number = next(waiting, None)
            if number is None:
                break
            verdict = verdict_of(worker, number)
            with lock:
                verdicts[number] = verdict
                report(verdict)
        worker.connection.send(None)
        worker.stop()

    threads = [threading.Thread(target=drain) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [verdicts[number] for number in numbers]
