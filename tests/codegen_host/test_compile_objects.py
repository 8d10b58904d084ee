"""Objects of modules: the same bytes from every process and from the cache, each module compiled at most once."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

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


def test_processes_compile_the_same(monkeypatch: pytest.MonkeyPatch, compiled_here: list[str]) -> None:
    monkeypatch.setattr(module, "LEAST_CHARACTERS", 1)
    monkeypatch.setattr(module, "default_count", lambda: 2)
    assert compile_objects(TEXTS, HOST, None) == tuple(compile_object(text, HOST) for text in TEXTS)
    assert compiled_here == []


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
        assert count == 2

        def submit(job: ObjectJob) -> Future[bytes | Failed]:
            given.append(job.text)
            answer: Future[bytes | Failed] = Future()
            answer.set_result(job.text.encode())
            return answer

        yield submit

    monkeypatch.setattr(module, "LEAST_CHARACTERS", len(TEXTS[0]) + len(TEXTS[1]))
    monkeypatch.setattr(module, "default_count", lambda: 2)
    monkeypatch.setattr(module._pool, "stream", stream)
    told: list[tuple[int, int]] = []
    with object_stream(HOST, None, lambda done, total: told.append((done, total))) as objects:
        for text, count in zip((TEXTS[0], TEXTS[0], TEXTS[1], TEXTS[2]), (0, 0, 2, 3), strict=True):
            objects.add(text)
            assert given == list(TEXTS[:count])
        texts = (TEXTS[0], TEXTS[0], TEXTS[1], TEXTS[2])
        assert objects.objects() == tuple(text.encode() for text in texts)
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


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
