"""`onnxc compile`: a model as an artifact or as a C library, or what a stage on the way makes of it."""

import importlib
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import click

from onnxc.command_line.option_values import Range, Shape, parse_choices
from onnxc.command_line.report import report_parts
from onnxc.command_line.shared import (
    ALLOW_LINKS,
    CONFIG,
    DEVICES,
    DIM,
    DTYPE,
    MODEL,
    OPERATORS,
    OPSET,
    PRECISION,
    SHAPE,
    TARGET,
    print_parts,
    reporting_errors,
)
from onnxc.compiler.artifact_cache.cached_artifact import cached_artifact
from onnxc.compiler.frontend.custom.operators import CustomOperator
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.options import CompileOptions, make_options
from onnxc.compiler.stage_names import STAGES
from onnxc.runtime.artifact import Artifact, write_artifact

__all__ = ["compile_command"]


@click.command("compile")
@MODEL
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Default: MODEL with .onnxc, and for a C library, which is a folder, MODEL with .c-library.",
)
@click.option(
    "--emit",
    type=click.Choice(["artifact", "c-library"]),
    default="artifact",
    show_default=True,
    help="c-library: a shared library for programs in C, without Python; for models that are native code alone.",
)
@click.option("--weights-file", is_flag=True, help="Of a C library: its weights in a file of their own.")
@TARGET
@DIM
@SHAPE
@DTYPE
@OPSET
@OPERATORS
@ALLOW_LINKS
@PRECISION
@click.option(
    "--specialize",
    multiple=True,
    callback=parse_choices,
    metavar="NAME=1,8",
    help="Sizes of a symbol that get kernels of their own; all others are served by the general ones.",
)
@CONFIG
@DEVICES
@click.option("--keep-params", is_flag=True, help="Initializers become inputs with a default.")
@click.option("--strict", is_flag=True, help="What is declared wrong, and does no harm, is an error.")
@click.option("--report", is_flag=True, help="Print kernels, bytes and what was declined.")
@click.option("--stop-after", type=click.Choice(STAGES), help="Print what this stage makes, and stop.")
@reporting_errors
def compile_command(
    model: Path,
    output: Path | None,
    emit: str,
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, str] | str | None,
    opset: int | None,
    operators: tuple[CustomOperator, ...],
    precision: str,
    specialize: Mapping[str, list[int]],
    config: str | None,
    devices: str | None,
    *,
    allow_links: bool,
    weights_file: bool,
    keep_params: bool,
    strict: bool,
    report: bool,
    stop_after: str | None,
) -> None:
    """Compile MODEL into one file, or into a C library.

    The file holds native code, weights and signature. The code serves all sizes of the symbolic dimensions; --dim
    narrows them.
    """
    options = make_options(
        target,
        dims,
        shapes,
        dtypes,
        precision=precision,
        specialize=specialize,
        freeze_params=not keep_params,
        config=config,
        devices=devices,
        strict=strict,
        operators=operators,
        allow_links=allow_links,
        opset=opset,
    )
    if emit == "c-library":
        if config is not None:
            raise click.UsageError("--config is for artifacts; a C library runs on one device")
        if report or stop_after is not None:
            raise click.UsageError("--report and --stop-after are for artifacts")
        _stages().emit_c_library(model, options, output or model.with_suffix(".c-library"), weights_file=weights_file)
        return
    expect_one_file(options, output, stop_after or STAGES[-1], weights_file=weights_file)
    if stop_after is not None:
        _stages().write_stage(model, options, stop_after, output)
    else:
        _compile_artifact(model, options, output or model.with_suffix(".onnxc"), report=report)


def _compile_artifact(model: Path, options: CompileOptions, path: Path, *, report: bool) -> None:
    """Writes the artifact, and prints how large it is and how long it took."""
    started = time.perf_counter()

    def compile_model(loaded: LoadedModel, options: CompileOptions) -> Artifact:
        artifact = _stages().run_until(loaded, model.name, options, STAGES[-1])
        assert isinstance(artifact, Artifact), artifact
        return artifact

    artifact = cached_artifact(model, options, "model", compile_model)
    write_artifact(artifact, path)
    if report:
        print_parts(report_parts(artifact.report))
    click.echo(f"{path}: {path.stat().st_size / 1e6:.2f} MB in {time.perf_counter() - started:.2f} s")


def _stages() -> ModuleType:
    """What runs the stages, which are imported when one has to: the cache of artifacts does without."""
    return importlib.import_module("onnxc.command_line.run_stages")


def expect_one_file(options: CompileOptions, output: Path | None, last: str, *, weights_file: bool) -> None:
    """Raises UsageError for what an artifact, or the text of the stage `last`, cannot be."""
    if weights_file:
        raise click.UsageError("--weights-file is for --emit c-library; an artifact is one file")
    if output is not None and output.is_dir():
        raise click.UsageError(f"{output} is a folder, expected a file")
    if options.target.kind == "interpreter" and last in ("plan", "emit"):
        raise click.UsageError(f"there is nothing to {last} for the interpreter, which runs what `optimize` makes")
