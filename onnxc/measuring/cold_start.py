"""What it takes until a model answers, in a process of its own: compiling, loading, the first call, peak memory.

    python -m onnxc.measuring.cold_start JOB.json

The process is new so that nothing is warm and its memory is this model's; it writes its figures as JSON.
"""

import json
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import onnxc
from onnxc.measuring.runtimes import RUNTIMES, Feed
from onnxc.runtime.records import record

__all__ = ["ColdStart", "CompileJob", "StartJob", "cold_start", "compile_apart"]

ROOT = Path(onnxc.__file__).parents[1]


@record
class CompileJob:
    """A model to compile into the file `artifact`, with options of `onnxc.compile`; nothing is taken from a cache."""

    model: str
    artifact: str
    target: str
    dims: Mapping[str, int | tuple[int, int | None]]
    shapes: Mapping[str, tuple[int | str, ...]]
    precision: str
    config: str | None = None
    devices: str | None = None


@record
class StartJob:
    """A model to open and to call once, with the feed that is pickled in a file."""

    runtime: str
    model: str
    feed: str
    threads: int


@record
class ColdStart:
    """Seconds and bytes of a start. `error` says why there are none.

    peak_bytes: the most memory that the process had at once; base_bytes: what it had before the model was opened.
    """

    load_seconds: float = 0.0
    first_call_seconds: float = 0.0
    peak_bytes: int = 0
    base_bytes: int = 0
    error: str = ""


def compile_apart(job: CompileJob, folder: Path) -> float:
    """The seconds that compiling takes; the artifact is written. Raises what `onnxc.compile` would."""
    figures = _in_process({"compile": asdict(job)}, folder)
    if "error" in figures:
        # The same again raises the same error, here where it can be reported as any other.
        started = time.perf_counter()
        _compile(job)
        return time.perf_counter() - started
    return float(str(figures["seconds"]))


def cold_start(job: StartJob, folder: Path) -> ColdStart:
    """The figures of a start in a process of its own."""
    figures = _in_process({"start": asdict(job)}, folder)
    if "error" in figures:
        return ColdStart(error=str(figures["error"]))
    load, first_call, peak, base = (float(str(figures[name])) for name in ("load", "first_call", "peak", "base"))
    return ColdStart(load, first_call, int(peak), int(base))


def write_feed(feed: Feed, path: Path) -> None:
    """Keeps the inputs for a process that is started."""
    path.write_bytes(pickle.dumps(dict(feed)))


def _in_process(job: Mapping[str, object], folder: Path) -> Mapping[str, object]:
    """What the process has written, or the last line of what it said instead."""
    file = folder / "job.json"
    file.write_text(json.dumps(job))
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    # -P: what lies in the working folder is no module of ours.
    command = [sys.executable, "-P", "-m", "onnxc.measuring.cold_start", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}, check=False)
    if ran.returncode != 0:
        said = ran.stderr.strip().splitlines()
        return {"error": said[-1] if said else f"the process ended with {ran.returncode}"}
    figures: Mapping[str, object] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def _compile(job: CompileJob) -> None:
    dims = {name: tuple(size) if isinstance(size, list) else size for name, size in job.dims.items()}
    shapes = {name: tuple(shape) for name, shape in job.shapes.items()}
    executable = onnxc.compile(
        job.model,
        job.target,
        dims,
        shapes,
        precision=job.precision,
        config=job.config,
        devices=job.devices,
        cache=False,
    )
    executable.save(job.artifact)


def _start(job: StartJob) -> dict[str, float]:
    feed = pickle.loads(Path(job.feed).read_bytes())
    base, started = _memory("VmRSS"), time.perf_counter()
    call = RUNTIMES[job.runtime].open(Path(job.model), job.threads)
    loaded = time.perf_counter()
    call(feed)
    called = time.perf_counter()
    return {"load": loaded - started, "first_call": called - loaded, "peak": _memory("VmHWM"), "base": base}


def _memory(field: str) -> int:
    """Bytes by Linux's count; ru_maxrss would begin at what the parent had."""
    status = Path("/proc/self/status").read_text()
    match = re.search(rf"{field}:\s+(\d+) kB", status)
    return int(match[1]) * 1024 if match else 0


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    if "compile" in job:
        started = time.perf_counter()
        _compile(CompileJob(**job["compile"]))
        print(json.dumps({"seconds": time.perf_counter() - started}))
    else:
        print(json.dumps(_start(StartJob(**job["start"]))))


if __name__ == "__main__":
    main()
