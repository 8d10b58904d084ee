"""The thread pool: every item once, whoever calls, however many threads, across fork and exit."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from onnxc.compiler.codegen_host.linking.link import link_image
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.runtime import thread_pool
from onnxc.runtime.cpu import load_image
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.thread_pool import MAX_WORKERS, PoolHandle, available_threads, pool_handle
from tests.codegen_host.native import HOST, counting_image

ROOT = Path(__file__).parents[2]


def count(handle: PoolHandle | None, items: int, grain: int, times: int = 1) -> npt.NDArray[np.int32]:
    """How often each item was visited, and two more numbers behind them that nobody should touch."""
    counts = np.zeros(max(items, 0) + 2, np.int32)
    address = handle.address if handle is not None else None
    counting_image().function("count", 5)(address, counts.ctypes.data, items, grain, times)
    return counts


def expected(items: int, times: int = 1) -> npt.NDArray[np.int32]:
    return np.array([*[times] * max(items, 0), 0, 0], np.int32)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("items", [-1, 0, 1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("grain", [-5, 0, 1, 3, 64, 2000])
def test_every_item_is_visited_once(items: int, grain: int, threads: int) -> None:
    handle = pool_handle(counting_image(), threads)
    np.testing.assert_array_equal(count(handle, items, grain), expected(items))


@pytest.mark.parametrize("threads", [2, 3])
def test_counts_are_exact_over_many_loops(threads: int) -> None:
    handle = pool_handle(counting_image(), threads)
    np.testing.assert_array_equal(count(handle, 50, 7, times=20_000), expected(50, 20_000))


def test_loops_of_few_and_many_items_take_turns() -> None:
    output = run_script("""
        for threads in (2, 3, 8):
            handle, counts = pool_handle(pool_loops(), threads), np.zeros(42, np.int32)
            pool_loops().function("count_pairs", 5)(handle.address, counts.ctypes.data, 40, 1, 20_000)
            np.testing.assert_array_equal(counts, [40_000] * 2 + [20_000] * 38 + [0] * 2)
        print("ok")
    """)
    assert output == "ok\n"


@pytest.mark.slow
@pytest.mark.parametrize("items", [40, 400])
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_a_million_loops_of_few_and_many_items_take_turns(threads: int, items: int) -> None:
    output = run_script(
        f"""
        handle, counts = pool_handle(pool_loops(), {threads}), np.zeros({items} + 2, np.int32)
        pool_loops().function("count_pairs", 5)(handle.address, counts.ctypes.data, {items}, 1, 1_000_000)
        np.testing.assert_array_equal(counts, [2_000_000] * 2 + [1_000_000] * ({items} - 2) + [0] * 2)
        print("ok")
        """,
        seconds=600,
    )
    assert output == "ok\n"


def test_without_a_pool_the_caller_does_everything() -> None:
    np.testing.assert_array_equal(count(None, 100, 10), expected(100))


def test_more_items_than_the_chunk_counter_holds() -> None:
    items = (1 << 24) + 12_345
    counts = count(pool_handle(counting_image(), 2), items, 1)
    assert (counts[:items] == 1).all()
    assert (counts[items:] == 0).all()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_loop_inside_a_loop(threads: int) -> None:
    counts = np.zeros(100 * 8, np.int32)
    handle = pool_handle(counting_image(), threads)
    counting_image().function("count_nested", 5)(handle.address, counts.ctypes.data, 100, 3, 50)
    np.testing.assert_array_equal(counts, np.full(800, 50))


@pytest.mark.parametrize("threads", [2, 5])
def test_callers_in_several_threads(threads: int) -> None:
    results: list[npt.NDArray[np.int32]] = []

    def work() -> None:
        handle = pool_handle(counting_image(), threads)
        results.extend(count(handle, 200, 9, times=300) for _ in range(10))

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(results) == 40
    for result in results:
        np.testing.assert_array_equal(result, expected(200, 300))


def test_workers_are_created_when_a_loop_wants_them_and_not_before() -> None:
    output = run_script("""
        first = pool_handle(counting_image(), 2)
        state = thread_pool._pool.state
        assert state.workers == 0
        count(first, 10, 10)
        assert state.workers == 0, "one chunk needs no helper"
        count(first, 10, 1)
        assert state.workers == 1
        second = pool_handle(counting_image(), 6)
        count(second, 3, 1)
        assert state.workers == 2, "three chunks want two helpers"
        count(second, 100, 1)
        assert state.workers == 5
        count(first, 100, 1)
        assert has_threads(1 + 5)
        print("ok")
    """)
    assert output == "ok\n"


def test_workers_sleep_and_are_woken() -> None:
    output = run_script("""
        handle = pool_handle(counting_image(), 3)
        for _ in range(30):
            assert (count(handle, 100, 1)[:100] == 1).all()
            time.sleep(0.003)
        used = time.process_time()
        time.sleep(0.2)
        assert time.process_time() - used < 0.1, "sleeping workers use no time"
        print("ok")
    """)
    assert output == "ok\n"


@pytest.mark.parametrize("threads", [2, 4])
def test_a_forked_child_has_a_pool_of_its_own(threads: int) -> None:
    output = run_script(f"""
        handle = pool_handle(counting_image(), {threads})
        assert (count(handle, 100, 1, times=100)[:100] == 100).all()
        stop = threading.Event()
        def keep_busy():
            while not stop.is_set():
                count(handle, 1000, 10, times=100)
        busy = threading.Thread(target=keep_busy)
        busy.start()
        for k in range(20):
            child = os.fork()
            if child == 0:
                assert thread_pool._pool.state.workers == 0
                good = (count(handle, 100, 1, times=50)[:100] == 50).all()
                good = good and thread_pool._pool.state.workers == {threads} - 1
                good = good and (count(pool_handle(counting_image(), 3), 10, 1)[:10] == 1).all()
                if k % 2:
                    os._exit(0 if good else 1)
                sys.exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        busy.join()
        assert (count(handle, 100, 1, times=100)[:100] == 100).all()
        print("ok")
    """)
    assert output == "ok\n"


def test_the_process_ends_while_loops_run() -> None:
    output = run_script("""
        handle = pool_handle(counting_image(), 3)
        def forever():
            while True:
                count(handle, 1000, 10, times=100)
        for _ in range(2):
            threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.05)
        print("ok")
    """)
    assert output == "ok\n"


def test_after_the_pool_has_stopped_loops_run_in_their_caller() -> None:
    output = run_script("""
        handle = pool_handle(counting_image(), 3)
        count(handle, 100, 1)
        thread_pool._stop()
        assert has_threads(1)
        assert (count(handle, 100, 1)[:100] == 1).all()
        assert has_threads(1)
        print("ok")
    """)
    assert output == "ok\n"


def test_the_system_may_refuse_threads() -> None:
    output = run_script("""
        # Compiled before: LLVM has no answer to memory that is short.
        image = counting_image()
        resource.setrlimit(resource.RLIMIT_AS, (used_address_space() + (20 << 20), resource.RLIM_INFINITY))
        handle = pool_handle(image, 200)
        counts = count(handle, 1000, 1)
        state = thread_pool._pool.state
        assert state.workers == state.capacity < 199, (state.workers, state.capacity)
        assert (counts[:1000] == 1).all()
        assert (count(handle, 1000, 1)[:1000] == 1).all()
        print("ok")
    """)
    assert output == "ok\n"


PROLOGUE = """
import os, resource, sys, threading, time, warnings
sys.path.insert(0, ".")
warnings.simplefilter("ignore")
import numpy as np
from onnxc.runtime import thread_pool
from onnxc.runtime.thread_pool import pool_handle
from tests.codegen_host.native import counting_image
from tests.codegen_host.pool_loops import pool_loops
from tests.runtime.test_thread_pool import count

