"""Compiles models for a GPU, reads the machine code of their kernels, and says where it is not that of fast ones.

    python -m benchmarks.gpu.machine_code --models DIR|FILE ... [--only NAME,...] [--precision P ...] [--sizes S ...]
                                          [--target T] [--cache DIR] [--out FILE]

Needs Triton, whose version decides what kernels become, and no GPU. There is a row for each model, precision and choice
of sizes: "symbolic", or numbers for symbols as "batch=32,sequence=128"; a model without such a symbol has no row.

A kernel breaks a line that has stack, that multiplies large tiles but not by the instructions for groups of warps, that
copies blocks in fewer than three stages, that loads one byte or two at a time in the loop that multiplies (the stem of
a network, which reads an image, may), or in which no registers are handed over where its plan has that. A model does
that is quantised and multiplies no bytes, that takes 60 s to compile on two cores, or 2 s once more.

Columns of kernels count kernels, not instructions. Seconds are of a processor: "cold" with nothing known, "planned"
where all kernels are known, "warm" where the whole model is. --cache keeps kernels, and what compiling each has taken.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.gpu.launch_counts import models_in
from benchmarks.gpu.machine_code.compiled_model import Request, compiled_model
from benchmarks.gpu.machine_code.table import HEAD, broken_text, request_cells, row_of, row_text
from benchmarks.gpu.machine_code.timed_kernels import TimedKernels
from onnxc.compiler.target import parse_target
from onnxc.runtime.errors import OnnxcError

Sizes = Mapping[str, int]

PROGRESS_EACH = 10
"""After so many kernels it is said how many there are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each model, then what is broken; 1 where something is, or does not compile."""
    options = parse_options(arguments)
    target, lines, is_broken = parse_target(options.target), [row_text(HEAD), row_text(["---"] * len(HEAD))], False
    print("\n".join(lines), flush=True)
    with ExitStack() as stack:
        folder = options.cache or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        timed = TimedKernels(target, folder / "timed_kernels", progress)
        stack.callback(timed.close)
        for request in requests(options):
            texts, breaks = report(request, timed)
            is_broken |= breaks
            lines += texts
            for text in texts:
                print(text, flush=True)
            if options.out is not None:
                options.out.write_text("\n".join(lines) + "\n")
    return 1 if is_broken else 0


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.machine_code",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", type=Path, nargs="+", required=True, metavar="DIR|FILE")
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=(), metavar="NAME,...")
    parser.add_argument("--precision", nargs="+", default=["bf16"], metavar="P", help="default: bf16")
    parser.add_argument("--sizes", type=sizes_of, nargs="+", default=[{}], metavar="S", help="default: symbolic")
    parser.add_argument("--target", default="cuda:sm_90", metavar="T", help="default: %(default)s")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="for kernels (default: a folder that is removed)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="everything is written here too")
    return parser.parse_args(arguments)


def sizes_of(text: str) -> Sizes:
    """The sizes that an argument gives symbols; none for "symbolic"."""
    if text == "symbolic":
        return {}
    pairs = (part.partition("=") for part in text.split(","))
    return {name: int(size) for name, _, size in pairs}


def requests(options: argparse.Namespace) -> Iterator[Request]:
    """What rows are asked for, in order."""
    for path in options.models:
        for name, file in models_in(path) if path.is_dir() else [(path.stem, path)]:
            if not options.only or name in options.only:
                for precision in options.precision:
                    for sizes in options.sizes:
                        yield Request(name, file, options.target, precision, sizes)


def report(request: Request, timed: TimedKernels) -> tuple[list[str], bool]:
    """The row of a model with a line for each thing that is broken, and whether there is one."""
    head = request_cells(request)
    print(" ".join(head), file=sys.stderr, flush=True)
    try:
        model = compiled_model(request, timed)
    except OnnxcError as problem:
        if problem.code == "unknown-dim":
            return [], False
        return [row_text([*head, f"does not compile: {str(problem).splitlines()[0]}"])], True
    row = row_of(request, model, parse_target(request.target))
    texts = [f"  {broken_text(kernel, text)}" for kernel, text in row.broken]
    return [row_text([*row.cells, str(len(texts) or "")]), *texts], bool(texts)


def progress(done: int, total: int) -> None:
    """How far compiling is."""
    if 0 < done < total and done % PROGRESS_EACH == 0:
        print(f"  {done} of {total} kernels", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
