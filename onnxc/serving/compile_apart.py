"""Models compiled in processes of their own, so that calls go on meanwhile and a crash harms nobody.

What is in the cache of artifacts is not compiled again: the process then says where that is.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from onnxc.runtime.artifact import Artifact
from onnxc.runtime.errors import DeviceError, InputError, ModelError, OnnxcError, UnsupportedError
from onnxc.runtime.load import read_artifact

__all__ = ["GENERATES", "KINDS", "compiled_model", "stop_compiling"]

KINDS = {kind.__name__: kind for kind in (ModelError, InputError, UnsupportedError, DeviceError)}
"""The errors that the process may tell of, by their names."""

GENERATES = "generates"
_MAX_SECONDS = 3600
"""Nobody's model takes so long; a compiler that hangs must not keep a model from being loaded again for ever."""


_running: set["subprocess.Popen[str]"] = set()


def compiled_model(model: Path, options: Mapping[str, object]) -> Artifact:
    """The artifact of the model, its weights mapped from the cache, or from a file of its own that is deleted already.

    options: of `onnxc.compile`, in JSON's types; "generates" makes it a decoder. Raises what compiling raises,
    DeviceError where its process dies.
    """
    with tempfile.TemporaryDirectory(prefix="onnxc-") as folder:
        return read_artifact(_compile(model, Path(folder) / "compiled.onnxc", options))


def _compile(model: Path, artifact: Path, options: Mapping[str, object]) -> Path:
    """The file of the artifact, which is `artifact` where the cache does not have it."""
    job = json.dumps({"model": str(model), "artifact": str(artifact), "options": options})
    command = (sys.executable, "-P", "-m", "onnxc.serving.compile_worker")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    pipe = subprocess.PIPE
    # In a session of its own, so that what ends the server from the terminal does not reach it first.
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
    ) as process:
        _running.add(process)
        try:
            output, noise = process.communicate(job, _MAX_SECONDS)
        except subprocess.TimeoutExpired as problem:
            process.kill()
            raise DeviceError(f"compiling {model.name} took too long", code="compiler-died") from problem
        finally:
            _running.discard(process)
    if process.returncode:
        message = (
            f"the process that compiled {model.name} ended with status {process.returncode}: {noise[-500:].strip()}"
        )
        raise _reported_error(output) or DeviceError(message, code="compiler-died")
    return Path(json.loads(output)["artifact"])


def stop_compiling() -> None:
    """Ends the processes that compile; who waits for them has an error."""
    for process in tuple(_running):
        process.kill()


def _reported_error(text: str) -> OnnxcError | None:
    """The error that the process has printed, if it could."""
    try:
        report = json.loads(text)
        return KINDS[report["kind"]](report["message"], code=report["code"])
    except (ValueError, KeyError, TypeError):
        return None
