"""Calls that run beside their callers: threads of the process that all executables share, made when first needed."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from onnxc.runtime.thread_pool import available_threads

__all__ = ["submit_call"]

T = TypeVar("T")

_executor: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def submit_call(call: Callable[[], T]) -> Future[T]:
    """What the call will give or raise. As many calls run at a time as the process may use processors."""
    global _executor  # noqa: PLW0603 - one for the process: as many threads as processors serve all executables
    with _lock:
        if _executor is None:
            _executor = ThreadPoolExecutor(available_threads(), "onnxc-call")
        return _executor.submit(call)


def _forget_threads() -> None:
    """In a forked child: its threads exist no more, and one of them may have held the lock."""
    global _executor, _lock
    _executor, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_threads)
