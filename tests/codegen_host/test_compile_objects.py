"""Objects of modules: the same bytes from every process and from the cache, each module compiled at most once."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from onnxc.compiler.codegen_host import compile_objects as module
from onnxc.compiler.codegen_host.compile_objects import ObjectJob, compile_objects, object_key, object_stream
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.jobs.job import Failed
from onnxc.compiler.jobs.worker_pool import WorkerPool
from onnxc.compiler.target import Target, parse_target
from tests.codegen_host.native import HOST

TEXTS = tuple(
    f"define i64 @f{number}(i64 %x) {{\n  %y = mul i64 %x, {number}\n  ret i64 %y\n}}\n" for number in range(3)
)


@pytest.fixture
def compiled_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that this process compiles, from now on."""
    texts: list[str] = []

    def compile_and_count(text: str, target: Target) -> bytes:
        texts.append(text)
        return compile_object(text, target)

    monkeypatch.setattr(module, "compile_object", compile_and_count)
    return texts


def test_objects_come_from_the_cache_where_they_are_there(tmp_path: Path, compiled_here: list[str]) -> None:
    expected = tuple(compile_object(text, HOST) for text in TEXTS)
    assert compile_objects(TEXTS[:2], HOST, tmp_path) == expected[:2]
    assert compile_objects(TEXTS, HOST, tmp_path) == expected
    assert compile_objects(TEXTS[::-1], HOST, tmp_path) == expected[::-1]
    assert compiled_here == list(TEXTS)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".object"] * 3


def test_without_a_folder_all_is_compiled_each_time(compiled_here: list[str]) -> None:
    for _ in range(2):
        compile_objects(TEXTS[:1], HOST, None)
    assert compiled_here == [TEXTS[0]] * 2


@contextmanager
def held_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """The first module that this process compiles takes until the end, or until the event."""
    go_on = Event()

    def compile_when_told(text: str, target: Target) -> bytes:
        assert go_on.wait(60)
        return compile_object(text, target)

    with monkeypatch.context() as changed:
        changed.setattr(module, "compile_object", compile_when_told)
        try:
            yield go_on
        finally:
            go_on.set()


def test_processes_compile_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_CHARACTERS", 1)
    monkeypatch.setattr(module, "default_count", lambda: 2)
    with held_here(monkeypatch) as go_on, object_stream(HOST, None) as objects:
        for text in TEXTS:
            objects.add(text)
        answers = [objects._asked[object_key(text, HOST)].result(60) for text in TEXTS[1:]]
        assert answers == [compile_object(text, HOST) for text in TEXTS[1:]]
        go_on.set()
        assert objects.objects() == tuple(compile_object(text, HOST) for text in TEXTS)


@pytest.mark.parametrize("command", [("/absent/python",), ("/bin/false",)], ids=["cannot start", "dies"])
def test_what_processes_do_not_give_is_compiled_here(
    monkeypatch: pytest.MonkeyPatch, compiled_here: list[str], command: tuple[str, ...]
) -> None:
    pool = WorkerPool[ObjectJob, bytes](command, 20.0)
    monkeypatch.setattr(module, "LEAST_CHARACTERS", 1)
    monkeypatch.setattr(module, "default_count", lambda: 2)
    monkeypatch.setattr(module, "_pool", pool)
    try:
        assert compile_objects(TEXTS, HOST, None) == tuple(compile_object(text, HOST) for text in TEXTS)
    finally:
        pool.close()
    assert sorted(compiled_here) == sorted(TEXTS)


def test_modules_are_compiled_while_others_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    @contextmanager
    def stream(count: int) -> Iterator[Callable[[ObjectJob], Future[bytes | Failed]]]:
        assert count == 1

        def submit(job: ObjectJob) -> Future[bytes | Failed]:
            given.append(job.text)
            answer: Future[bytes | Failed] = Future()
            answer.set_result(job.text.encode())
            return answer

        yield submit

    monkeypatch.setattr(module, "LEAST_CHARACTERS", len(TEXTS[1]) + len(TEXTS[2]))
    monkeypatch.setattr(module, "default_count", lambda: 2)
    monkeypatch.setattr(module._pool, "stream", stream)
    told: list[tuple[int, int]] = []
    with held_here(monkeypatch) as go_on, object_stream(HOST, None, lambda *done: told.append(done)) as objects:
        # The first one is this process's, and does not wait.
        for text in (TEXTS[0], TEXTS[0], TEXTS[1]):
            objects.add(text)
            assert given == []
        objects.add(TEXTS[2])
        assert given == list(TEXTS[1:])
        go_on.set()
        first, others = compile_object(TEXTS[0], HOST), [text.encode() for text in TEXTS[1:]]
        assert objects.objects() == (first, first, *others)
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_this_process_takes_back_what_no_process_has_begun_with(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Future[bytes | Failed]] = []

    @contextmanager
    def stream(count: int) -> Iterator[Callable[[ObjectJob], Future[bytes | Failed]]]:
        def submit(job: ObjectJob) -> Future[bytes | Failed]:
            asked.append(Future())
            return asked[-1]

        yield submit

    monkeypatch.setattr(module, "LEAST_CHARACTERS", 1)
    monkeypatch.setattr(module, "default_count", lambda: 2)
    monkeypatch.setattr(module._pool, "stream", stream)
    with held_here(monkeypatch) as go_on, object_stream(HOST, None) as objects:
        for text in TEXTS:
            objects.add(text)
        assert asked[0].set_running_or_notify_cancel()
        go_on.set()
        asked[0].set_result(b"of a process")
        first, _, last = (compile_object(text, HOST) for text in TEXTS)
        assert objects.objects() == (first, b"of a process", last)
    assert [answer.cancelled() for answer in asked] == [False, True]


def test_a_module_that_llvm_refuses_is_told_of() -> None:
    with pytest.raises(AssertionError, match="LLVM rejects the generated code"):
        compile_objects([TEXTS[0], "define i64 @f() {\n  ret i32 0\n}\n"], HOST, None)


def test_all_that_an_object_is_compiled_from_is_in_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    target = parse_target("cpu:x86-64-v4")
    keys = [object_key(TEXTS[0], target), object_key(TEXTS[1], target)]
    keys.append(object_key(TEXTS[0], parse_target("cpu:x86-64-v3")))
    keys += [object_key(TEXTS[0], replace(target, extras=("avx512vnni",)))]
    monkeypatch.setattr(module.llvmlite, "__version__", "0")
    keys.append(object_key(TEXTS[0], target))
    monkeypatch.setattr(module, "CACHE_VERSION", 1 << 20)
    keys.append(object_key(TEXTS[0], target))
    assert len(set(keys)) == len(keys)
