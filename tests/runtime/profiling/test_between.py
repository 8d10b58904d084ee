"""What a call does outside of kernels, from records that are made up: each part once, and nothing twice."""

import numpy as np

from onnxc.runtime.native.launch_log import RECORD_WORDS
from onnxc.runtime.profiling.between import between_times
from onnxc.runtime.profiling.recorded_calls import HostRecord, RecordedCall
from onnxc.runtime.program import Host

STEP = Host(function="sort", inputs=(), outputs=(), attributes={}, location="node 2")


def call(launches: list[tuple[int, int]], host: list[tuple[int, int]], ended: int) -> RecordedCall:
    """A call from 0 on, by the beginnings and ends of its launches and of its steps on the host."""
    rows = [(2 * ordinal, 1, *times) for ordinal, times in enumerate(launches)]
    records = np.array(rows, np.int64).reshape(len(rows), RECORD_WORDS)
    return RecordedCall(0, ended, records, 0, tuple(HostRecord(STEP, *times) for times in host), ())


def parts(*calls: RecordedCall) -> dict[str, tuple[float, int]]:
    """For each part how often it is in a call, and its nanoseconds."""
    return {part.name: (part.executions, round(part.seconds * 1e9)) for part in between_times(calls, 1e-7)}


def test_each_part_is_from_the_end_of_one_to_the_beginning_of_the_next() -> None:
    assert parts(call([(10, 30), (35, 50), (80, 90)], [(60, 70)], 97)) == {
        "entering the call": (1, 10),
        "between kernels": (1, 5),
        "to and from the host": (2, 20),
        "leaving the call": (1, 7),
    }


def test_launches_that_lie_within_another_are_no_part_of_what_is_between() -> None:
    assert parts(call([(10, 50), (20, 30), (60, 70)], [], 80)) == {
        "entering the call": (1, 10),
        "between kernels": (2, 10),
        "leaving the call": (1, 10),
    }


def test_times_of_the_other_clock_that_lie_outside_of_the_call_are_cut() -> None:
    assert parts(call([(-4, 30), (40, 104)], [], 100)) == {
        "entering the call": (1, 0),
        "between kernels": (1, 10),
        "leaving the call": (1, 0),
    }


def test_parts_are_means_over_calls() -> None:
    assert parts(call([(10, 20)], [], 30), call([(20, 30)], [], 60))["entering the call"] == (1, 15)


def test_a_call_that_computes_nothing_is_all_leaving() -> None:
    assert parts(call([], [], 30)) == {"leaving the call": (1, 30)}
