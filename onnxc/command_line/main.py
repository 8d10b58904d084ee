"""The commands. Each reads its options, calls the public interface, and prints; errors are printed as diagnostics.

Exit codes: 0 when all is well, 1 for an error of the model, the inputs or the device, 2 for wrong usage.
"""

import statistics
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import click
import numpy as np
from rich.console import Console

import onnxc
from onnxc.command_line import describe
from onnxc.command_line.option_values import Range, parse_choices, parse_dims, parse_inputs, parse_shapes
from onnxc.command_line.random_inputs import complete_inputs
from onnxc.command_line.stages import STAGES, text_of_stage
from onnxc.demo import ASCII_SHADES, SHADES, chosen, draw_digits, report_lines, run_demonstration
from runtime.errors import OnnxcError

P = ParamSpec("P")

MODEL = click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
TARGET = click.option("--target", default="cpu", show_default=True, help='"cpu", "cpu:x86-64-v3", "interpreter", ...')
DIM = click.option(
    "--dim",
    "dims",
    multiple=True,
    callback=parse_dims,
    metavar="NAME=8|1..64",
    help="A symbolic size: one value, or a range.",
)
SHAPE = click.option(
    "--shape", "shapes", multiple=True, callback=parse_shapes, metavar="NAME=1,3,224,224", help="The shape of an input."
)
THREADS = click.option("--threads", type=click.IntRange(min=1), help="Default: what this process may use.")


def reporting_errors(command: Callable[P, None]) -> Callable[P, None]:
    """The command; an error of onnxc is printed, not raised, and ends with exit code 1."""

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            command(*arguments, **options)
        except OnnxcError as problem:
            click.echo(str(problem), err=True)
            raise SystemExit(1) from problem

    return run


