"""`onnxc doctor`: everything that onnxc uses, with versions, and what is missing.

Nothing is compiled and no library of the GPU is imported: versions are read from what is installed.
"""

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import click
from rich.console import Console
from rich.table import Table

from onnxc.compiler.target import parse_target
from onnxc.runtime.cpu import host_architecture, host_features
from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.files.cache_folder import default_cache_folder
from onnxc.runtime.gpu.device import device_count, properties_of
from onnxc.runtime.gpu.driver import LEAST_DRIVER, Driver, load_driver, version_text
from onnxc.runtime.records import record
from onnxc.runtime.thread_pool import available_threads

__all__ = ["Finding", "doctor_command", "examine"]

State = Literal["found", "missing", "wrong"]

LEAST_PYTHON = (3, 11)
KERNEL_MODULE = Path("/proc/driver/nvidia/version")


@record
class Finding:
    """One thing that onnxc uses: what was found of it, and what it is for. `gpu`: whether only GPUs need it."""

    name: str
    state: State
    found: str
    use: str
    required: bool = False
    gpu: bool = False


@record
class _Package:
    """A distribution, by the first of its names that is installed: versions from `least`, and below `most`."""

    names: tuple[str, ...]
    least: tuple[int, ...]
    most: tuple[int, ...] | None
    use: str
    required: bool = False
    gpu: bool = False


