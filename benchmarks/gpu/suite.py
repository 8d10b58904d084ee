"""Checks and measures onnxc on a machine with a GPU, in under ten minutes.

    python -m benchmarks.gpu.suite [--quick] [--models DIR] [--sections NAME,...] [--out FILE] [--calibrate]

Each section runs in a process of its own, so that a device lost in one of them ends no other; the file is written after
every section and says what failed. DIR holds models as benchmarks.models.export_models writes them; what stands beside
our times is torch, where it can be imported. The exit code is 1 if a value is wrong or a section failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.gpu.bench import Bench, Row, Size
from benchmarks.gpu.calibration import calibration, write_calibration
from benchmarks.gpu.environment import environment
from benchmarks.gpu.kernel_times import kernel_times
from benchmarks.gpu.kernel_values import kernel_values
from benchmarks.gpu.model_times import model_times
from benchmarks.gpu.model_values import model_values, official_cases
from benchmarks.gpu.tile_sweep import tile_sweep
from benchmarks.isolation import last_message
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.options import make_options
from onnxc.compiler.target import parse_target
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.device import properties_of
from onnxc.runtime.gpu.driver import load_driver

__all__ = ["SECTIONS", "failures_of", "run_section", "run_suite"]

Section = Callable[[Bench], Iterator[Row]]

# In the order of a first run: what everything else rests on comes first. Seconds are what each may take.
SECTIONS: Mapping[str, tuple[Section, float]] = {
    "environment": (environment, 30),
    "kernel_values": (kernel_values, 100),
    "calibration": (calibration, 60),
    "model_values": (model_values, 90),
    "official_cases": (official_cases, 50),
    "kernel_times": (kernel_times, 90),
    "model_times": (model_times, 110),
    "tile_sweep": (tile_sweep, 50),
}

# A section that does not stop by itself is ended so many seconds behind its time.
GRACE_S = 15.0

# Python runs this in the process of a section: its name, the size, the folder of models, the seconds.
_SECTION_PROCESS = "import sys; from benchmarks.gpu.suite import run_here; run_here(*sys.argv[1:])"


def main() -> int:
    """Parses the options and runs the sections."""
    options = parse_options()
    try:
        properties_of(load_driver(), 0)
    except DeviceError as problem:
        print(problem, file=sys.stderr)
        return 1
    results = run_suite(
        options.sections, "quick" if options.quick else "full", options.models, options.out, run_section
    )
    if options.calibrate:
        calibrate(results)
    failures = failures_of(results)
    print("\n".join(failures) if failures else "every value is right")
    return 1 if failures else 0


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.suite", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller work, fewer element types")
    parser.add_argument("--models", type=Path, metavar="DIR", help="a folder of exported models")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), metavar="FILE", help="default: %(default)s")
    parser.add_argument("--calibrate", action="store_true", help="write what was measured into the cost model's table")
    parser.add_argument(
        "--sections", type=lambda text: tuple(text.split(",")), default=tuple(SECTIONS), metavar="NAME,...",
        help=f"default: {','.join(SECTIONS)}",
    )  # fmt: skip
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    return options


def run_suite(
    names: Sequence[str], size: Size, models: Path | None, out: Path, run: Callable[[str, Size, Path | None], list[Row]]
) -> dict[str, list[Row]]:
    """The rows of each section; the file holds those of the sections until then."""
    results: dict[str, list[Row]] = {}
    for name in names:
        started = time.monotonic()
        results[name] = run(name, size, models)
        print(f"{name}: {len(results[name])} rows in {time.monotonic() - started:.0f} s", flush=True)
        for row in results[name]:
            print(f"  {row_text(row)}", flush=True)
        out.write_text(json.dumps({"size": size, "sections": results}, indent=1, default=str) + "\n")
    return results


def run_section(name: str, size: Size, models: Path | None) -> list[Row]:
    """The rows of a section that runs in a process of its own; the last one says why there are no more, if so."""
    limit_s = SECTIONS[name][1]
    command = [sys.executable, "-c", _SECTION_PROCESS, name, size, str(models or ""), str(limit_s)]
    environment_of = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, env=environment_of)
        try:
            code = child.wait(limit_s + GRACE_S)
            reason = f"signal {-code}" if code < 0 else ""
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            code, reason = -1, f"no end within {limit_s + GRACE_S:.0f} s"
        out.seek(0)
        err.seek(0)
        rows: list[Row] = [json.loads(line) for line in out if line.startswith("{")]
        return rows if code == 0 else [*rows, {"name": name, "error": reason or last_message(err.read())}]


def run_here(name: str, size: Size, models: str, limit_s: str) -> None:
    """Prints the rows of a section as they come, each a line of JSON."""
    driver = load_driver()
    target = parse_target(f"cuda:{properties_of(driver, 0).architecture}")
    cache = make_options("cuda").cache

    def compiled(sources: Sequence[KernelSource]) -> Sequence[DeviceKernel]:
        return compile_kernels(sources, target, cache)

    deadline = time.monotonic() + float(limit_s)
    bench = Bench(driver, compiled, size=size, models=Path(models) if models else None, deadline=deadline)
    bench.device.enter()
    for row in SECTIONS[name][0](bench):
        print(json.dumps(row, default=str), flush=True)


def failures_of(results: Mapping[str, Sequence[Row]]) -> list[str]:
    """A line for each row that says an error or a wrong value."""
    return [
        f"{section}: {row_text(row)}"
        for section, rows in results.items()
        for row in rows
        if "error" in row or row.get("ok") is False
    ]


def calibrate(results: Mapping[str, Sequence[Row]]) -> None:
    """Puts what was measured into the table of the cost model."""
    for row in results.get("calibration", ()):
        if isinstance(row.get("entry"), dict):
            write_calibration(str(row["architecture"]), row["entry"])  # type: ignore[arg-type]


def row_text(row: Row) -> str:
    """A row in a line, numbers short."""
    return ", ".join(f"{key} {_short(value)}" if key != "name" else str(value) for key, value in row.items())


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
