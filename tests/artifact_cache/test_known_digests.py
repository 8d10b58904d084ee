"""Digests of files that are known again: only where another content would have another status."""

import hashlib
import os
from pathlib import Path

import pytest

from onnxc.compiler.artifact_cache import known_digests
from onnxc.compiler.artifact_cache.known_digests import KnownDigests
from onnxc.compiler.frontend.content_digest import content_digest

DATA = memoryview(b"weights")
DIGEST = hashlib.sha256(DATA).hexdigest()
SECOND = 1_000_000_000
NOW = 1_800_000_000 * SECOND + 5

STATUS = {"st_dev": 1, "st_ino": 2, "st_size": 7, "st_mtime_ns": 3, "st_ctime_ns": NOW - 60 * SECOND}


class Status:
    """What the file system says of a file, as far as it is asked."""

    def __init__(self, **changes: int) -> None:
        self.__dict__ |= {**STATUS, **changes}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is read to compute a digest."""
    contents: list[bytes] = []

    def noted(data: memoryview, status: os.stat_result | None) -> str:
        contents.append(bytes(data))
        return content_digest(data, status)

    monkeypatch.setattr(known_digests, "content_digest", noted)
    monkeypatch.setattr(known_digests, "LEAST_BYTES", 1)
    monkeypatch.setattr(known_digests.time, "time_ns", lambda: NOW)
    return contents


def digest_of(folder: Path | None, **changes: int) -> str:
    return KnownDigests(folder).digest(DATA, Status(**changes))  # type: ignore[arg-type]


def test_a_file_is_read_once(tmp_path: Path, read: list[bytes]) -> None:
    assert [digest_of(tmp_path) for _ in range(3)] == [DIGEST] * 3
    assert read == [b"weights"]


@pytest.mark.parametrize("name", STATUS)
def test_a_file_of_another_status_is_read(name: str, tmp_path: Path, read: list[bytes]) -> None:
    assert digest_of(tmp_path) == digest_of(tmp_path, **{name: STATUS[name] + 1}) == DIGEST
    assert len(read) == 2


@pytest.mark.parametrize(
    "changed_ns",
    [NOW - 9 * SECOND, NOW, NOW + 60 * SECOND, NOW - 60 * SECOND - 5],
    ids=["just now", "now", "in the future", "at a whole second"],
)
def test_a_status_that_says_too_little_is_not_believed(changed_ns: int, tmp_path: Path, read: list[bytes]) -> None:
    for _ in range(2):
        assert digest_of(tmp_path, st_ctime_ns=changed_ns) == DIGEST
    assert len(read) == 2
    assert not list(tmp_path.iterdir())


def test_without_a_folder_or_a_file_all_is_read(tmp_path: Path, read: list[bytes]) -> None:
    for _ in range(2):
        assert digest_of(None) == KnownDigests(tmp_path).digest(DATA, None) == DIGEST
    assert len(read) == 4


def test_small_files_are_read(tmp_path: Path, read: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_digests, "LEAST_BYTES", len(DATA) + 1)
    assert digest_of(tmp_path) == digest_of(tmp_path) == DIGEST
    assert len(read) == 2


def test_a_damaged_digest_is_computed_again(tmp_path: Path, read: list[bytes]) -> None:
    digest_of(tmp_path)
    (file,) = (tmp_path / "digests").iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert digest_of(tmp_path) == DIGEST
    assert len(read) == 2
