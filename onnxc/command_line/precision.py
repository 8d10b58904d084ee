"""`onnxc precision`: what a lower precision costs, the errors of outputs and layers as tables or as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from rich.console import RenderableType

import onnxc
from onnxc.command_line.array_files import named_arrays
from onnxc.command_line.option_values import Range, Shape
from onnxc.command_line.progress import progress
from onnxc.command_line.random_inputs import complete_inputs
from onnxc.command_line.shared import (
    AS_JSON,
    DIM,
    INPUT,
    MODEL,
    SEED,
    SHAPE,
    TARGET,
    THREADS,
    fixed_sizes,
    print_parts,
    reporting_errors,
)
from onnxc.command_line.texts.tables import formatted, table
from onnxc.compiler.options import make_options
from onnxc.compiler.passes.lower.precision_policy import STORED, Precision
from onnxc.compiler.precision_errors import LayerError, OutputError, layer_errors, output_errors
from onnxc.runtime.values import import_value

__all__ = ["precision_command"]


@click.command("precision")
@MODEL
@click.option("--to", type=click.Choice(list(STORED)), required=True, help="The precision to look at.")
@INPUT
@TARGET
@DIM
@SHAPE
@THREADS
@click.option("--samples", type=click.IntRange(min=1), default=1, show_default=True, help="How many calls to compare.")
@SEED
@click.option("--layers", type=click.IntRange(min=0), default=0, help="Name as many nodes where the error grows most.")
@AS_JSON
@reporting_errors
def precision_command(
    model: Path,
    to: Precision,
    inputs: Mapping[str, object],
    target: str,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    threads: int | None,
    samples: int,
    seed: int,
    layers: int,
    *,
    as_json: bool,
) -> None:
    """Say what a lower precision costs MODEL.

    The model runs in fp32 and in the other precision on the given inputs, or on drawn ones as for `run`; the errors of
    each output are printed. --layers interprets both programs node by node, on the first sample.
    """
    with progress(f"compiling {model.name} twice"):
        both = [onnxc.compile(model, target, dims, shapes, precision=each, threads=threads) for each in ("fp32", to)]
    feeds = [complete_inputs(both[0].inputs, inputs, shapes, fixed_sizes(dims), seed + n) for n in range(samples)]
    outputs = output_errors(*([dict(named_arrays(each.run(feed))) for feed in feeds] for each in both))
    options = make_options("interpreter", dims, shapes, precision=to)
    given = {
        info.name: import_value(feeds[0][info.name], info.text, info.name)
        for info in both[0].inputs
        if info.name in feeds[0]
    }
    errors = layer_errors(model, options, given)[:layers] if layers else ()
    if as_json:
        click.echo(precision_json(to, samples, outputs, errors))
    else:
        print_parts(precision_parts(to, samples, outputs, errors))


def precision_parts(
    precision: str, samples: int, outputs: Sequence[OutputError], layers: Sequence[LayerError]
) -> Iterator[RenderableType]:
    """A table of the outputs, and one of the layers if there are any."""
    yield f"{precision} against fp32, {samples} {'sample' if samples == 1 else 'samples'}"
    made = table("output", "largest", "max error", "relative", "RMS error", "relative", "NaN", "inf", "changed")
    for output in outputs:
        errors = (output.largest, output.max_absolute, output.max_relative, output.rms, output.relative_rms)
        counts = (output.nan, output.infinite)
        changed = f"{output.changed} of {output.elements}"
        made.add_row(output.name, *(f"{error:.3g}" for error in errors), *map(formatted, counts), changed)
    yield made
    if layers:
        yield ""
        steps = table("node", "operator", "computed by", "growth", "relative RMS error")
        for layer in layers:
            location = layer.location
            name = location.name or f"{location.graph}[{location.index}]"
            steps.add_row(name, location.operator, layer.operator, f"{layer.growth:.3g}", f"{layer.relative_rms:.3g}")
        yield steps


def precision_json(precision: str, samples: int, outputs: Sequence[OutputError], layers: Sequence[LayerError]) -> str:
    """The same as one JSON object; the names of its fields do not change."""
    entry = {
        "precision": precision,
        "samples": samples,
        "outputs": [output.to_json() for output in outputs],
        "layers": [layer.to_json() for layer in layers],
    }
    return json.dumps(entry, indent=2, ensure_ascii=False)
