"""Prepares a run on a GPU where there is none: everything that has to be compiled, in one file.

    python -m benchmarks.gpu.pack --triton 3.6.0 --out PACK [--models DIR] [--size full] [--only NAME,...]

The file holds the kernels of every section of the suite and models in three precisions, for machines where Triton, onnx
and torch need not be installed (python -m benchmarks.gpu.suite --pack PACK). --triton is the version that must be
imported here, the one whose kernels are wanted: pip or PYTHONPATH decides which that is. Small models are there with
their weights and what is right; exported ones without weights, which are drawn when they run.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from benchmarks.gpu import calibration, kernel_times, kernel_values, smoke, sweeps
from benchmarks.gpu.bench import Size
from benchmarks.gpu.pack_file import PackIndex, write_pack
from benchmarks.gpu.pack_models import (
    CHECKED,
    EXPORTED,
    PRECISIONS,
    Choice,
    checked_models,
    choice_of,
    official_models,
    official_sample,
    skeletons,
)
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels, triton_version
from onnxc.compiler.codegen_gpu.emit import CompileKernels
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.options import make_options
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.errors import UnsupportedError
from tests.conformance.cases import Case

__all__ = ["compiled_each", "make_pack"]

LARGEST_BYTES = 48 << 20
"""What a file may be that travels to a machine with a GPU."""

NEEDED: Mapping[str, Callable[[Target, Size], Iterator[KernelSource]]] = {
    "smoke": smoke.needed_kernels,
    "kernel_values": kernel_values.needed_kernels,
    "calibration": calibration.needed_kernels,
    "kernel_times": kernel_times.needed_kernels,
    "sweeps": sweeps.needed_kernels,
}
"""The sources of each section that launches kernels by themselves."""


def main() -> int:
    """Makes a pack, and says how large it is; 1 where that is too large, 2 where Triton is another one."""
    options = parse_options()
    imported = triton_version()
    if imported != options.triton:
        message = f"triton {imported} is imported here, and --triton asks for {options.triton}"
        print(f"{message}: pip install triton=={options.triton}, or put it first on PYTHONPATH", file=sys.stderr)
        return 2
    target = parse_target(f"cuda:{options.architecture}")
    cache = make_options(str(target)).cache

    def compiled(sources: Sequence[KernelSource]) -> Sequence[DeviceKernel]:
        return compile_kernels(sources, target, cache)

    choice, official = choice_of(options.only), () if options.only else official_sample()
    make_pack(options.out, target, options.triton, options.size, choice, options.models, compiled, official)
    nbytes = options.out.stat().st_size
    print(f"{options.out}: {nbytes / (1 << 20):.1f} MiB")
    return 1 if nbytes > LARGEST_BYTES else 0


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.pack", description=__doc__.splitlines()[0])
    parser.add_argument("--triton", required=True, metavar="VERSION", help="the version that must be imported here")
    parser.add_argument("--out", type=Path, required=True, metavar="PACK")
    parser.add_argument("--models", type=Path, metavar="DIR", help="a folder of exported models")
    parser.add_argument("--architecture", default="sm_90", help="default: %(default)s")
    parser.add_argument("--size", choices=("full", "quick", "tiny"), default="full", help="default: %(default)s")
    parser.add_argument(
        "--only", type=lambda text: tuple(text.split(",")), default=(), metavar="NAME,...",
        help="models and precisions, where not all are wanted",
    )  # fmt: skip
    options = parser.parse_args()
    known = (*CHECKED, *EXPORTED, *PRECISIONS)
    unknown = [name for name in options.only if name not in known]
    if unknown:
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(known)}")
    return options


def make_pack(
    out: Path,
    target: Target,
    triton: str,
    size: Size,
    choice: Choice,
    models: Path | None,
    compile_kernels: CompileKernels,
    official: Sequence[Case] = (),
) -> None:
    """Writes a pack; `official` are cases of onnx that are checked with the models."""
    kernels: list[DeviceKernel] = []
    for name, needed in NEEDED.items():
        made = compiled_each(list(dict.fromkeys(needed(target, size))), compile_kernels)
        print(f"{name}: {len(made)} kernels", flush=True)
        kernels += made
    checked, feeds = checked_models(choice, target.name, compile_kernels)
    cases, case_feeds = official_models(official, target.name, compile_kernels)
    # Hundreds of megabytes of marks each: they are written, and compressed, one after another.
    exported = skeletons(choice, models, target.name, compile_kernels)
    write_pack(
        out, PackIndex(target.name, triton, size, ()), kernels, chain(checked, cases, exported), feeds | case_feeds
    )


def compiled_each(sources: Sequence[KernelSource], compile_kernels: CompileKernels) -> list[DeviceKernel]:
    """The kernels of all sources that compile; of a sweep some may need more of a block than there is."""
    try:
        return [*compile_kernels(sources)]
    except UnsupportedError:
        # All that compile are in the cache by now.
        kernels = []
        for source in sources:
            try:
                kernels += compile_kernels([source])
            except UnsupportedError as problem:
                print(f"left out: {str(problem).splitlines()[-1][:200]}", flush=True)
        return kernels


if __name__ == "__main__":
    raise SystemExit(main())
