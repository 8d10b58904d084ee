"""One model compiled in a fresh process: seconds, peak memory, artifact, seconds to load it. Run by `benchmarks`.

Nothing is taken from a cache.
"""

import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import onnxc
from benchmarks.inputs import read_manifest

LOADS = 5


def measure(folder: Path, name: str) -> None:
    """Prints a JSON row."""
    model = next(model for model in read_manifest(folder) if model.name == name)
    before = peak_bytes()
    started = time.perf_counter()
    executable = onnxc.compile(model.path, cache=False)
    compile_s = time.perf_counter() - started
    peak = peak_bytes()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / f"{name}.onnxc"
        executable.save(path)
        loads = [timed_load(path) for _ in range(LOADS)]
        row = {
            "model": name,
            "model_mb": model.path.stat().st_size / 1e6,
            "compile_s": compile_s,
            "peak_ratio": (peak - before) / model.path.stat().st_size,
            "artifact_mb": path.stat().st_size / 1e6,
            "load_ms": statistics.median(loads) * 1e3,
        }
    print(json.dumps(row), flush=True)


def timed_load(path: Path) -> float:
    started = time.perf_counter()
    onnxc.load(path)
    return time.perf_counter() - started


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    options = json.loads(sys.argv[1])
    measure(Path(options["folder"]), options["model"])


if __name__ == "__main__":
    main()
