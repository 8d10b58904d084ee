"""Workers keep off the processor of their caller, within the processors that they are given."""

import ctypes
import os
import threading
from collections.abc import Callable, Set
from functools import cache

import pytest

from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.codegen_host.threads.processors import (
    KEEP_APART,
    NOTE_PROCESSOR,
    PROCESSORS_WORDS,
    processor_functions,
)
from onnxc.compiler.target import parse_target
from onnxc.runtime.cpu import Image, load_image
from onnxc.runtime.thread_pool import PoolState

HOST = parse_target("cpu")
ENTRIES = f"""
define i64 @note(ptr %state) {{
  call void @{NOTE_PROCESSOR}(ptr %state)
  ret i64 0
}}
define i64 @apart(ptr %words) {{
  %state = load ptr, ptr %words, align 8
  %second = getelementptr i64, ptr %words, i64 1
  %processors = load ptr, ptr %second, align 8
  call void @{KEEP_APART}(ptr %state, ptr %processors)
  ret i64 0
}}
"""
ALL = frozenset(os.sched_getaffinity(0))

several = pytest.mark.skipif(len(ALL) < 2, reason="one processor, and no other to go to")


@cache
def image() -> Image:
    code = "\n".join(function.text() for function in processor_functions(HOST.arch)) + ENTRIES
    return load_image(build_image([compile_object(code, HOST)], ("note", "apart"), HOST))


class Worker:
    """A thread of a pool, as far as processors go."""

    def __init__(self) -> None:
        self.state, self.processors = PoolState(), (ctypes.c_uint64 * PROCESSORS_WORDS)()
        self.state.syscall = ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value

    def note(self) -> int:
        image().function("note", 1)(ctypes.byref(self.state))
        return self.state.processor

    def wake_beside_caller(self, caller: int, given: Set[int] | None = None) -> Set[int]:
        """The processors that it is allowed after it has woken where the caller is; `given`: by somebody else."""
        before = os.sched_getaffinity(0) if given is None else given
        words = (ctypes.c_void_p * 2)(ctypes.addressof(self.state), ctypes.addressof(self.processors))
        for _ in range(100):
            os.sched_setaffinity(0, {caller})
            assert self.note() == caller
            os.sched_setaffinity(0, before)
            image().function("apart", 1)(ctypes.byref(words))
            # The system may have moved it in the meantime, of itself.
            if os.sched_getaffinity(0) != before:
                break
        return os.sched_getaffinity(0)


def in_thread(work: Callable[[], None]) -> None:
    problems: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for problem in problems:
        raise problem


@several
def test_a_worker_beside_its_caller_goes_elsewhere() -> None:
    def work() -> None:
        worker, caller = Worker(), min(ALL)
        assert worker.wake_beside_caller(caller) == ALL - {caller}
        assert worker.note() != caller

    in_thread(work)


@several
def test_it_keeps_off_the_last_caller_alone() -> None:
    def work() -> None:
        worker, (first, second, *_) = Worker(), sorted(ALL)
        assert worker.wake_beside_caller(first) == ALL - {first}
        # It is woken beside another caller where it went.
        os.sched_setaffinity(0, ALL - {first})
        assert worker.wake_beside_caller(second, ALL - {first}) == ALL - {second}

    in_thread(work)


@several
def test_what_somebody_else_allows_is_kept_to() -> None:
    def work() -> None:
        worker, (first, second, *_) = Worker(), sorted(ALL)
        assert worker.wake_beside_caller(first) == ALL - {first}
        assert worker.wake_beside_caller(second, {first, second}) == {first}

    in_thread(work)


def test_where_there_is_no_other_nothing_changes() -> None:
    def work() -> None:
        caller = min(ALL)
        assert Worker().wake_beside_caller(caller, {caller}) == {caller}

    in_thread(work)