@contextmanager
def progress(text: str) -> Iterator[None]:
    """A moving line on the terminal while something lasts; nothing where there is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="onnxc", prog_name="onnxc")
def main() -> None:
    """Compiles ONNX models to native code, and runs them.

    \b
    onnxc demo                                     see it work
    onnxc compile model.onnx --dim batch=1..64     model.onnx becomes model.onnxc
    onnxc run model.onnxc                          a call on random inputs
    """


@main.command("compile")
@MODEL
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Default: MODEL with .onnxc")
@TARGET
@DIM
@SHAPE
@click.option(
    "--specialize",
    multiple=True,
    callback=parse_choices,
    metavar="NAME=1,8",
    help="Sizes that get kernels of their own beside the general ones.",
)
@THREADS
@click.option("--keep-params", is_flag=True, help="Initializers that are also inputs stay inputs.")
@click.option("--report", is_flag=True, help="Print kernels, bytes and what was declined.")
@click.option("--stop-after", type=click.Choice(STAGES), help="Print what this stage makes, and stop.")
@reporting_errors
def compile_command(
    model: Path,
    output: Path | None,
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, tuple[int, ...]],
    specialize: Mapping[str, list[int]],
    threads: int | None,
    *,
    keep_params: bool,
    report: bool,
    stop_after: str | None,
) -> None:
    """Compile MODEL into one file of native code, weights and signature.

    It is compiled once for all sizes of its symbolic dimensions; --dim narrows them.
    """
    options = {
        "target": target,
        "dims": dims,
        "shapes": shapes,
        "specialize": specialize,
        "freeze_params": not keep_params,
    }
    if stop_after is not None:
        with progress(f"{model.name}: {stop_after}"):
            text = text_of_stage(model, stop_after, **options)
        write_text(text, output)
        return
    started = time.perf_counter()
    with progress(f"compiling {model.name}"):
        executable = onnxc.compile(model, threads=threads, **options)
        path = output or model.with_suffix(".onnxc")
        executable.save(path)
    if report:
        click.echo(executable.report())
    click.echo(f"{path}: {path.stat().st_size / 1e6:.2f} MB in {time.perf_counter() - started:.2f} s")


@main.command("run")
@MODEL
@click.option(
    "--input",
    "inputs",
    multiple=True,
    callback=parse_inputs,
    metavar="NAME=@FILE|VALUE",
    help="x=@x.npy, x=@all.npz (its member x), or x=[[1, 2]].",
)
@TARGET
@DIM
@SHAPE
@THREADS
@click.option("--seed", default=0, show_default=True, help="For the inputs that are not given: they are drawn.")
@click.option("--repeat", type=click.IntRange(min=1), help="Call this often, and print the median latency.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the outputs as .npz.")
@reporting_errors
def run_command(
    model: Path,
    inputs: Mapping[str, object],
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, tuple[int, ...]],
    threads: int | None,
    seed: int,
    repeat: int | None,
    output: Path | None,
) -> None:
    """Call MODEL, an .onnx or .onnxc file, once.

    Inputs that are not given are drawn at random; their symbolic sizes are what --dim NAME=8 says, or what the given
    inputs have, or 1.
    """
    executable = open_model(model, target, dims, shapes, threads)
    feed = complete_inputs(executable.inputs, inputs, shapes, fixed_sizes(dims), seed)
    results = executable.run(feed)
    Console().print(describe.arrays_table(results))
    if repeat is not None:
        seconds = [timed(lambda: executable.run(feed)) for _ in range(repeat)]
        click.echo(f"median of {repeat} calls: {statistics.median(seconds) * 1e3:.4f} ms")
    if output is not None:
        np.savez(output, **results)
        click.echo(f"{output}: {len(results)} arrays")


@main.command("check")
@MODEL
@reporting_errors
def check_command(model: Path) -> None:
    """Print every finding about MODEL; exit code 1 if one is an error."""
    findings = onnxc.check(model)
    for finding in findings:
        click.echo(str(finding))
    errors = sum(finding.severity == "error" for finding in findings)
    click.echo(f"{model.name}: {errors} errors, {len(findings) - errors} warnings", err=True)
    if errors:
        raise SystemExit(1)


@main.command("infer")
@MODEL
@DIM
@SHAPE
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the annotated model.")
@reporting_errors
def infer_command(
    model: Path, dims: Mapping[str, Range], shapes: Mapping[str, tuple[int, ...]], output: Path | None
) -> None:
    """Find the element type and the symbolic shape of every value of MODEL."""
    with progress(f"inferring {model.name}"):
        typed = onnxc.infer(model, dims=dims, shapes=shapes)
    raise NotImplementedError(typed, output)


@main.command("inspect")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@reporting_errors
def inspect_command(file: Path) -> None:
    """Say what is in FILE, an .onnx model or an .onnxc artifact: signature, size, operators or kernels."""
    console = Console()
    for part in describe.artifact_parts(file) if is_artifact(file) else describe.model_parts(file):
        console.print(part)


@main.command("demo")
@TARGET
@THREADS
@reporting_errors
def demo_command(target: str, threads: int | None) -> None:
    """Compile the digit classifier that comes with onnxc, and let it read handwritten digits."""
    with progress("compiling digits.onnx"):
        found = run_demonstration(target, threads)
    shades = SHADES if (sys.stdout.encoding or "").lower().startswith("utf") else ASCII_SHADES
    click.echo("\n".join([*draw_digits(found, chosen(found), shades), "", *report_lines(found)]))


def open_model(
    model: Path,
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, tuple[int, ...]],
    threads: int | None,
) -> onnxc.Executable:
    """The file as an executable: an artifact is loaded, a model compiled."""
    if is_artifact(model):
        return onnxc.load(model, threads=threads)
    with progress(f"compiling {model.name}"):
        return onnxc.compile(model, target=target, dims=dims, shapes=shapes, threads=threads)


def is_artifact(file: Path) -> bool:
    return zipfile.is_zipfile(file)


def fixed_sizes(dims: Mapping[str, Range]) -> dict[str, int]:
    """The sizes given as one number; of a range, its least."""
    return {name: size if isinstance(size, int) else size[0] for name, size in dims.items()}


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def write_text(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text)
    else:
        output.write_text(text + "\n")
