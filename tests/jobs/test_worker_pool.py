"""Compiling processes: kept, replaced when they die or are late, ended with the pool. The workers here only pretend."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

import onnxc.compiler.jobs.worker_pool as module
from onnxc.compiler.codegen_gpu.compile.compile_job import Compiled, Job
from onnxc.compiler.codegen_gpu.compile.kernel_pool import KernelPool, kernel_environment, new_kernel_pool
from onnxc.compiler.jobs.job import Failed
from onnxc.runtime.errors import DeviceError

# What a job says is what the process does; its number of the process is the answer.
WORKER = """
import os, sys, time
from multiprocessing.connection import Connection
from onnxc.compiler.codegen_gpu.compile.compile_job import Compiled
from onnxc.compiler.jobs.job import Failed

connection = Connection(int(sys.argv[1]))
while True:
    try:
        job = connection.recv()
    except EOFError:
        break
    os.ftruncate(2, 0)
    kind, _, rest = job.text.partition(" ")
    if kind == "sleep":
        time.sleep(float(rest))
    elif kind == "die":
        print("the last words", file=sys.stderr, flush=True)
        os._exit(3)
    elif kind == "die-once" and not os.path.exists(rest):
        open(rest, "w").close()
        os.abort()
    elif kind == "late":
        with open(rest, "a") as begun:
            begun.write("x")
        time.sleep(60)
    elif kind == "grandchild":
        import subprocess
        child = subprocess.Popen(["sleep", "60"])
        print("grandchild", child.pid, file=sys.stderr, flush=True)
        time.sleep(60)
    elif kind == "fail":
        print("noise " * 10000 + "of the compiler", file=sys.stderr, flush=True)
        connection.send(Failed("no"))
        continue
    connection.send(Compiled(job.name, str(os.getpid()).encode(), 1, 1, 0, 0, False))
"""


def job(text: str, name: str = "kernel") -> Job:
    return Job(name, text, (), (), 4, 3, 90)


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    return (sys.executable, "-P", str(script))


@pytest.fixture
def pool(command: tuple[str, ...]) -> Iterator[KernelPool]:
    made = new_kernel_pool(command, timeout_seconds=20)
    yield made
    made.close()


def process_of(result: Compiled | Failed) -> int:
    assert isinstance(result, Compiled), result
    return int(result.cubin)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"


def test_without_jobs_there_are_no_processes(pool: KernelPool) -> None:
    assert pool.run([], 2) == []
    assert pool.process_ids == ()


def test_results_are_in_the_order_of_the_jobs_and_processes_are_kept(pool: KernelPool) -> None:
    told: list[int] = []
    jobs = [job("sleep 0.1" if number == 0 else "x" * number, str(number)) for number in range(9)]
    results = pool.run(jobs, 2, told.append)
    assert [result.entry for result in results if isinstance(result, Compiled)] == [str(n) for n in range(9)]
    assert told == list(range(1, 10))
    assert len(pool.process_ids) == 2
    assert {process_of(result) for result in results} <= set(pool.process_ids)
    again = pool.run(jobs[1:2], 2)
    assert process_of(again[0]) in {process_of(result) for result in results}


def test_there_are_no_more_processes_than_jobs(pool: KernelPool) -> None:
    pool.run([job("x")], 8)
    assert len(pool.process_ids) == 1


def test_a_process_that_dies_fails_its_job_alone_and_is_replaced(pool: KernelPool) -> None:
    first, bad, last = pool.run([job("x"), job("die"), job("y")], 1)
    assert bad == Failed("the process that compiles it ended with status 3\nthe last words")
    assert isinstance(first, Compiled)
    assert isinstance(last, Compiled)
    assert isinstance(pool.run([job("x")], 1)[0], Compiled)


def test_a_job_whose_process_died_is_tried_again(pool: KernelPool, tmp_path: Path) -> None:
    (result,) = pool.run([job(f"die-once {tmp_path / 'died'}")], 2)
    assert isinstance(result, Compiled)


def test_a_process_that_was_killed_between_jobs_is_replaced(pool: KernelPool) -> None:
    (first,) = pool.run([job("x")], 1)
    os.kill(process_of(first), signal.SIGKILL)
    (second,) = pool.run([job("x")], 1)
    assert process_of(second) != process_of(first)


def test_a_job_that_takes_too_long_is_ended_with_what_it_started(command: tuple[str, ...]) -> None:
    pool = new_kernel_pool(command, timeout_seconds=3)
    late, good = pool.run([job("grandchild"), job("x")], 2)
    assert isinstance(late, Failed)
    assert late.reason.startswith("compiling took more than 3 s\ngrandchild ")
    assert isinstance(good, Compiled)
    grandchild = int(late.reason.split()[-1])
    deadline = time.monotonic() + 10
    while is_alive(grandchild) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(grandchild)
    pool.close()


def test_a_job_that_takes_too_long_is_not_tried_again(command: tuple[str, ...], tmp_path: Path) -> None:
    pool = new_kernel_pool(command, timeout_seconds=2)
    (late,) = pool.run([job(f"late {tmp_path / 'begun'}")], 1)
    assert late == Failed("compiling took more than 2 s")
    assert (tmp_path / "begun").read_text() == "x"
    pool.close()


def test_processes_that_have_ended_between_jobs_are_no_attempts(pool: KernelPool) -> None:
    pool.run([job("sleep 0.5"), job("sleep 0.5")], 2)
    ids = pool.process_ids
    assert len(ids) == 2
    for process in ids:
        os.kill(process, signal.SIGKILL)
    while any(map(is_alive, ids)):
        time.sleep(0.01)
    (result,) = pool.run([job("x")], 1)
    assert process_of(result) not in ids


def test_the_end_of_what_a_compiler_prints_is_kept(pool: KernelPool) -> None:
    (result,) = pool.run([job("fail")], 1)
    assert isinstance(result, Failed)
    assert result.reason.startswith("no\n")
    assert result.reason.endswith("of the compiler")
    assert len(result.reason) < 5000


def test_an_interrupted_run_leaves_no_process_with_a_job(pool: KernelPool) -> None:
    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.run([job("x"), job("sleep 60")], 2, interrupt)
    assert pool.process_ids == ()
    assert isinstance(pool.run([job("x")], 2)[0], Compiled)


def test_threads_take_turns(pool: KernelPool) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.extend(map(process_of, pool.run([job("x"), job("y")], 2))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8


def test_closing_ends_the_processes_and_removes_their_files(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    pool = new_kernel_pool(command)
    pool.run([job("x")], 1)
    (process,) = pool.process_ids
    assert [path.is_dir() for path in (tmp_path / "temporary").iterdir()] == [True]
    pool.close()
    assert not is_alive(process)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_processes_end_with_the_one_that_started_them(command: tuple[str, ...]) -> None:
    code = f"""
