"""Checks and measures onnxc on a machine with a GPU, in nine minutes, from a pack that was made elsewhere.

    python -m benchmarks.gpu.suite --pack PACK [--sections NAME,...] [--out FILE]

Nothing is compiled here. Each section runs in a process of its own, so that a device lost in one of them ends no other;
the file is written after every section and says what failed. What was not reached in time is "skipped", which is no
failure. The exit code is 1 if a value is wrong or a row failed. `python -m benchmarks.gpu.read_results FILE` says what
follows from the results.
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
from zipfile import BadZipFile

from benchmarks.gpu.bench import SKIPPED, Bench, Row, Size
from benchmarks.gpu.calibration import calibration
from benchmarks.gpu.environment import environment
from benchmarks.gpu.kernel_times import kernel_times
from benchmarks.gpu.kernel_values import kernel_values, launch_kind
from benchmarks.gpu.model_times import launch_profiles, model_times
from benchmarks.gpu.model_values import model_values
from benchmarks.gpu.pack_file import Pack
from benchmarks.gpu.racecheck import racecheck
from benchmarks.gpu.smoke import smoke
from benchmarks.gpu.sweeps import sweeps
from benchmarks.gpu.torch_times import torch_times
from benchmarks.isolation import last_message
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.device import properties_of
from onnxc.runtime.gpu.driver import Driver, load_driver

__all__ = ["LONGEST_S", "SECTIONS", "bench_of", "failures_of", "plan_text", "run_section", "run_suite"]

Section = Callable[[Bench], Iterator[Row]]

# In the order of a first run: what everything else rests on comes first. Seconds are what each may take.
SECTIONS: Mapping[str, tuple[Section, float]] = {
    "environment": (environment, 15),
    "smoke": (smoke, 20),
    "kernel_values": (kernel_values, 75),
    "racecheck": (racecheck, 60),
    "model_values": (model_values, 50),
    "calibration": (calibration, 40),
    "launch_profiles": (launch_profiles, 50),
    "sweeps": (sweeps, 75),
    "kernel_times": (kernel_times, 40),
    "model_times": (model_times, 45),
    "torch_times": (torch_times, 70),
}

LONGEST_S = 540.0
"""What all sections may take together."""

# A section that does not stop by itself is ended so many seconds behind its time.
GRACE_S = 10.0

# Python runs this in the process of a section: its name, the pack, the seconds.
_SECTION_PROCESS = "import sys; from benchmarks.gpu.suite import run_here; run_here(*sys.argv[1:])"

RunSection = Callable[[str, Path, float], list[Row]]


def main() -> int:
    """Parses the options and runs the sections."""
    options = parse_options()
    try:
        driver = load_driver()
        here, made_for = properties_of(driver, 0).architecture, Pack(options.pack).index.architecture
    except (DeviceError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    except (BadZipFile, KeyError) as problem:
        print(f"{options.pack} is no pack: {problem}", file=sys.stderr)
        return 1
    if here != made_for:
        print(f"the pack was made for {made_for}, and the device is {here}", file=sys.stderr)
        return 1
    print(plan_text(options.sections), flush=True)
    failures = failures_of(run_suite(options.sections, options.pack, options.out, run_section))
    print("\n".join(failures) if failures else "every value is right")
    return 1 if failures else 0


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.suite", description=__doc__.splitlines()[0])
    parser.add_argument("--pack", type=Path, required=True, help="what python -m benchmarks.gpu.pack has made")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), metavar="FILE", help="default: %(default)s")
    parser.add_argument(
        "--sections", type=lambda text: tuple(text.split(",")), default=tuple(SECTIONS), metavar="NAME,...",
        help=f"default: {','.join(SECTIONS)}",
    )  # fmt: skip
    options = parser.parse_args()
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"there is no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    return options


def plan_text(names: Sequence[str]) -> str:
    """The seconds that each section may take, and all."""
    lines = [f"{name:16} {SECTIONS[name][1]:4.0f} s" for name in names]
    return "\n".join([*lines, f"{'all':16} {sum(SECTIONS[name][1] for name in names):4.0f} s"])


def run_suite(names: Sequence[str], pack: Path, out: Path, run: RunSection) -> dict[str, list[Row]]:
    """The rows of each section; the file holds those of the sections until then."""
    results: dict[str, list[Row]] = {}
    end = time.monotonic() + LONGEST_S
    for name in names:
        started = time.monotonic()
        seconds = min(SECTIONS[name][1], end - started)
        results[name] = run(name, pack, seconds) if seconds > 0 else [{"name": name, "skipped": SKIPPED}]
        print(f"{name}: {len(results[name])} rows in {time.monotonic() - started:.0f} s", flush=True)
        for row in results[name]:
            print(f"  {row_text(row)}", flush=True)
        out.write_text(json.dumps({"sections": results}, indent=1, default=str) + "\n")
    return results


def run_section(name: str, pack: Path, limit_s: float) -> list[Row]:
    """The rows of a section that runs in a process of its own; the last one says why there are no more, if so."""
    command = [sys.executable, "-c", _SECTION_PROCESS, name, str(pack), str(limit_s)]
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
        rows: list[Row] = [json.loads(line) for line in out if line.startswith("{") and line.endswith("}\n")]
        if code == 0:
            return rows
        # What others compile may take any time.
        is_late = name == "torch_times" and code == -1
        return [*rows, {"name": name, "skipped" if is_late else "error": reason or last_message(err.read())}]


def run_here(name: str, pack: str, limit_s: str) -> None:
    """Prints the rows of a section as they come, each a line of JSON."""
    bench = bench_of(load_driver(), Pack(Path(pack)), float(limit_s))
    for row in SECTIONS[name][0](bench):
        print(json.dumps(row, default=str), flush=True)


def run_kind(pack: str, name: str, dtype: str) -> None:
    """Launches a kind once, for a tool that watches this process."""
    launch_kind(bench_of(load_driver(), Pack(Path(pack)), float("inf")), name, dtype)


def bench_of(driver: Driver, pack: Pack, limit_s: float) -> Bench:
    """A bench whose kernels are those of a pack."""
    size: Size = pack.index.size  # type: ignore[assignment]
    return Bench(driver, pack.kernels, size=size, pack=pack, deadline=time.monotonic() + limit_s)


def failures_of(results: Mapping[str, Sequence[Row]]) -> list[str]:
    """A line for each row that says an error or a wrong value."""
    return [
        f"{section}: {row_text(row)}"
        for section, rows in results.items()
        for row in rows
        if "error" in row or row.get("ok") is False
    ]


def row_text(row: Row) -> str:
    """A row in a line, numbers short; what is long is in the file."""
    shown = {key: value for key, value in row.items() if not isinstance(value, list | dict)}
    return ", ".join(f"{key} {_short(value)}" if key != "name" else str(value) for key, value in shown.items())


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
