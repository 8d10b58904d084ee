"""Plain files: what is none is refused at once, and a file is replaced whole or not at all."""

import errno
import os
import socket
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from onnxc.runtime.errors import InputError, MissingFileError, OnnxcError
from onnxc.runtime.files.plain_files import AnyPath, open_plain_file, replaced_file


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def bound_socket(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(folder / "s"))
    return folder / "s"


SPECIAL: dict[str, Callable[[Path], Path]] = {
    "a folder": lambda folder: folder,
    "a FIFO": fifo,
    "a socket": bound_socket,
    "a device": lambda folder: Path("/dev/zero"),
    "a full device": lambda folder: Path("/dev/full"),
}

NO_PATHS: dict[str, object] = {
    "none": None, "a number": 3, "a list": ["a"], "a NUL": "a\0b", "a NUL in bytes": b"a\0b",
    "too long a name": "a" * 256, "too long a path": "a/" * 5000, "half of a pair": "\ud800",
}  # fmt: skip


def opened(path: object) -> None:
    open_plain_file(path, what="the model").close()  # type: ignore[arg-type]


def replaced(path: object) -> None:
    with replaced_file(path, what="the artifact") as file:  # type: ignore[arg-type]
        file.write(b"new")


def interrupted(path: Path, problem: type[BaseException]) -> None:
    with replaced_file(path, what="the artifact") as file:
        file.write(b"new")
        raise problem


@pytest.mark.parametrize("path", ["str", "bytes", "Path"])
def test_a_plain_file_is_opened_by_any_kind_of_path(tmp_path: Path, path: str) -> None:
    (tmp_path / "a").write_bytes(b"content")
    kinds: dict[str, AnyPath] = {"str": str(tmp_path / "a"), "bytes": bytes(tmp_path / "a"), "Path": tmp_path / "a"}
    with open_plain_file(kinds[path], what="the model") as file:
        assert file.read() == b"content"


def test_a_missing_file_is_told_as_python_tells_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        opened(tmp_path / "a")
    assert isinstance(missing.value, OnnxcError)
    assert isinstance(missing.value, MissingFileError)
    assert missing.value.code == "file-not-found"
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, str(tmp_path / "a"))
    assert str(missing.value) == f'error[file-not-found]: there is no file "{tmp_path / "a"}"'


@pytest.mark.parametrize(
    ("asked", "names", "advice"),
    [
        ("digit.onnx", ["digits.onnx", "fix.onnx", "notes.txt"], '; near it is "digits.onnx"'),
        ("Digits.ONNX", ["digits.onnx", "digits.onnxc"], '; near it are "digits.onnx", "digits.onnxc"'),
        ("m", ["a.onnx", "notes.txt"], '; beside it is "a.onnx"'),
        (
            "m",
            [f"{each}x.onnx" for each in "abcdef"],
            '; beside it are "ax.onnx", "bx.onnx", "cx.onnx", "dx.onnx" and 2 more',
        ),
        ("m", [".m.onnx", "notes.txt"], ""),
        ("m", [], ""),
    ],
)
def test_a_missing_file_is_answered_with_what_is_there(
    tmp_path: Path, asked: str, names: Sequence[str], advice: str
) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(MissingFileError) as missing:
        opened(tmp_path / asked)
    assert str(missing.value) == f'error[file-not-found]: there is no file "{tmp_path / asked}"{advice}'


def test_a_missing_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingFileError, match=f'; there is no folder "{tmp_path / "a"}"$'):
        opened(tmp_path / "a" / "b")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").touch()
    with pytest.raises(MissingFileError, match=r'; near it is "model.onnx"$'):
        opened("modle.onnx")


def test_a_folder_is_answered_with_the_models_in_it(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.txt"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r'expected a plain file; in it is "a.onnx"$'):
        opened(tmp_path)
    with pytest.raises(InputError, match=r"expected a plain file$"):
        replaced(tmp_path)


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("use", [opened, replaced])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, kind: str, use: Callable[[object], None]) -> None:
    path = SPECIAL[kind](tmp_path)
    before = path.stat()
    with pytest.raises(InputError) as refused:
        use(path)
    assert refused.value.code == "not-a-plain-file"
    assert stat.S_IFMT(path.stat().st_mode) == stat.S_IFMT(before.st_mode)
    assert path.stat().st_ino == before.st_ino


@pytest.mark.parametrize("kind", NO_PATHS)
@pytest.mark.parametrize("use", [opened, replaced])
def test_what_can_be_no_path_is_refused(
    tmp_path: Path, kind: str, use: Callable[[object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        use(NO_PATHS[kind])
    assert refused.value.code == "bad-path"
    assert list(tmp_path.iterdir()) == []


def test_a_path_through_a_file_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(InputError) as refused:
        opened(tmp_path / "a" / "b")
    assert refused.value.code == "unreadable-file"


def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 255)
    path.write_bytes(b"old")
    with replaced_file(path, what="the artifact") as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    replaced(tmp_path / "a")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to("a")
    replaced(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError, GeneratorExit, SystemExit])
def test_what_goes_wrong_leaves_the_old_file_and_no_part(tmp_path: Path, problem: type[BaseException]) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(problem):
        interrupted(path, problem)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_savers_have_partial_files_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with replaced_file(path, what="the artifact") as first, replaced_file(path, what="the artifact") as second:
        first.write(b"first")
        second.write(b"second")
    # The block of the first ends last.
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]
