"""Results on disk: what is found is what was stored, damage counts as absent, and the folder stays small."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onnxc.compiler.jobs import bounded_folder
from onnxc.compiler.jobs.file_cache import FileCache

KEY = "0" * 64
CONTENT = bytes(range(256)) * 4


def key(number: int) -> str:
    return f"{number:064x}"


def content(number: int) -> bytes:
    return bytes([number]) * 1000


def stored(folder: Path) -> list[int]:
    return sorted(int(path.stem, 16) for path in folder.glob("*.code"))


def test_what_is_found_is_what_was_stored(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "a" / "b", ".code")
    assert cache.load(KEY) is None
    cache.store({KEY: CONTENT})
    assert cache.load(KEY) == CONTENT
    assert FileCache(tmp_path / "a" / "b", ".code").load(KEY) == CONTENT
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [f"{KEY}.code"]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_without_a_folder_nothing_is_kept() -> None:
    cache = FileCache(None, ".code")
    cache.store({KEY: CONTENT})
    assert cache.load(KEY) is None


def test_damage_counts_as_absent_and_is_removed(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, ".code")
    cache.store({KEY: CONTENT})
    path = tmp_path / f"{KEY}.code"
    whole = path.read_bytes()
    changed = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(0, len(whole), 7)]
    for data in (b"", whole[:10], whole[:-1], whole + b"x", *changed):
        path.write_bytes(data)
        assert cache.load(KEY) is None
        assert not path.exists()
    path.write_bytes(whole)
    assert cache.load(KEY) == CONTENT


def test_a_file_under_another_name_counts_as_absent(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, ".code")
    cache.store({key(1): content(1)})
    os.rename(tmp_path / f"{key(1)}.code", tmp_path / f"{key(2)}.code")
    assert cache.load(key(2)) is None


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    size = 1500
    cache = FileCache(tmp_path, ".code", max_bytes=10 * size)
    cache.store({key(number): content(number) for number in range(7)})
    for number in range(7):
        os.utime(tmp_path / f"{key(number)}.code", (number, number))
    assert cache.load(key(0)) is not None
    (tmp_path / "not ours").write_bytes(bytes(100 * size))
    one = (tmp_path / f"{key(0)}.code").stat().st_size
    FileCache(tmp_path, ".code", max_bytes=int(5.5 * one)).store({key(7): content(7)})
    # Eight do not fit; four are at most 0.8 of the bound.
    assert stored(tmp_path) == [0, 5, 6, 7]
    assert (tmp_path / "not ours").exists()


def test_remains_of_dead_processes_go_too(tmp_path: Path) -> None:
    (tmp_path / ".dead.partial").write_bytes(bytes(10000))
    os.utime(tmp_path / ".dead.partial", (1, 1))
    FileCache(tmp_path, ".code", max_bytes=5000).store({KEY: CONTENT})
    assert [path.name for path in tmp_path.iterdir()] == [f"{KEY}.code"]


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    cache = FileCache(tmp_path / "file" / "cache", ".code")
    cache.store({KEY: CONTENT})
    assert cache.load(KEY) is None


def use_cache(folder: Path, seed: int) -> None:
    """Stores and loads in another order than others do, in a folder that is always too small."""
    cache = FileCache(folder, ".code", max_bytes=12_000)
    for step in range(200):
        number = (step * (2 * seed + 1)) % 16
        cache.store({key(number): content(number)})
        found = cache.load(key(number))
        assert found is None or found == content(number)


def test_many_processes_use_a_folder_at_the_same_time(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from tests.jobs.test_file_cache import use_cache; "
    code += "use_cache(Path(sys.argv[1]), int(sys.argv[2]))"
    root = Path(bounded_folder.__file__).parents[3]
    commands = ([sys.executable, "-c", code, str(tmp_path), str(seed)] for seed in range(3))
    processes = [subprocess.Popen(command, cwd=root) for command in commands]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert not list(tmp_path.glob("*.partial"))
    cache = FileCache(tmp_path, ".code")
    assert all(cache.load(key(number)) == content(number) for number in stored(tmp_path))


def test_a_folder_is_looked_through_once_for_all_that_is_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(bounded_folder, "_trim", lambda folder, suffix, max_bytes: looked.append(folder))
    for number in range(100):
        FileCache(tmp_path, ".code", max_bytes=4_000_000).store({key(number): content(number)})
    # First, then for every 40 files of 1000 bytes.
    assert len(looked) == 3
