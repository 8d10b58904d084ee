"""`onnxc run`: a call of a model or an artifact, on given inputs or drawn ones."""

import importlib
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnxc.command_line.array_files import write_npz
from onnxc.command_line.option_values import Range, Shape
from onnxc.command_line.random_inputs import complete_inputs
from onnxc.command_line.shared import (
    ALLOW_LINKS,
    CONFIG,
    DEVICES,
    DIM,
    DTYPE,
    INPUT,
    MODEL,
    OPERATORS,
    OPSET,
    PRECISION,
    SEED,
    SHAPE,
    TARGET,
    THREADS,
    fixed_sizes,
    open_model,
    print_parts,
    reporting_errors,
)
from onnxc.command_line.texts.tables import arrays_table
from onnxc.runtime.devices.device_choice import RANKS
from onnxc.runtime.values import host_value

if TYPE_CHECKING:
    from onnxc.compiler.frontend.custom.operators import CustomOperator

__all__ = ["run_command", "speaks_for_all"]


@click.command("run")
@MODEL
@INPUT
@TARGET
@DIM
@SHAPE
@DTYPE
@OPSET
@OPERATORS
@ALLOW_LINKS
@PRECISION
@CONFIG
@DEVICES
@THREADS
@SEED
@click.option("--repeat", type=click.IntRange(min=1), help="Call this often, and print the median latency.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the outputs as .npz.")
@reporting_errors
def run_command(
    model: Path,
    inputs: Mapping[str, object],
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, str] | str | None,
    opset: int | None,
    operators: "tuple[CustomOperator, ...]",
    precision: str,
    config: str | None,
    devices: str | None,
    threads: int | None,
    seed: int,
    repeat: int | None,
    output: Path | None,
    *,
    allow_links: bool,
) -> None:
    """Call MODEL, an .onnx or .onnxc file, once.

    Inputs that are not given are drawn at random; their symbolic sizes are what --dim NAME=8 says, or what the given
    inputs have, or 1. Of several processes, as mpirun starts them, the first one speaks for all.
    """
    executable = open_model(
        model,
        target,
        dims,
        shapes,
        precision,
        threads,
        dtypes,
        opset,
        config,
        devices,
        operators,
        allow_links=allow_links,
    )
    feed = complete_inputs(executable.inputs, inputs, shapes, fixed_sizes(dims), seed)
    results = {name: host_value(value) for name, value in executable.run(feed).items()}
    seconds = [timed(lambda: executable.run(feed)) for _ in range(repeat or 0)]
    if not speaks_for_all(devices):
        return
    print_parts([arrays_table(results)])
    if seconds:
        click.echo(f"median of {repeat} calls: {statistics.median(seconds) * 1e3:.4f} ms")
    if output is not None:
        write_npz(output, results)
        click.echo(f"{output}: {len(results)} arrays")


def speaks_for_all(devices: str | None) -> bool:
    """Whether this process is the first, or the only one, of those that run the devices."""
    if devices != RANKS:
        return True
    is_first: bool = importlib.import_module("onnxc.runtime.ranks.world").connect().rank == 0
    return is_first


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
