"""What a model may do to a worker, each done on purpose."""

import ctypes
import os
import signal
import time
from collections.abc import Callable

import numpy as np

import onnxc
from onnxc.compiler.diagnostics import error, model_error
from tests.frontend.model_texts import model
from tests.fuzz.agree import Disagreement
from tests.fuzz.guarded import guarded_copy, guarded_output


def empty(_number: int, _seed: int) -> bytes:
    """The model for trials that do not look at it: real ones take seconds to make in a new process."""
    return b""


def accept(_: bytes) -> None:
    return None


def refuse(_: bytes) -> None:
    raise model_error([error("cycle", "a cycle")])


def fail(_: bytes) -> None:
    raise ValueError("boom")


def hang(_: bytes) -> None:
    time.sleep(60)


def sleep() -> int:
    time.sleep(60)
    return 1


def loop(_: bytes) -> Callable[[], int]:
    return sleep


def run(_: bytes) -> Callable[[], int]:
    return lambda: 3


def run_nothing(_: bytes) -> Callable[[], int]:
    return lambda: 0


def disagree(_: bytes) -> Callable[[], int]:
    def differ() -> int:
        raise Disagreement("1 is not 2")

    return differ


def overrun(_: bytes) -> Callable[[], int]:
    def read() -> int:
        read_behind()
        return 1

    return read


def die(_: bytes) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def devour(_: bytes) -> None:
    np.ones(1 << 29).sum()


def read_behind() -> None:
    guarded = guarded_copy(np.ones(3, np.float32), "behind")
    ctypes.string_at(guarded.ctypes.data, guarded.nbytes + 1)


def read_before() -> None:
    guarded = guarded_copy(np.ones(3, np.float32), "before")
    ctypes.string_at(guarded.ctypes.data - 1, 1)


def write_behind() -> None:
    guarded = guarded_output(np.ones(3, np.float32), "behind")
    ctypes.memset(guarded.ctypes.data, 0, guarded.nbytes + 1)


def write_input() -> None:
    guarded = guarded_copy(np.ones(3, np.float32), "behind")
    ctypes.memset(guarded.ctypes.data, 0, 1)


def call_beyond() -> None:
    """Native code of ours that is given fewer elements than it is told there are."""
    executable = onnxc.compile(model("g (float[N] x) => (float[N] y) { y = Exp(x) }"))
    guarded = guarded_copy(np.ones(64, np.float32), "behind")
    executable(np.lib.stride_tricks.as_strided(guarded, (65,), (4,)))
