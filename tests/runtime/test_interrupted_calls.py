"""Calls that do not end: interrupted between any two instructions, by signals, or for want of memory."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import make_executable
from tests.runtime.programs import AFFINE, BIAS, SCALE, artifact, body, launch, program
from tests.support.arrays import assert_same
from tests.support.interruptions import is_interrupted

X = np.linspace(-5, 5, 1000, dtype=np.float32)
ILLEGAL = np.full(1000, 200, np.float32)
IN_TWO_LAUNCHES = program(body(3, [0], [2], [launch("pick", [0], [1]), launch("affine", [1], [2])]))


def affine(x: np.ndarray) -> np.ndarray:
    return x * np.float32(SCALE) + np.float32(BIAS)


def into_given(exe: Executable) -> np.ndarray:
    y = np.empty_like(X)
    exe.run({"x": X}, out={"y": y})
    return y


def after_illegal_data(exe: Executable) -> object:
    with pytest.raises(InputError, match="index 200"):
        exe(ILLEGAL)
    return exe(X)


# fewest: the times a call looks for signals at least. A call in straight-line code has few such instructions.
@pytest.mark.parametrize(
    ("content", "call", "fewest"),
    [(AFFINE, lambda exe: exe(X), 8), (AFFINE, into_given, 50), (IN_TWO_LAUNCHES, lambda exe: exe(X), 12),
     (IN_TWO_LAUNCHES, into_given, 50), (IN_TWO_LAUNCHES, after_illegal_data, 12)],
)  # fmt: skip
def test_a_call_interrupted_at_any_instruction_keeps_no_memory_and_the_next_is_right(
    content: object, call: Callable[[Executable], object], fewest: int
) -> None:
    exe = make_executable(artifact(content), threads=1)
    assert_same(call(exe), affine(X))
    assert_same(call(exe), affine(X))
    start, instruction = exe.stats, 0
    while is_interrupted(lambda: call(exe), instruction):
        assert exe.stats.arena_bytes <= start.arena_bytes
        assert_same(call(exe), affine(X))
        instruction += 1
    assert instruction >= fewest
    assert exe.stats.calls > start.calls + instruction


@contextmanager
def alarms(problem: type[BaseException]) -> Iterator[None]:
    """A handler that raises for SIGALRM, as the time limits of requests have it."""

    def ring(*_: object) -> None:
        raise problem

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("problem", [TimeoutError, KeyboardInterrupt])
def test_a_hundred_calls_that_signals_end_keep_the_memory_of_one(problem: type[BaseException]) -> None:
    exe = make_executable(artifact(AFFINE), threads=1)
    x = np.ones(2_000_000, np.float32)
    exe(x)
    start = exe.stats.arena_bytes
    interrupted = 0
    with alarms(problem):
        for _ in range(100):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003)
                exe(x)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except problem:
                interrupted += 1
    assert interrupted > 0
    assert start <= exe.stats.arena_bytes + start <= 2 * start
    assert_same(exe(X), affine(X))


OUT_OF_MEMORY = """
import resource
import numpy as np
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.load import make_executable
from tests.runtime.programs import AFFINE, artifact

exe = make_executable(artifact(AFFINE), threads=1)
small, large = np.ones(1000, np.float32), np.ones(30_000_000, np.float32)
for x in (large[:5_000_000], small, small):
    exe(x)
start = exe.stats.arena_bytes
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + MARGIN
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for _ in range(100):
    try:
        exe(INPUT)
    except DeviceError as problem:
        assert problem.code == "out-of-memory", problem.code
    else:
        raise SystemExit("a call had room enough")
    assert exe.stats.arena_bytes <= 2 * start, exe.stats
    assert np.array_equal(exe(small), np.full(1000, 3.5, np.float32))
"""


# An output and an arena of 120 MB each: no room for either, for the arena, for a contiguous copy of the input.
@pytest.mark.parametrize(("margin", "given"), [(60e6, "large"), (180e6, "large"), (60e6, "large[::-1]")])
def test_a_hundred_calls_for_which_memory_is_short_are_device_errors(margin: float, given: str) -> None:
    script = OUT_OF_MEMORY.replace("MARGIN", str(int(margin))).replace("INPUT", given)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
