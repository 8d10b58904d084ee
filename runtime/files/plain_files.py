"""Plain files by their path: opened without ever waiting, and replaced whole or not at all.

A path may lead to a FIFO that nobody writes into, a device that never ends, or a folder: each is an error at once.
What is in a file, this page does not know.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from onnxc.runtime.errors import InputError, MissingFileError
from onnxc.runtime.files.near_paths import advice_for_folder, advice_for_missing

__all__ = ["AnyPath", "open_plain_file", "path_text", "replaced_file"]

AnyPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# Reading, without waiting for a writer of a FIFO or the carrier of a terminal.
_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_KINDS = (
    (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
)  # fmt: skip


def open_plain_file(path: AnyPath, *, what: str) -> BinaryIO:
    """The file, open for reading; `what` names it in messages, such as "the model".

    Raises MissingFileError, and InputError for what is no path, no plain file, or cannot be opened.
    """
    name = path_text(path, what)
    try:
        descriptor = os.open(name, _OPEN_FLAGS)
    except OSError as problem:
        raise _unopened(problem, name, what) from problem
    try:
        status = os.fstat(descriptor)
        _expect_plain(status, name, what, advice_for_folder(name) if stat.S_ISDIR(status.st_mode) else "")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def path_text(path: AnyPath, what: str) -> str:
    """The path as a text that the system takes; InputError where it is none, whatever its type."""
    try:
        name = os.fsdecode(path)
        os.fsencode(name)
    except (TypeError, UnicodeError) as problem:
        raise _bad_path(f"{what} is at no path: {_shown(path)}") from problem
    if "\0" in name:
        raise _bad_path(f"{what} is at no path: {_shown(path)} has a NUL")
    return name


@contextmanager
def replaced_file(path: AnyPath, *, what: str) -> Iterator[BinaryIO]:
    """A new file to write and to read back; it becomes the one at the path when the block ends without an exception.

    Whoever reads the path sees the old file or the new one, never a part, after a power cut as well. A link stays, and
    what it leads to is replaced. Raises InputError for what is no path or no plain file, else OSError.
    """
    name = os.path.realpath(path_text(path, what))
    _expect_replaceable(name, what)
    folder = os.path.dirname(name)
    # A name of its own for each saver, in any process on any machine; short, since the other may be as long as can be.
    partial = os.path.join(folder, f".onnxc-{os.urandom(16).hex()}.partial")
    try:
        # Unlike tempfile's, the mode is that of any new file.
        with open(partial, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, name)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)
    _synchronize(folder)


def _expect_replaceable(name: str, what: str) -> None:
    """Whether a file may come to the path: only in place of a plain one, or of nothing."""
    try:
        _expect_plain(os.stat(name), name, what)
    except FileNotFoundError:
        return
    except OSError as problem:
        if problem.errno == errno.ENAMETOOLONG:
            raise _too_long(name, what) from problem
        raise


def _expect_plain(status: os.stat_result, name: str, what: str, advice: str = "") -> None:
    """Raises InputError unless the status is that of a plain file; `advice` ends its text."""
    if not stat.S_ISREG(status.st_mode):
        kind = next((kind for holds, kind in _KINDS if holds(status.st_mode)), "no plain file")
        raise InputError(f'{what} "{name}" is {kind}, expected a plain file{advice}', code="not-a-plain-file")


def _synchronize(folder: str) -> None:
    """Writes the entries of a folder to its disk."""
    # The file is whole at its path by now. Where a folder cannot be opened or written out, such as on some network
    # file systems, a power cut may bring the old file back.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _unopened(problem: OSError, name: str, what: str) -> InputError:
    if problem.errno == errno.ENOENT:
        return MissingFileError(f'there is no file "{name}"{advice_for_missing(name)}', path=name)
    if problem.errno == errno.ENAMETOOLONG:
        return _too_long(name, what)
    # Sockets, and devices without a driver.
    if problem.errno in (errno.ENXIO, errno.ENODEV):
        return InputError(f'{what} "{name}" is no plain file', code="not-a-plain-file")
    return InputError(f'{what} "{name}" cannot be opened: {problem.strerror}', code="unreadable-file")


def _too_long(name: str, what: str) -> InputError:
    return _bad_path(f"{what} is at no path: {_shown(name)} is too long")


def _bad_path(message: str) -> InputError:
    return InputError(message, code="bad-path")


def _shown(path: object) -> str:
    text = repr(path)
    return text if len(text) <= 60 else f"{text[:60]}..."
