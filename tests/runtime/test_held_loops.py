"""The thread pool while a loop is held up: nested loops, other callers, signals, fork, exit, many threads.

A loop is held by gates that its items wait for, so that what a test is about has happened before the test goes on.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pytest

from onnxc.runtime import thread_pool
from onnxc.runtime.thread_pool import PoolState, pool_handle
from tests.codegen_host.pool_loops import pool_loops
from tests.runtime.test_thread_pool import count, expected, run_script

Counts = npt.NDArray[np.int32]


@contextmanager
def held_loop(items: int, threads: int, function: str = "hold", counts_per_item: int = 1) -> Iterator[Counts]:
    """The counts of a loop in another thread, all of whose items but the first have begun and none has ended.

    Behind the block the loop ends, and has counted every item once.
    """
    counts, gates = np.zeros(items * counts_per_item, np.int32), np.zeros(items, np.int32)
    handle = pool_handle(pool_loops(), threads)
    loop = pool_loops().function(function, 5)
    caller = threading.Thread(target=loop, args=(handle.address, counts.ctypes.data, items, 1, gates.ctypes.data))
    caller.start()
    try:
        wait_until(lambda: bool((counts == 1).all()))
        yield counts
    finally:
        gates[:] = 1
        caller.join()
    assert (counts == 1).all()


def wait_until(condition: Callable[[], bool]) -> None:
    """Returns once the condition holds; what never happens is a failure, not a hang."""
    last = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < last, "what the test waits for does not happen"
        time.sleep(0.001)


def pool_state() -> PoolState:
    assert thread_pool._pool is not None
    return thread_pool._pool.state


# Threads


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_as_many_helpers_join_as_the_loop_may_have(threads: int) -> None:
    with held_loop(threads, threads):
        assert pool_state().workers >= threads - 1


def test_the_caller_claims_from_the_first_item_on_and_workers_from_the_last() -> None:
    counts, gates = np.zeros(5, np.int32), np.zeros(5, np.int32)
    handle = pool_handle(pool_loops(), 2)
    loop = pool_loops().function("hold", 5)
    caller = threading.Thread(target=loop, args=(handle.address, counts.ctypes.data, 5, 1, gates.ctypes.data))
    caller.start()
    try:
        for opened, begun in ((None, [1, 0, 0, 0, 1]), (4, [1, 0, 0, 1, 1]), (0, [1, 1, 0, 1, 1])):
            if opened is not None:
                gates[opened] = 1
            wait_until(lambda begun=begun: counts.tolist() == begun)  # type: ignore[misc]
    finally:
        gates[:] = 1
        caller.join()
    np.testing.assert_array_equal(counts, np.ones(5, np.int32))


def test_a_loop_inside_a_loop_runs_in_the_thread_of_the_pool_that_starts_it() -> None:
    with held_loop(3, 3, "hold_nested", counts_per_item=8):
        assert pool_state().lock == 1


def test_another_caller_does_not_wait_for_the_loop() -> None:
    with held_loop(2, 2):
        handle = pool_handle(pool_loops(), 2)
        np.testing.assert_array_equal(count(handle, 100, 1, times=10), expected(100, 10))
        assert pool_state().lock == 1


# Signals


@pytest.fixture
def raises_at_ctrl_c() -> Iterator[None]:
    """KeyboardInterrupt at SIGINT, which is ignored where a shell has started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("raises_at_ctrl_c")
def test_ctrl_c_while_the_caller_sleeps_is_raised_when_the_loop_has_ended() -> None:
    counts, gates = np.zeros(2, np.int32), np.zeros(2, np.int32)
    handle, caller = pool_handle(pool_loops(), 2), threading.get_ident()

    def interrupt() -> None:
        try:
            wait_until(lambda: bool((counts == 1).all()))
            gates[0] = 1
            wait_until(lambda: pool_state().waiting == 1)
            signal.pthread_kill(caller, signal.SIGINT)
        finally:
            gates[:] = 1

    helper = threading.Thread(target=interrupt)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        pool_loops().function("hold", 5)(handle.address, counts.ctypes.data, 2, 1, gates.ctypes.data)
    helper.join()
    np.testing.assert_array_equal(counts, [1, 1])
    assert pool_state().lock == 0
    with held_loop(3, 3):
        assert pool_state().lock == 1


def test_a_signal_that_a_worker_gets_does_not_end_it() -> None:
    output = run_held("""
        caught = []
        signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
        for _ in range(10):
            with held_loop(3, 3):
                pass
            for thread in pool_state().threads[:2]:
                signal.pthread_kill(thread, signal.SIGUSR1)
        wait_until(lambda: caught)
        with held_loop(3, 3):
            assert pool_state().workers == 2
        print("ok")
    """)
    assert output == "ok\n"


# Fork


def test_a_child_forked_during_a_loop_has_loops_of_its_own() -> None:
    output = run_held("""
        with held_loop(3, 3):
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                assert (pool_state().lock, pool_state().workers) == (0, 0)
                with held_loop(3, 3):
                    assert pool_state().workers == 2
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert pool_state().lock == 1
        print("ok")
    """)
    assert output == "ok\n"


def test_a_child_forked_while_another_thread_makes_the_pool_can_make_one() -> None:
    output = run_held("""
        with thread_pool._pool_lock:
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                with held_loop(2, 2):
                    assert pool_state().workers == 1
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
        print("ok")
    """)
    assert output == "ok\n"


# Exit


HELD_FOR_EVER = """
        counts, gates = np.zeros(2, np.int32), np.zeros(2, np.int32)
        handle, loop = pool_handle(pool_loops(), 2), pool_loops().function("hold", 5)
        arguments = (handle.address, counts.ctypes.data, 2, 1, gates.ctypes.data)
        caller = threading.Thread(target=loop, args=arguments, daemon=True)
        caller.start()
        wait_until(lambda: (counts == 1).all())
"""


def test_the_process_ends_while_a_loop_does_not() -> None:
    output = run_held(f"""{HELD_FOR_EVER}
        print("ok")
    """)
    assert output == "ok\n"


def test_stopping_gives_up_on_a_loop_that_goes_on_and_later_ones_run_in_their_callers() -> None:
    output = run_held(f"""{HELD_FOR_EVER}
        thread_pool._stop()
        assert (pool_state().stop, pool_state().lock, pool_state().workers) == (0, 1, 1)
        gates[:] = 1
        caller.join()
        assert pool_state().lock == 0
        assert (count(pool_handle(pool_loops(), 4), 100, 1, times=100)[:100] == 100).all()
        assert pool_state().workers == 1, "no new ones"
        thread_pool._stop()
        assert (pool_state().stop, pool_state().lock, pool_state().workers) == (1, 1, 0)
        wait_until(lambda: threads_of_the_process() == 1)  # a thread that is joined is listed for a moment more
        print("ok")
    """)
    assert output == "ok\n"


def test_a_stopped_pool_stays_so() -> None:
    output = run_held("""
        with held_loop(3, 3):
            pass
        for _ in range(2):
            thread_pool._stop()
            assert (pool_state().stop, pool_state().lock, pool_state().workers) == (1, 1, 0)
        print("ok")
    """)
    assert output == "ok\n"


# In a process of its own


def run_held(body: str, seconds: int = 60) -> str:
    """What the script prints, with the functions of this file at hand."""
    return run_script(body, IMPORTS, seconds)


IMPORTS = """
import signal
from tests.runtime.test_held_loops import held_loop, pool_state, wait_until
"""
