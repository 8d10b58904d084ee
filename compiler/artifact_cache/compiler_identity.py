"""What the compiler is: its own sources, the packages that it computes with, and the processor that it runs on."""

import hashlib
import json
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
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
    versions = {package: _version(package) for package in _PACKAGES}
    described = [_sources(), versions, sys.version, host_architecture(), sorted(host_features())]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def _sources() -> str:
    """A digest of the sources by their content.

    Times and sizes would take a quarter of the 45 ms that 880 files take, but images of containers and some package
    managers give every file the same time.
    """
    digest = hashlib.sha256()
    for part in ("compiler", "runtime"):
        root = _ROOT / part
        for path in sorted(path for path in root.rglob("*") if "__pycache__" not in path.parts and path.is_file()):
            data = path.read_bytes()
            digest.update(f"{part}/{path.relative_to(root)}\0{len(data)}\0".encode())
            digest.update(data)
    return digest.hexdigest()


def _version(package: str) -> str:
    """The version that is installed, empty for none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