def threads_of_the_process():
    return len(os.listdir("/proc/self/task"))

def has_threads(number):
    # A thread that has done its work, such as LLVM's, is listed for a moment more.
    last = time.monotonic() + 30
    while threads_of_the_process() != number and time.monotonic() < last:
        time.sleep(0.001)
    return threads_of_the_process() == number

def used_address_space():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

"""


def run_script(body: str, imports: str = "", seconds: int = 60) -> str:
    """What a fresh process prints; it has to end by itself, in time and without an error."""
    lines = body.splitlines()
    script = PROLOGUE + imports + "\n".join(line.removeprefix(" " * 8) for line in lines)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Sizes


@pytest.mark.parametrize("threads", [0, -1])
def test_a_handle_needs_a_thread(threads: int) -> None:
    with pytest.raises(InputError, match="at least 1") as caught:
        pool_handle(counting_image(), threads)
    assert caught.value.code == "thread-count"


def test_handles_are_limited_by_what_the_pool_can_hold() -> None:
    assert pool_handle(counting_image(), 10_000).threads == MAX_WORKERS + 1


def test_images_of_another_layout_are_refused() -> None:
    text = "define i64 @onnxc_pool_layout() {\n  ret i64 99\n}"
    image = load_image(link_image([compile_object(text, HOST)], ["onnxc_pool_layout"]))
    with pytest.raises(DeviceError) as caught:
        pool_handle(image, 2)
    assert caught.value.code == "image-version"


def test_the_environment_limits_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONNXC_THREADS", raising=False)
    unlimited = available_threads()
    assert 1 <= unlimited <= len(os.sched_getaffinity(0))
    monkeypatch.setenv("ONNXC_THREADS", "1")
    assert available_threads() == 1
    assert pool_handle(counting_image()).threads == 1
    monkeypatch.setenv("ONNXC_THREADS", "100000")
    assert available_threads() == unlimited


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", " "])
def test_the_environment_has_to_make_sense(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ONNXC_THREADS", text)
    with pytest.raises(InputError, match="ONNXC_THREADS") as caught:
        available_threads()
    assert caught.value.code == "thread-count"


def test_affinity_limits_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONNXC_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert available_threads() == 1


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "50000 100000\n", "a/cpu.max": "150000 100000\n"}, 0.5),
        ("0::/a\n", {"a/cpu.max": "max 100000\n"}, None),
        ("0::/not/visible\n", {"cpu.max": "300000 100000\n"}, 3.0),
        ("0::/\n", {}, None),
        ("4:cpu,x:/a\n1:memory:/b\n", {"cpu/a/cpu.cfs_quota_us": "20000\n", "cpu/a/cpu.cfs_period_us": "10000\n"}, 2.0),
        ("4:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, None),
        ("9:cpuset:/\n", {"cpu.max": "100000 100000"}, None),
        (None, {}, None),
    ],
)  # fmt: skip
def test_quotas_of_control_groups(
    tmp_path: Path, membership: str | None, files: dict[str, str], quota: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    own = tmp_path / "membership"
    if membership is not None:
        own.write_text(membership)
    assert thread_pool._control_group_processors(tmp_path, own) == quota
