"""Each kernel kind under compute-sanitizer, which sees races between the threads of a block that no value shows."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.gpu.bench import Bench, Row, rows_in_time
from benchmarks.gpu.kernel_values import chosen_kinds
from benchmarks.gpu.packed_models import pack_of

__all__ = ["racecheck"]

# What pipelines in shared memory comes first: only they have what could race.
FIRST = ("contraction", "contraction_blocks", "convolution", "attention", "softmax", "transpose", "scan")

HAZARDS = 9
"""The exit code that stands for a race."""

LIMIT_S = 40

# Python runs this under the tool: the pack, the kind, its element type.
_PROCESS = "import sys; from benchmarks.gpu.suite import run_kind; run_kind(*sys.argv[1:])"


def racecheck(bench: Bench) -> Iterator[Row]:
    """A row for each kind, in its element types; one that is skipped where there is no compute-sanitizer."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        yield {"name": "racecheck", "skipped": "there is no compute-sanitizer"}
        return
    chosen = sorted(chosen_kinds(bench.size), key=lambda each: (each[0] not in FIRST, each[1] == "f32"))
    path = str(pack_of(bench).path)
    yield from rows_in_time(bench, [(f"{n}/{t}", partial(_row, tool, path, n, t)) for n, t in chosen])


def _row(tool: str, pack: str, name: str, dtype: str) -> Row:
    command = [tool, "--tool", "racecheck", "--error-exitcode", str(HAZARDS), sys.executable, "-c", _PROCESS]
    done = subprocess.run([*command, pack, name, dtype], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode not in (0, HAZARDS):
        raise ChildProcessError(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}")
    hazards = [line for line in done.stdout.splitlines() if "hazard" in line.lower()][:3]
    return {"ok": done.returncode == 0, **({"hazards": hazards} if hazards else {})}
