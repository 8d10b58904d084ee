"""The folder of models, `REPOSITORY/MODEL/[config.pbtxt]/VERSION/model.onnx|model.onnxc`: what is in it, now."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISREG

from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record
from onnxc.serving.model_config import CONFIG_FILE
from onnxc.serving.serving_errors import ServingError

__all__ = ["PassedOver", "Repository", "VersionFiles"]

MODEL_FILES = ("model.onnxc", "model.onnx")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_VERSION = re.compile(r"[1-9][0-9]{0,17}")
_NO_NAME = "a name begins with a letter, a digit or _, and has no others but - and ."
_NO_VERSION = "a version is a number from 1 on, without a 0 ahead of it"
_NO_FILE = f"there is no {' or '.join(MODEL_FILES)} in it"

Stamp = tuple[tuple[str, int, int], ...]


@record
class VersionFiles:
    """The file of a version, and a stamp that changes when a file beside it does, or the model's configuration."""

    file: Path
    stamp: Stamp


@record
class PassedOver:
    """A folder of the repository that is no model and no version of one: its path from the root, and why."""

    path: str
    reason: str


class Repository:
    """Reads the folder anew whenever it is asked."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError(f'"{root}" is no folder', code="no-repository")
        self._root = root

    def names(self) -> tuple[str, ...]:
        """The models, by name."""
        folders = (path.name for path in self._root.iterdir() if path.is_dir())
        return tuple(sorted(name for name in folders if _NAME.fullmatch(name)))

    def folder(self, name: str) -> Path:
        """The folder of a model; ServingError where there is none. A name is never a path."""
        folder = self._root / name
        if not _NAME.fullmatch(name) or not folder.is_dir():
            raise ServingError(f"there is no model {name!r} in the repository", code="unknown-model")
        return folder

    def versions(self, name: str) -> Mapping[int, Path]:
        """The versions of a model that have a file, and that file."""
        folder = self.folder(name)
        named = (version for version in os.listdir(folder) if _VERSION.fullmatch(version))
        files = ((int(version), _model_file(f"{folder}/{version}")) for version in named)
        return {version: file for version, file in files if file is not None}

    def stamped(self, file: Path) -> VersionFiles:
        """The file of a version, with the stamp that it has now."""
        folder = file.parent
        return VersionFiles(file, _stamp(folder.parent / CONFIG_FILE, *sorted(folder.rglob("*"))))

    def passed_over(self) -> tuple[PassedOver, ...]:
        """The folders that are neither models nor versions with a file, in order; what cannot be read is left out."""
        names = [path.name for path in self._root.iterdir() if path.is_dir()]
        folders = [PassedOver(name, _NO_NAME) for name in names if not _NAME.fullmatch(name)]
        for name in self.names():
            try:
                reasons = {entry.name: _why_no_version(entry) for entry in os.scandir(self._root / name)}
            except OSError:
                continue
            folders += [PassedOver(f"{name}/{version}", why) for version, why in reasons.items() if why]
        return tuple(sorted(folders, key=lambda each: each.path))


def _why_no_version(entry: "os.DirEntry[str]") -> str:
    """Why a folder is no version of a model; nothing where it is one, or no folder."""
    if not entry.is_dir():
        return ""
    if not _VERSION.fullmatch(entry.name):
        return _NO_VERSION
    return "" if _model_file(entry.path) is not None else _NO_FILE


def _model_file(folder: str) -> Path | None:
    files = (f"{folder}/{name}" for name in MODEL_FILES)
    return next((Path(file) for file in files if os.path.isfile(file)), None)


def _stamp(*paths: Path) -> Stamp:
    """Names, times and sizes of the files that there are, and can be looked at."""
    stamps = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            # It went while the folder was read, or is a link to itself.
            continue
        if S_ISREG(status.st_mode):
            stamps.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(stamps)
