"""Compiles the kernels of the official node cases to cubins: `python -m tests.codegen_gpu.compile_cases --target ...`.

A case counts where the plan for the GPU has at least one launch; what has none is of types that only the host has.
"""

import argparse
import re
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu.emitted import emitted
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.options import make_options
from onnxc.compiler.target import parse_target
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.errors import OnnxcError
from tests.conformance.cases import all_cases
from tests.support.fake_gpu import fake_kernels


def sources_of_case(model: object, target: str) -> list[KernelSource]:
    """The sources of all kernels of a model, none of them compiled."""
    options = make_options(target, cache=False)
    found: list[KernelSource] = []

    def collect(sources: Sequence[KernelSource]) -> Sequence[DeviceKernel]:
        found.extend(sources)
        return fake_kernels(sources)

    emitted(model, options, collect)  # type: ignore[arg-type]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.codegen_gpu.compile_cases", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--target", default="cuda:sm_90", help="(default: %(default)s)")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only cases whose name matches")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="where compiled kernels are kept")
    options = parser.parse_args()
    started = time.perf_counter()
    cases: dict[str, list[KernelSource]] = {}
    failed: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in all_cases():
            if case.kind == "node" and re.search(options.filter, case.name):
                try:
                    sources = sources_of_case(case.load()[0], options.target)
                except OnnxcError as problem:
                    failed[case.name] = str(problem)
                    continue
                if sources:
                    cases[case.name] = sources
    different = list(dict.fromkeys(source for sources in cases.values() for source in sources))
    print(f"{len(cases)} cases with kernels, {len(different)} different ones, {time.perf_counter() - started:.0f} s")
    bad, spilling = _compile(different, options.target, options.cache)
    for name, sources in cases.items():
        problems = [bad[source] for source in sources if source in bad]
        if problems:
            failed[name] = problems[0]
    for name, problem in failed.items():
        print(f"{name}: {' '.join(problem.split())[:200]}")
    done = sum(1 for name in cases if name not in failed)
    print(f"{done} of {len(cases)} cases compile for {options.target}; {spilling} kernels have a stack")
    print(f"{time.perf_counter() - started:.0f} s")
    return 0


def _compile(sources: Sequence[KernelSource], target: str, cache: Path | None) -> tuple[dict[KernelSource, str], int]:
    """Why each of those that do not compile does not, and how many spill."""
    bad: dict[KernelSource, str] = {}
    spilling = 0
    for start in range(0, len(sources), 64):
        part = sources[start : start + 64]
        try:
            spilling += sum(kernel.stack_bytes > 0 for kernel in compile_kernels(part, parse_target(target), cache))
        except OnnxcError:
            for source in part:
                try:
                    compile_kernels([source], parse_target(target), cache)
                except OnnxcError as problem:
                    bad[source] = str(problem)
        if sys.stderr.isatty():
            print(f"\r{start + len(part)}/{len(sources)}", end="", file=sys.stderr, flush=True)
    return bad, spilling


if __name__ == "__main__":
    sys.exit(main())
