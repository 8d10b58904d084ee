"""One side: compiles and calls models with the onnxc of its own checkout, which may be older than this file.

`python tests/same_bits/worker.py` reads pickled jobs from the standard input and answers each of them. It uses the
public interface of onnxc alone, and values of Python and NumPy alone cross the pipe, so that any two commits can be
compared.
"""

import os
import pickle
import sys
import time
import warnings
from collections.abc import Sequence
from typing import BinaryIO, TypedDict

import numpy as np

import onnxc

# The best of so many calls is the time of a call: the first ones make the arena and wake the pool.
CALLS = 5


class Job(TypedDict):
    """A model, as a path or as bytes, and what it is called with, input by input."""

    model: str | bytes
    feeds: Sequence[Sequence[object]]


class Answer(TypedDict):
    """The outputs of each call, or the error, empty where there was none; processor seconds of each step."""

    error: str
    outputs: list[list[object]]
    compile_s: float
    call_s: float


def answered(job: Job) -> Answer:
    """What becomes of a job in this process: one thread, and nothing kept of earlier compilations."""
    answer = Answer(error="", outputs=[], compile_s=0.0, call_s=0.0)
    try:
        started = time.process_time()
        executable = onnxc.compile(job["model"], threads=1, cache=False)
        answer["compile_s"] = time.process_time() - started
        for feed in job["feeds"]:
            answer["outputs"].append(list(executable.run(named(executable, feed)).values()))
            answer["call_s"] += min(timed_call(executable, feed) for _ in range(CALLS))
    except onnxc.OnnxcError as problem:
        answer["error"] = f"{type(problem).__name__}: {problem.code}"
    return answer


def timed_call(executable: "onnxc.Executable", feed: Sequence[object]) -> float:
    feeds = named(executable, feed)
    started = time.thread_time()
    executable.run(feeds)
    return time.thread_time() - started


def named(executable: "onnxc.Executable", feed: Sequence[object]) -> dict[str, object]:
    """The values by the names of the inputs, in their order; what the call leaves out at the end is left out."""
    return {info.name: value for info, value in zip(executable.inputs, feed, strict=False)}


def serve(jobs: BinaryIO, answers: BinaryIO) -> None:
    while True:
        try:
            job: Job = pickle.load(jobs)
        except EOFError:
            return
        pickle.dump(answered(job), answers)
        answers.flush()


if __name__ == "__main__":
    # What else is printed goes to the standard error.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        serve(sys.stdin.buffer, answers)
