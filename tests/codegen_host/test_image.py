"""What every image is linked with: compiled once, by whoever asks first, and again where that has failed."""

import os
import signal
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onnxc.compiler.codegen_host import image
from onnxc.compiler.target import Target
from tests.codegen_host.native import HOST


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """The folders of all compilations from here on, the last one last."""
    folders: list[Path | None] = []
    compile_objects = image.compile_objects

    def noted(texts: Iterable[str], target: Target, cache: Path | None) -> tuple[bytes, ...]:
        folders.append(cache)
        return compile_objects(texts, target, cache)

    monkeypatch.setattr(image, "compile_objects", noted)
    return folders


def test_whoever_asks_has_what_was_begun(compiled: list[Path | None], tmp_path: Path) -> None:
    begun = image.begin_support_objects(HOST, tmp_path)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: image.support_objects(HOST, tmp_path), range(8)))
    assert all(answer is begun.result() for answer in answers)
    assert compiled == [tmp_path]


def test_beginning_does_not_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = threading.Event()

    def wait(texts: Iterable[str], target: Target, cache: Path | None) -> tuple[bytes, ...]:
        assert go.wait(60)
        return (b"object",)

    monkeypatch.setattr(image, "compile_objects", wait)
    begun = image.begin_support_objects(HOST, tmp_path)
    assert not begun.done()
    go.set()
    assert image.support_objects(HOST, tmp_path) == (b"object",)


def test_what_has_failed_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(texts: Iterable[str], target: Target, cache: Path | None) -> tuple[bytes, ...]:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(image, "compile_objects", fail)
        for _ in range(2):
            with pytest.raises(MemoryError):
                image.support_objects(HOST, tmp_path)
    assert image.support_objects(HOST, tmp_path)[0].startswith(b"\x7fELF")


def test_the_child_of_a_fork_does_not_wait_for_a_thread_it_has_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go = threading.Event()

    def wait_in_parent(texts: Iterable[str], target: Target, cache: Path | None) -> tuple[bytes, ...]:
        assert os.getpid() != parent or go.wait(60)
        return (b"object",)

    parent = os.getpid()
    monkeypatch.setattr(image, "compile_objects", wait_in_parent)
    begun = image.begin_support_objects(HOST, tmp_path)
    child = os.fork()
    if child == 0:
        # A child that waited would end by the alarm.
        signal.alarm(30)
        os._exit(0 if image.support_objects(HOST, tmp_path) == (b"object",) else 1)
    go.set()
    assert os.waitpid(child, 0)[1] == 0
    assert begun.result() == (b"object",)
