"""What a model may do to a worker, each done on purpose."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from onnxc.compiler.diagnostics import error, model_error


def accept(_: bytes) -> None:
    return None


def refuse(_: bytes) -> None:
    raise model_error([error("cycle", "a cycle")])


def fail(_: bytes) -> None:
    raise ValueError("boom")


def hang(_: bytes) -> None:
    time.sleep(60)


def loop(_: bytes) -> Callable[[], None]:
    return partial(time.sleep, 60)


def die(_: bytes) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def devour(_: bytes) -> None:
    np.ones(1 << 29).sum()
