"""What several commands share: options, errors as exit codes, models."""

import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TextIO

import click
from rich.console import Console, RenderableType

import onnxc
from onnxc.command_line.option_files import PLAIN_FILE
from onnxc.command_line.option_values import (
    Range,
    Shape,
    parse_dims,
    parse_dtypes,
    parse_inputs,
    parse_limits,
    parse_operators,
    parse_shapes,
)
from onnxc.command_line.progress import progress
from onnxc.command_line.texts.size_texts import symbols_in
from onnxc.runtime.errors import InputError, ModelWarning, OnnxcError
from onnxc.runtime.executable import Executable
from onnxc.runtime.files.plain_files import open_plain_file
from onnxc.runtime.signature import TensorInfo

if TYPE_CHECKING:
    from onnxc.compiler.frontend.custom.operators import CustomOperator

__all__ = [
    "ALLOW_LINKS", "AS_JSON", "CONFIG", "DEVICES", "DIM", "DTYPE", "INPUT", "LIMIT", "MODEL", "OPERATORS", "OPSET",
    "PRECISION", "SEED", "SHAPE", "TARGET", "THREADS",
    "expect_known_names", "fixed_sizes", "is_artifact", "open_model", "print_parts", "progress", "reporting_errors",
    "write_page",
]  # fmt: skip

P = ParamSpec("P")
PIPE_COLUMNS = 160
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
"""As the compiler names them, which is not loaded for the help of a command."""

MODEL = click.argument("model", type=PLAIN_FILE)
TARGET = click.option(
    "--target",
    default="cpu",
    show_default=True,
    help='"cpu", "cpu:x86-64-v3", "cuda", "cuda:sm_90", "interpreter", ...',
)
DIM = click.option(
    "--dim",
    "dims",
    multiple=True,
    callback=parse_dims,
    metavar="NAME=8|1..64",
    help="A symbolic size: one value, or a range.",
)
SHAPE = click.option(
    "--shape",
    "shapes",
    multiple=True,
    callback=parse_shapes,
    metavar="NAME=8,3,height,224",
    help="The shape of an input, in place of the declared one: numbers, or names of symbolic sizes.",
)
DTYPE = click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    callback=parse_dtypes,
    metavar="[NAME=]float16",
    help="The element type of an input, in place of the declared one, or of all floats of the model.",
)
OPSET = click.option("--opset", type=click.IntRange(min=1), help="Of a model that does not say its opset.")
OPERATORS = click.option(
    "--operators",
    multiple=True,
    callback=parse_operators,
    metavar="MODULE:NAME",
    help="Custom operators that the model calls: one, or a sequence of them, in a module; its code runs.",
)
ALLOW_LINKS = click.option(
    "--allow-links", is_flag=True, help="Follow links in the folder of the model to its external data."
)
LIMIT = click.option(
    "--limit", "limits", multiple=True, callback=parse_limits, metavar="NAME=N", help="How far the model may go."
)
THREADS = click.option("--threads", type=click.IntRange(min=1), help="Default: what this process may use.")

PRECISION = click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="fp32",
    show_default=True,
    help="What f32 is stored and multiplied in.",
)
CONFIG = click.option("--config", metavar="NAME", help="Divide the model over devices by this configuration of it.")
DEVICES = click.option(
    "--devices",
    metavar="cpu:4|cuda:4|mpi",
    help="What the devices are: threads, GPUs, or processes that mpirun started.",
)
INPUT = click.option(
    "--input",
    "inputs",
    multiple=True,
    callback=parse_inputs,
    metavar="NAME=@FILE|VALUE",
    help="x=@x.npy, x=@all.npz (its member x), or x=[[1, 2]].",
)
SEED = click.option("--seed", default=0, show_default=True, help="For the inputs that are not given: they are drawn.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Prints a warning of onnxc as its errors are printed; others with where they come from."""
    if issubclass(category, ModelWarning):
        click.echo(str(message), err=True)
    else:
        click.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True, nl=False)


def reporting_errors(command: Callable[P, None]) -> Callable[P, None]:
    """The command; an error of onnxc is printed, not raised, and ends with exit code 1; its warnings are printed."""

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", ModelWarning)
                warnings.showwarning = _show_warning
                command(*arguments, **options)
        except OnnxcError as problem:
            click.echo(str(problem), err=True)
            raise SystemExit(1) from problem

    return run


def print_parts(parts: Iterable[RenderableType]) -> None:
    """Tables and lines; brackets in them are no markup, and where there is no terminal lines may be long."""
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))


def open_model(
    model: Path,
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    precision: str,
    threads: int | None,
    dtypes: Mapping[str, str] | str | None = None,
    opset: int | None = None,
    config: str | None = None,
    devices: str | None = None,
    operators: "Sequence[CustomOperator]" = (),
    *,
    allow_links: bool = False,
) -> Executable:
    """The file as an executable: an artifact is loaded, a model compiled."""
    if is_artifact(model):
        if dtypes or opset is not None or config is not None or operators or allow_links:
            given = "--dtype, --opset, --config, --operators and --allow-links"
            raise click.UsageError(f"{given} are for models; an artifact is compiled already")
        executable = onnxc.load(model, threads=threads, devices=devices)
        expect_known_names(executable.inputs, dims, shapes)
        return executable
    with progress(f"compiling {model.name}"):
        return onnxc.compile(
            model,
            target,
            dims,
            shapes,
            dtypes,
            precision=precision,
            threads=threads,
            operators=operators,
            allow_links=allow_links,
            opset=opset,
            config=config,
            devices=devices,
        )


def write_page(path: Path, text: str) -> None:
    """Writes a page or a trace; that it cannot be written is an error of usage."""
    try:
        path.write_text(text)
    except OSError as problem:
        raise click.FileError(str(path), problem.strerror) from problem


def is_artifact(file: Path) -> bool:
    with open_plain_file(file, what="the file") as opened:
        return zipfile.is_zipfile(opened)


def fixed_sizes(dims: Mapping[str, Range]) -> dict[str, int]:
    """The sizes given as one number; of a range, its least."""
    return {name: size if isinstance(size, int) else size[0] for name, size in dims.items()}


def expect_known_names(
    infos: Iterable[TensorInfo], dims: Iterable[str], shapes: Iterable[str], inputs: Iterable[str] = ()
) -> None:
    """InputError where a size or an input is named that a model or an artifact does not have."""
    listed = list(infos)
    texts = (size for info in listed for size in info.shape or () if isinstance(size, str))
    sizes = frozenset().union(*(symbols_in(text) for text in texts))
    names = {info.name for info in listed}
    for name in dims:
        if name not in sizes:
            message = f"--dim names {name!r}, the symbolic sizes of the inputs are {', '.join(sorted(sizes)) or 'none'}"
            raise InputError(message, code="unknown-dim")
    for option, named in (("--shape", shapes), ("--input", inputs)):
        unknown = [name for name in named if name not in names]
        if unknown:
            message = f"{option} names {unknown[0]!r}, the inputs are {', '.join(sorted(names)) or 'none'}"
            raise InputError(message, code="unknown-input")
