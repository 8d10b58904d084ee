"""Runs one measurement in a process of its own: a crash, a hang or a leak stays one row of the table."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

Row = Mapping[str, object]


def run_isolated(module: str, arguments: Mapping[str, object], cpus: Sequence[int], limit_s: float) -> list[Row]:
    """The rows that `python -m module` prints as JSON; a last one says in "error" why there are no more."""
    command = [sys.executable, "-m", module, json.dumps(dict(arguments))]
    with pinned(cpus):
        # A child inherits the processors of the thread that starts it, so every pool it makes sees the same.
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        child.kill()
        out, _ = child.communicate()
        return [*printed_rows(out), {"error": f"no result within {limit_s:.0f} s"}]
    rows = printed_rows(out)
    if child.returncode == 0:
        return rows
    reason = f"signal {-child.returncode}" if child.returncode < 0 else last_message(err)
    return [*rows, {"error": reason}]


def printed_rows(text: str) -> list[Row]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


@contextmanager
def pinned(cpus: Sequence[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def last_message(text: str) -> str:
    """The line that names the exception: the last one that is not indented."""
    lines = [line for line in text.splitlines() if line and not line[0].isspace()]
    return lines[-1][:200] if lines else "no message"
