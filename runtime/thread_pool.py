"""The process's pool of native threads: its memory, its size, and what happens to it at fork and at exit.

The code of the pool is in every image (compiler/codegen_host/threads/pool.py); the threads run that of the first image
that was given a handle. Threads are created natively, when a call first has work for them, and know nothing of Python.
"""

import atexit
import ctypes
import mmap
import os
import threading
import time
from pathlib import Path

from onnxc.runtime.cpu import Image
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.records import record

__all__ = [
    "MAX_WORKERS", "POOL_LAYOUT", "RECORDING_THREADS", "SPIN_NANOSECONDS", "PoolHandle", "PoolState", "RecordingMemory",
    "available_threads", "pool_handle", "recording_handle", "ticks_per_nanosecond",
]  # fmt: skip

# Changes with every change of PoolState, Handle or CallBox, or of who may write what when: other images are refused.
POOL_LAYOUT = 6
# Of the process: the word has 8 bits for them.
MAX_WORKERS = 255
# In place of the threads of a handle: its loops are recorded, and run as another handle says.
RECORDING_THREADS = 0

# How long a worker looks for the next loop before it sleeps: about as long as waking it takes. A loop of two chunks,
# 0.5 ms after the one before, took 19 us in the best quarter and 70 us at the median, 2 us where the worker was awake
# (two busy cores).
SPIN_NANOSECONDS = 50_000
# For a loop of an abandoned thread to end; threads that are left end with the process, and harm nothing until then.
_STOP_SECONDS = 0.2


class PoolState(ctypes.Structure):
    """The memory that all images share; what different threads write is in different cache lines.

    word: generation << 32 | helpers that may still join << 24 | chunks claimed from the last on << 12 | from the first
    on. A generation is one parallel loop.
    done: chunks that helpers have finished; waiting: whether the caller sleeps until they are.
    lock: held by the caller of the running loop. sleepers: workers that have to be woken.
    function .. chunks: the running loop. workers: threads created; capacity: how many may be.
    processor: where the caller was that last woke workers.
    """

    _fields_ = (
        ("word", ctypes.c_uint64), ("_0", ctypes.c_char * 56),
        ("done", ctypes.c_uint32), ("waiting", ctypes.c_uint32), ("_1", ctypes.c_char * 56),
        ("lock", ctypes.c_uint32), ("_2", ctypes.c_char * 60),
        ("sleepers", ctypes.c_uint32), ("_3", ctypes.c_char * 60),
        ("function", ctypes.c_void_p), ("context", ctypes.c_void_p),
        ("count", ctypes.c_int64), ("grain", ctypes.c_int64), ("chunks", ctypes.c_int64), ("_4", ctypes.c_char * 24),
        ("workers", ctypes.c_uint32), ("capacity", ctypes.c_uint32), ("stop", ctypes.c_uint32),
        ("processor", ctypes.c_uint32),
        ("spin_ticks", ctypes.c_int64), ("entry", ctypes.c_void_p),
        ("pthread_create", ctypes.c_void_p), ("pthread_join", ctypes.c_void_p), ("syscall", ctypes.c_void_p),
        ("threads", ctypes.c_uint64 * MAX_WORKERS),
    )  # fmt: skip


class _HandleMemory(ctypes.Structure):
    """What generated code receives: the pool, and how many threads this caller may use, itself included."""

    _fields_ = (("state", ctypes.c_void_p), ("max_threads", ctypes.c_int64))


class RecordingMemory(ctypes.Structure):
    """A handle whose loops run as `inner` says and leave their times in a log (runtime/native/launch_log.py)."""

    _fields_ = (("outer", _HandleMemory), ("log", ctypes.c_void_p), ("inner", _HandleMemory))


@record
class PoolHandle:
    """The right to use up to `threads` threads of the pool; `address` is the `ptr pool` of generated code."""

    threads: int
    memory: _HandleMemory | RecordingMemory

    @property
    def address(self) -> int:
        """Valid while the handle is alive."""
        return ctypes.addressof(self.memory)


@record
class _Pool:
    """The state lies in memory that is never given back: threads may look at it until the process ends."""

    state: PoolState
    image: Image


_pool: _Pool | None = None
_pool_lock = threading.Lock()