_PACKAGES = (
    _Package(("numpy",), (2, 0), None, "everything", required=True),
    _Package(("ml_dtypes",), (0, 5), None, "everything", required=True),
    _Package(("protobuf",), (6, 30), (8,), "compiling", required=True),
    _Package(("llvmlite",), (0, 45), None, "compiling", required=True),
    _Package(("click",), (8, 1), None, "the command line", required=True),
    _Package(("rich",), (13, 7), None, "the command line", required=True),
    _Package(("pillow",), (12,), None, "models that decode images"),
    _Package(("triton",), (3, 6), (3, 10), "compiling for GPUs", gpu=True),
    _Package(("cupy-cuda13x", "cupy-cuda12x", "cupy"), (13,), None, "arrays on GPUs, if you like", gpu=True),
)


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--gpu", is_flag=True, help="Fail also where models cannot be compiled for a GPU of this machine, or run."
)
def doctor_command(*, as_json: bool, gpu: bool) -> None:
    """List what onnxc uses, and what is missing.

    The exit code is 1 if something is missing or wrong that is needed.
    """
    findings = tuple(examine())
    failed = [finding for finding in findings if finding.state != "found" and is_needed(finding, gpu)]
    if as_json:
        click.echo(json.dumps({"ok": not failed, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        print_findings(findings)
        click.echo("\n" + summary(failed))
    if failed:
        raise SystemExit(1)


def examine(find_driver: Callable[[], Driver] = load_driver) -> Iterator[Finding]:
    """Everything, in the order of the table."""
    yield _python()
    yield Finding("onnxc", "found", _installed("onnxc") or "from a source tree", "everything")
    yield from map(_package, _PACKAGES)
    yield from _processor()
    yield _cache()
    yield from _gpus(find_driver)


def is_needed(finding: Finding, gpu: bool) -> bool:
    """Whether onnxc fails without it; `gpu`: to compile for the GPU of this machine, or run there."""
    return finding.required or (gpu and finding.gpu and finding.name in ("triton", "NVIDIA driver", "CUDA device"))


def print_findings(findings: tuple[Finding, ...]) -> None:
    """A table, with long lines where there is no terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "", "for", "found"):
        table.add_column(column, overflow="fold")
    marks = {"found": "✓", "missing": "–", "wrong": "✗"} if _speaks_unicode() else {"found": "ok", "missing": "-"}
    for finding in findings:
        table.add_row(marks.get(finding.state, "!!"), finding.name, finding.use, finding.found)
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)


def summary(failed: list[Finding]) -> str:
    """The last line."""
    if not failed:
        return "all that is needed is there"
    return "needed and not there: " + ", ".join(finding.name for finding in failed)


def _speaks_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def _python() -> Finding:
    text = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < LEAST_PYTHON:
        return Finding("Python", "wrong", f"{text}, needed is 3.11", "everything", required=True)
    return Finding("Python", "found", text, "everything", required=True)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _package(package: _Package) -> Finding:
    name = package.names[0]
    made = partial(Finding, name, use=package.use, required=package.required, gpu=package.gpu)
    wanted = ".".join(map(str, package.least)) + " or newer"
    if package.most is not None:
        wanted += ", below " + ".".join(map(str, package.most))
    for candidate in package.names:
        text = _installed(candidate)
        if text is None:
            continue
        parts = tuple(map(int, re.findall(r"\d+", text)[:3]))
        if parts < package.least or (package.most is not None and parts >= package.most):
            return made("wrong", f"{text}, needed is {wanted}")
        return made("found", text if candidate == name else f"{text} ({candidate})")
    return made("missing", f"needed is {wanted}: pip install {name}")


def _processor() -> Iterator[Finding]:
    try:
        target, features = parse_target("cpu"), sorted(host_features())
    except OnnxcError as problem:
        yield Finding("processor", "wrong", str(problem), "native code", required=True)
        return
    listed = ", ".join(feature for feature in features if re.match(r"avx|fma|neon|dotprod|bf16|i8mm|f16c|sve", feature))
    yield Finding("processor", "found", f"{host_architecture()}, target {target} ({listed})", "native code")
    try:
        text = f"{available_threads()} of {os.cpu_count() or 1}"
    except OnnxcError as problem:
        yield Finding("threads", "wrong", str(problem), "native code", required=True)
        return
    yield Finding("threads", "found", text, "native code")


def _cache() -> Finding:
    made = partial(Finding, "cache", use="compiling again")
    folder = default_cache_folder()
    if folder is None:
        return made("missing", "there is no home: set ONNXC_CACHE")
    parent = next((ancestor for ancestor in (folder, *folder.parents) if ancestor.exists()), folder)
    if not os.access(parent, os.W_OK):
        return made("wrong", f"{folder} cannot be written to: set ONNXC_CACHE")
    return made("found", f"{folder}" + ("" if folder.exists() else " (not there yet)"))


def _gpus(find_driver: Callable[[], Driver]) -> Iterator[Finding]:
    driver_of = partial(Finding, "NVIDIA driver", use="running on GPUs", gpu=True)
    device_of = partial(Finding, "CUDA device", use="running on GPUs", gpu=True)
    module = _kernel_module()
    try:
        driver = find_driver()
    except OnnxcError as problem:
        state: State = "missing" if problem.code == "no-cuda-driver" else "wrong"
        yield driver_of(state, _plain(problem) + module)
        yield device_of("missing", f"unknown; needed is a driver of CUDA {version_text(LEAST_DRIVER)} or newer")
        return
    yield driver_of("found", f"CUDA {version_text(driver.version)} ({driver.library}){module}")
    try:
        count = device_count(driver)
        if count == 0:
            yield device_of("missing", "none is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES")
        for ordinal in range(count):
            is_ = properties_of(driver, ordinal)
            size = f"{is_.memory_bytes / 2**30:.1f} GiB, {is_.multiprocessors} multiprocessors"
            yield device_of("found", f'{ordinal}: {is_.name}, {size}, target "cuda:{is_.architecture}"')
    except OnnxcError as problem:
        yield device_of("wrong", _plain(problem))


def _plain(problem: OnnxcError) -> str:
    """The text of an error without what is said here anyway."""
    return str(problem).removeprefix(f"error[{problem.code}]: ").removesuffix("; `onnxc doctor` lists what is there")


def _kernel_module() -> str:
    """The version of the driver's module in the kernel, which has numbers of its own."""
    try:
        match = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", KERNEL_MODULE.read_text())
    except OSError:
        return ""
    return f", kernel module {match[0]}" if match else ""
