"""Loops that are recorded: they do what they did, and the log has each of them and each of their chunks once."""

import numpy as np
import pytest

from onnxc.runtime.native.launch_log import RECORD_ENDED, RECORD_LOOP, RECORD_STARTED, RECORD_THREAD, LaunchLog
from onnxc.runtime.thread_pool import PoolHandle, pool_handle, recording_handle
from tests.codegen_host.native import counting_image


def count(handle: PoolHandle, items: int, grain: int, times: int) -> list[int]:
    counts = np.zeros(max(items, 1), np.int32)
    counting_image().function("count", 5)(handle.address, counts.ctypes.data, items, grain, times)
    return counts.tolist()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("items", "grain"), [(1, 1), (7, 1), (64, 64), (64, 5), (3, 0)])
def test_each_loop_and_each_shared_chunk_leaves_a_record(threads: int, items: int, grain: int) -> None:
    log = LaunchLog()
    handle = recording_handle(pool_handle(counting_image(), threads), log.address)
    assert count(handle, items, grain, times=10) == [10] * items
    rows = log.take().rows
    loops, chunks = rows[rows[:, RECORD_LOOP] == 0], rows[rows[:, RECORD_LOOP] == 1]
    assert len(loops) == 10
    assert (rows[:, RECORD_ENDED] >= rows[:, RECORD_STARTED]).all()
    assert len(set(loops[:, RECORD_THREAD])) == 1
    # Any helpers of the process may join, another one in each loop.
    assert len(set(rows[:, RECORD_THREAD])) == 1 or threads > 1
    is_shared = threads > 1 and items > max(grain, 1)
    # Alone, where the pool is busy or has no threads, all chunks of a loop are one.
    assert 10 <= len(chunks) <= 10 * -(-items // max(grain, 1)) if is_shared else len(chunks) == 0


def test_chunks_lie_within_their_loops() -> None:
    log = LaunchLog()
    count(recording_handle(pool_handle(counting_image(), 2), log.address), 1000, 10, times=1)
    rows = log.take().rows
    (loop,) = rows[rows[:, RECORD_LOOP] == 0]
    assert rows[:, RECORD_STARTED].min() == loop[RECORD_STARTED]
    assert rows[:, RECORD_ENDED].max() == loop[RECORD_ENDED]


@pytest.mark.parametrize("items", [0, -3])
def test_a_loop_over_nothing_leaves_no_record(items: int) -> None:
    log = LaunchLog()
    count(recording_handle(pool_handle(counting_image(), 2), log.address), items, 1, times=5)
    assert len(log.take().rows) == 0


def test_a_full_log_is_not_written_past_its_end() -> None:
    log = LaunchLog(capacity=3)
    behind = log._words[-8:].copy()
    assert count(recording_handle(pool_handle(counting_image(), 1), log.address), 4, 4, times=50) == [50] * 4
    taken = log.take()
    assert (len(taken.rows), taken.lost) == (3, 47)
    np.testing.assert_array_equal(log._words[-8:], behind)


def test_ordinary_handles_leave_none() -> None:
    log = LaunchLog()
    inner = pool_handle(counting_image(), 2)
    recording_handle(inner, log.address)
    count(inner, 100, 1, times=5)
    assert len(log.take().rows) == 0
