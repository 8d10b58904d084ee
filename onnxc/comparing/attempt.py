"""One model compiled and perhaps called in a process of its own, with limits on time and memory, and what it said.

    python -m onnxc.comparing.attempt

reads a job as a line of JSON and answers with one, again and again. Each job runs in a fork, which starts in
milliseconds and may crash, hang or exhaust memory as it likes.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from types import FrameType, TracebackType

import onnxc
from onnxc.command_line.random_inputs import complete_inputs
from onnxc.compiler.driver import compile_model
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.options import make_options
from onnxc.runtime.errors import DeviceError, OnnxcError
from onnxc.runtime.records import record

__all__ = ["Attempts", "Job"]

ROOT = Path(onnxc.__file__).parents[1]

MOST_TEXT = 20_000
"""Of what an attempt said, the last characters: a traceback or a list of findings has fewer."""

POLL_SECONDS = 2e-3

WARM = '<ir_version: 10, opset_import: ["": 21]> warm (float[N] x) => (float[N] y) { y = Abs (x) }'
"""A model that is compiled before any fork, so that each finds everything loaded: 0.1 s instead of 0.6 s an attempt."""


@record
class Job:
    """What to do with a model. is_called: whether it is called too, on drawn inputs. memory_bytes: of addresses."""

    target: str = "cpu"
    is_called: bool = True
    seconds: float = 20.0
    memory_bytes: int = 8 << 30


class Attempts:
    """A process that tries models. As a context manager it ends with the block, and what it tries with it."""

    def __init__(self) -> None:
        self.count = 0
        self._folder = tempfile.TemporaryDirectory(prefix="onnxc-reduce-")
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        # -P: what lies in the working folder is no module of ours.
        command = [sys.executable, "-P", "-m", "onnxc.comparing.attempt"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C is for the process that asks, which ends this one.
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": paths},
        )

    def __enter__(self) -> "Attempts":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def outcome(self, model: ModelProto, job: Job) -> str:
        """What was said: empty where all went well, else the error, the signal, or which limit was reached."""
        self.count += 1
        path = Path(self._folder.name) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"model": str(path), **asdict(job)}) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise DeviceError("the process that tries models has ended", code="attempts-ended")
        return str(json.loads(answer))


def main() -> None:
    """Answers jobs until there are no more."""
    # What attempts print is theirs alone: answers go where standard output was.
    answers = os.fdopen(os.dup(1), "w")
    signal.signal(signal.SIGTERM, _end)
    compile_model(onnxc.from_text(WARM), make_options(cache=False))
    for line in sys.stdin:
        fields = json.loads(line)
        model = Path(fields.pop("model"))
        answers.write(json.dumps(_forked(model, Job(**fields))) + "\n")
        answers.flush()


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit


def _forked(model: Path, job: Job) -> str:
    """What a fork said that tries the model."""
    said = model.with_suffix(".txt")
    child = os.fork()
    if child == 0:
        _be_child(model, job, said)
    try:
        status = _status_of(child, job.seconds)
    finally:
        # What it has started itself ends with it, also when this process is told to end.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
        return f"it took more than the time limit of {job.seconds:g} s"
    text = said.read_text(errors="replace")[-MOST_TEXT:] if said.exists() else ""
    return f"{text}it was ended by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else text


def _status_of(child: int, seconds: float) -> int | None:
    """How the process ended, None where it has not within these seconds."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(POLL_SECONDS)
    return None


def _be_child(model: Path, job: Job, said: Path) -> None:
    """Tries the model, writes what there is to say, and ends this process."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    resource.setrlimit(resource.RLIMIT_AS, (job.memory_bytes, job.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        _try(model, job)
    except OnnxcError as problem:
        os.write(2, f"{problem}\n".encode())
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    os._exit(0)


def _try(model: Path, job: Job) -> None:
    executable = onnxc.compile(model, job.target)
    if job.is_called:
        executable.run(complete_inputs(executable.inputs, {}, {}, {}, seed=0))


if __name__ == "__main__":
    main()