from onnxc.compiler.codegen_gpu.compile import kernel_pool
from onnxc.compiler.codegen_gpu.compile.compile_job import Job
pool = kernel_pool.shared_pool()
pool._command = {command!r}
pool.run([Job("kernel", "x", (), (), 4, 3, 90)], 1)
print(*pool.process_ids)
"""
    root = Path(module.__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert not is_alive(int(done.stdout))


def test_a_forked_process_has_workers_of_its_own(command: tuple[str, ...]) -> None:
    code = f"""
import os, sys
from onnxc.compiler.codegen_gpu.compile import kernel_pool
from onnxc.compiler.codegen_gpu.compile.compile_job import Job
pool = kernel_pool.shared_pool()
pool._command = {command!r}
job = Job("kernel", "x", (), (), 4, 3, 90)
(ours,) = pool.run([job], 1)
child = os.fork()
(found,) = pool.run([job], 1)
assert (found.cubin == ours.cubin) == bool(child), (found, ours, child)
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert pool.run([job], 1) == [ours]
"""
    root = Path(module.__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_cannot_be_started_is_a_device_error() -> None:
    with pytest.raises(DeviceError, match="cannot start a process that compiles kernels") as refused:
        new_kernel_pool(("/absent/python",)).run([job("x")], 1)
    assert refused.value.code == "no-compile-process"


def test_settings_of_the_user_do_not_reach_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRITON_INTERPRET", "TRITON_DEBUG", "DISABLE_PTXAS_OPT", "PTXAS_OPTIONS", "PYTHONWARNINGS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("KEPT", "1")
    environment = kernel_environment(str(tmp_path))
    assert {name: value for name, value in environment.items() if name.startswith(("TRITON", "PTXAS", "DISABLE"))} == {
        "TRITON_CACHE_DIR": str(tmp_path / "cache"),
        "TRITON_DISABLE_LINE_INFO": "1",
        "TRITON_STORE_BINARY_ONLY": "1",
    }
    assert environment["KEPT"] == "1"
    assert "PYTHONWARNINGS" not in environment


def test_jobs_are_answered_while_more_come(pool: KernelPool, tmp_path: Path) -> None:
    with pool.stream(2) as submit:
        first = submit(job("x"))
        process = process_of(first.result())
        second = submit(job("die"))
        assert second.result() == Failed("the process that compiles it ended with status 3\nthe last words")
        assert process_of(submit(job(f"die-once {tmp_path / 'died'}")).result()) != process
        assert len(pool.process_ids) <= 2


def test_a_stream_that_is_interrupted_leaves_no_process_and_no_thread(pool: KernelPool) -> None:
    threads = threading.active_count()
    answers: list[Future[Compiled | Failed]] = []

    def interrupted() -> None:
        with pool.stream(2) as submit:
            answers.extend(submit(job("sleep 60")) for _ in range(5))
            time.sleep(0.2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert pool.process_ids == ()
    assert threading.active_count() == threads
    results = [answer.result() for answer in answers if not answer.cancelled()]
    assert len(results) == 2
    assert set(results) == {Failed("the process that compiles it was ended by signal 9")}
    assert isinstance(pool.run([job("x")], 1)[0], Compiled)


def test_a_stream_without_jobs_has_no_processes(pool: KernelPool) -> None:
    with pool.stream(2):
        assert pool.process_ids == ()
    assert pool.process_ids == ()