def pool_handle(image: Image, threads: int | None = None) -> PoolHandle:
    """A handle for the code of an image; `threads` is taken as given, None means `available_threads()`."""
    if threads is not None and threads < 1:
        raise InputError(f"threads is {threads}, and at least 1 is needed", code="thread-count")
    count = min(available_threads() if threads is None else threads, MAX_WORKERS + 1)
    if image.function("onnxc_pool_layout", 0)() != POOL_LAYOUT:
        raise DeviceError("the image was compiled by another version of onnxc", code="image-version")
    if count == 1:
        return PoolHandle(1, _HandleMemory(None, 1))
    state = _shared_pool(image).state
    if count > _processors():
        # A thread that spins would keep the processor from one that has work.
        state.spin_ticks = 0
    return PoolHandle(count, _HandleMemory(ctypes.addressof(state), count))


def recording_handle(handle: PoolHandle, log_address: int) -> PoolHandle:
    """A handle like another one whose loops are recorded in the log at the address, which must live as long."""
    outer = _HandleMemory(None, RECORDING_THREADS)
    return PoolHandle(handle.threads, RecordingMemory(outer, log_address, handle.memory))


def available_threads() -> int:
    """The processors this process may use: by affinity, by the quota of its control group, by ONNXC_THREADS."""
    limits = [_processors(), MAX_WORKERS + 1]
    quota = _control_group_processors(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))
    if quota is not None:
        limits.append(max(1, int(quota + 0.5)))
    text = os.environ.get("ONNXC_THREADS", "")
    if text:
        if not text.isdecimal() or int(text) == 0:
            raise InputError(f"ONNXC_THREADS is {text!r}, and a positive number is needed", code="thread-count")
        limits.append(int(text))
    return min(limits)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _control_group_processors(root: Path, membership: Path) -> float | None:
    """The tightest processor quota on the way from the process's control group to the root, None without one.

    Both versions of control groups are read: cpu.max, and cpu.cfs_quota_us with cpu.cfs_period_us.
    """
    quotas = []
    for line in (_text(membership) or "").splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0" and not controllers:
            base = root
        elif "cpu" in controllers.split(","):
            base = root / "cpu"
        else:
            continue
        group = base / path.lstrip("/")
        for folder in (group, *group.parents):
            quotas.append(_quota(folder))
            if folder == base:
                break
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota(folder: Path) -> float | None:
    both = (_text(folder / "cpu.max") or "").split()
    if not both:
        both = [_text(folder / "cpu.cfs_quota_us") or "-1", _text(folder / "cpu.cfs_period_us") or "0"]
    quota, period = (part.strip() for part in both)
    if quota == "max" or int(quota) <= 0 or int(period) <= 0:
        return None
    return int(quota) / int(period)


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _shared_pool(image: Image) -> _Pool:
    global _pool  # noqa: PLW0603 - one pool per process is the point of this module
    with _pool_lock:
        if _pool is None:
            _pool = _create_pool(image)
            atexit.register(_stop)
        return _pool


def _create_pool(image: Image) -> _Pool:
    libc = ctypes.CDLL(None)
    memory = mmap.mmap(-1, ctypes.sizeof(PoolState), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    state = PoolState.from_buffer(memory)
    state.capacity = MAX_WORKERS
    state.spin_ticks = int(ticks_per_nanosecond(image) * SPIN_NANOSECONDS)
    state.entry = image.address("onnxc_worker")
    for name in ("pthread_create", "pthread_join", "syscall"):
        setattr(state, name, ctypes.cast(getattr(libc, name), ctypes.c_void_p).value)
    # The reference that is never dropped keeps the mapping until the process is gone.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(state))
    return _Pool(state, image)


def ticks_per_nanosecond(image: Image) -> float:
    """How far `onnxc_ticks` goes."""
    ticks = image.function("onnxc_ticks", 0)
    first, started = ticks(), time.perf_counter_ns()
    time.sleep(0.0002)
    return (ticks() - first) / (time.perf_counter_ns() - started)


def _forget_threads() -> None:
    """In a forked child: no thread but this one exists, and a loop that ran at the fork runs no more."""
    global _pool_lock  # noqa: PLW0603 - a thread that does not exist here may have held it
    _pool_lock = threading.Lock()
    if _pool is not None:
        state = _pool.state
        state.word = state.done = state.waiting = state.lock = state.sleepers = state.workers = state.chunks = 0


# Before there is a pool: another thread may be making it when this one forks.
os.register_at_fork(after_in_child=_forget_threads)


def _stop() -> None:
    """At exit: threads end, unless a loop goes on; later loops of other Python threads run in these threads alone."""
    if _pool is None:
        return
    stop, state = _pool.image.function("onnxc_pool_stop", 1), ctypes.addressof(_pool.state)
    last = time.monotonic() + _STOP_SECONDS
    while not stop(state) and time.monotonic() < last:
        time.sleep(0.001)
