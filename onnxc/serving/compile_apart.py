"""Models compiled in processes of their own, so that calls go on meanwhile and a crash harms nobody; results are kept.

A kept artifact is known by a digest of all that it was compiled from: the files of the version, the options, the
compiler and the processor. Whoever may write to the folder decides what runs, as for machine code.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import onnxc
from onnxc.runtime.cpu import host_features
from onnxc.runtime.errors import DeviceError, InputError, ModelError, OnnxcError, UnsupportedError
from onnxc.runtime.files.cache_folder import default_cache_folder

__all__ = ["GENERATES", "compiled_model", "main", "stop_compiling"]

KINDS = {kind.__name__: kind for kind in (ModelError, InputError, UnsupportedError, DeviceError)}
GENERATES = "generates"
_KEPT_SECONDS = 30 * 24 * 3600
_READ_BYTES = 1 << 20
_MAX_SECONDS = 3600
"""Nobody's model takes so long; a compiler that hangs must not keep a model from being loaded again for ever."""


_running: set["subprocess.Popen[str]"] = set()


def compiled_model(model: Path, options: Mapping[str, object]) -> Path:
    """The artifact of the model, from the folder of those that were compiled before if it is there.

    options: of `onnxc.compile`, in JSON's types; "generates" makes it a decoder. Raises what compiling raises,
    DeviceError where its process dies.
    """
    folder = _folder()
    artifact = folder / f"{_digest(model, options)}.onnxc"
    if artifact.exists():
        with contextlib.suppress(OSError):
            os.utime(artifact)
        return artifact
    _forget_old(folder)
    _compile(model, artifact, options)
    return artifact


def _folder() -> Path:
    folder = (default_cache_folder() or _own_folder()) / "served"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@cache
def _own_folder() -> Path:
    """Without a home there is no folder that others could not have made before us."""
    return Path(tempfile.mkdtemp(prefix="onnxc-"))


def _compile(model: Path, artifact: Path, options: Mapping[str, object]) -> None:
    job = json.dumps({"model": str(model), "artifact": str(artifact), "options": options})
    command = (sys.executable, "-P", "-m", "onnxc.serving.compile_apart")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    pipe = subprocess.PIPE
    # In a session of its own, so that what ends the server from the terminal does not reach it first.
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
    ) as process:
        _running.add(process)
        try:
            told, noise = process.communicate(job, _MAX_SECONDS)
        except subprocess.TimeoutExpired as problem:
            process.kill()
            raise DeviceError(f"compiling {model.name} took too long", code="compiler-died") from problem
        finally:
            _running.discard(process)
    if process.returncode:
        message = (
            f"the process that compiled {model.name} ended with status {process.returncode}: {noise[-500:].strip()}"
        )
        raise _told_error(told) or DeviceError(message, code="compiler-died")


def stop_compiling() -> None:
    """Ends the processes that compile; who waits for them has an error."""
    for process in tuple(_running):
        process.kill()


def _told_error(text: str) -> OnnxcError | None:
    """The error that the process has printed, if it could."""
    try:
        told = json.loads(text)
        return KINDS[told["kind"]](told["message"], code=told["code"])
    except (ValueError, KeyError, TypeError):
        return None


def _digest(model: Path, options: Mapping[str, object]) -> str:
    digest = hashlib.sha256(f"{_compiler_digest()} {json.dumps(options, sort_keys=True)}".encode())
    for path in sorted(path for path in model.parent.rglob("*") if path.is_file()):
        digest.update(f"\0{path.relative_to(model.parent)}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
    return digest.hexdigest()


@cache
def _compiler_digest() -> str:
    """A digest of the processor's features and of which sources make up the compiler, by their times and sizes."""
    root = Path(onnxc.__file__).parent
    sources = sorted(path for part in ("compiler", "runtime") for path in (root / part).rglob("*.py"))
    told = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in sources]
    return hashlib.sha256(repr((told, sorted(host_features()))).encode()).hexdigest()


def _forget_old(folder: Path) -> None:
    """Removes what has not been used for long; who has such a file open keeps its content."""
    for path in folder.glob("*.onnxc"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _KEPT_SECONDS:
                path.unlink()


def main() -> int:
    """The process: a job from standard input; on standard output the error, if there is one."""
    job = json.load(sys.stdin)
    try:
        generates = job["options"].pop(GENERATES, False)
        compile_model = onnxc.compile_decoder if generates else onnxc.compile
        compile_model(job["model"], **job["options"]).save(job["artifact"])
    except OnnxcError as problem:
        kind = next((name for name, kind in KINDS.items() if isinstance(problem, kind)), "ModelError")
        json.dump({"kind": kind, "code": problem.code, "message": str(problem)}, sys.stdout)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
