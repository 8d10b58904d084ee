"""What the compiler is: its own sources, the packages that it computes with, and the processor that it runs on."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from onnxc.runtime.cpu import host_architecture, host_features

__all__ = ["compiler_identity"]

_PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "triton")

_ROOT = Path(__file__).parents[2]


@cache
def compiler_identity() -> str:
    """A digest; where two processes have the same one, they compile the same model to the same artifact.

    Constants are folded by NumPy, which has loops for several instruction sets: so the processor counts, whatever the
    target is.
    """
    described = [_sources(), list(_versions()), sys.version, host_architecture(), sorted(host_features())]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def _sources() -> str:
    """A digest of the sources by their content, 1,000 files in 10 ms.

    Times and sizes would take half of that, but images of containers and some package managers give every file the same
    time.
    """
    digest = hashlib.sha256()
    for part in ("compiler", "runtime"):
        root = os.path.join(_ROOT, part)
        for path in sorted(_files(root)):
            with open(path, "rb", buffering=0) as file:
                data = file.read()
            digest.update(f"{part}{path.removeprefix(root)}\0{len(data)}\0".encode())
            digest.update(data)
    return digest.hexdigest()


def _files(folder: str) -> Iterator[str]:
    """The paths of the files in a folder and those below it, but for byte code."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file():
                yield entry.path
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)


def _versions() -> Iterator[str]:
    """What installers have written beside packages, in the order of the search path, as numpy-2.3.4.dist-info.

    `importlib.metadata` would read the same names, but to import it takes 8 ms.
    """
    prefixes = tuple(f"{package}-" for package in _PACKAGES)
    for folder in sys.path:
        with suppress(OSError):
            yield from sorted(name for name in os.listdir(folder or ".") if name.startswith(prefixes))
