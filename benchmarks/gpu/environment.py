"""What the figures were measured on: the device, its clocks, the driver, the libraries."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version

from benchmarks.gpu.bench import Bench, Row, attempt
from onnxc.runtime.gpu.driver import version_text

PACKAGES = ("numpy", "triton", "torch", "cupy-cuda13x", "cupy-cuda12x", "llvmlite", "onnxc")
QUERY = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu,ecc.mode.current"
LIMIT_S = 20


def environment(bench: Bench) -> Iterator[Row]:
    """One row for the device, one for what nvidia-smi tells, one for the software."""
    yield attempt("device", lambda: {"is": asdict(bench.device.properties), "card": bench.card.name})
    yield attempt("driver", lambda: {"library": bench.driver.library, "cuda": version_text(bench.driver.version)})
    program = shutil.which("nvidia-smi")
    if program is None:
        yield {"name": "nvidia-smi", "skipped": "there is no nvidia-smi"}
    else:
        yield attempt("nvidia-smi", lambda: {"csv": _nvidia_smi(program)})
    yield {"name": "software", "python": sys.version.split()[0], "system": platform.platform(), **_packages()}


def _nvidia_smi(program: str) -> list[str]:
    command = [program, f"--query-gpu={QUERY}", "--format=csv"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S).stdout.splitlines()


def _packages() -> Row:
    versions: Row = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions
