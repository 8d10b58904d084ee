"""The folder of artifacts: files as `Executable.save` writes them but for their digest, by keys, the ones used last.

Nobody compares the digests of these files, and computing them took half of the time of keeping a large artifact. The
checksums of all members are tested when a file is read. A file that is not what was written counts as absent. A folder
that cannot be written to costs time, nothing else.
"""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

from onnxc.compiler.jobs.bounded_folder import BoundedFolder
from onnxc.runtime.artifact import Artifact, write_archive
from onnxc.runtime.errors import MissingFileError, OnnxcError
from onnxc.runtime.files.saved_file import SavedFile
from onnxc.runtime.load import read_whole_artifact

__all__ = ["MOST_BYTES", "ArtifactFolder"]

MAX_BYTES = 8 << 30
"""Of the whole folder: room for twenty models of the size of bert_base, whose weights are 440 MB."""

MOST_BYTES = MAX_BYTES // 2
"""A larger artifact would take the room of all others."""

_MOST_OF_FREE = 0.1
"""Weights are in the model already: whoever is short of disk rather waits."""

_NAME, _SUFFIX = "artifacts", ".onnxc"


class ArtifactFolder:
    """A folder of artifacts by hexadecimal keys, below the one for all that is kept."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder / _NAME
        self._files = BoundedFolder(self._folder, _SUFFIX, max_bytes)

    def load(self, key: str) -> Artifact | None:
        """The artifact of that key, if it is there and whole; its weights are mapped."""
        path = self._files.path(key)
        # Most are not there, which should cost nothing; an error would say what is there instead.
        if not path.exists():
            return None
        try:
            artifact = read_whole_artifact(path)
        except MissingFileError:
            return None
        except (OnnxcError, OSError):
            self._files.remove(key)
            return None
        self._files.touch(key)
        return artifact

    def store(self, key: str, artifact: Artifact) -> Artifact:
        """The artifact, which knows its file if it could be kept; others go where the folder has become too large."""
        path = self._files.path(key)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _constant_bytes(artifact) > min(MOST_BYTES, shutil.disk_usage(self._folder).free * _MOST_OF_FREE):
                return artifact
            self._files.write(key, partial(write_archive, artifact))
            self._files.make_room(path.stat().st_size)
        except OSError:
            return artifact
        return replace(artifact, file=SavedFile(str(path), digest=""))


def _constant_bytes(artifact: Artifact) -> int:
    """What the constants take, which is most of a large artifact."""
    shares = [held for each in artifact.segments if each.division is not None for held in each.division.shares]
    return sum(segment.weights.nbytes for segment in artifact.segments) + sum(held.nbytes for held in shares)
