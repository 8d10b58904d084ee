"""The commands that write a model made from a model: inline, convert."""

from collections.abc import Mapping
from pathlib import Path

import click

import onnxc
from onnxc.command_line.progress import progress
from onnxc.command_line.shared import LIMIT, MODEL, OPSET, reporting_errors
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.model_texts import file_bytes

__all__ = ["convert_command", "inline_command", "write_model"]


@click.command("inline")
@MODEL
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Where to write.")
@click.option(
    "--function",
    "functions",
    multiple=True,
    metavar="[DOMAIN.]NAME[:OVERLOAD]",
    help="Expand this one; may be repeated. Default: all.",
)
@LIMIT
@OPSET
@reporting_errors
def inline_command(
    model: Path, output: Path, functions: tuple[str, ...], limits: Mapping[str, int], opset: int | None
) -> None:
    """Write MODEL with its functions expanded where they are called.

    Everything else that the file carries is kept. Weights in files of their own stay there.
    """
    with progress(f"expanding {model.name}"):
        inlined = onnxc.inline(model, functions or None, limits, opset=opset)
        write_model(inlined, output, model)
    click.echo(f"{output}: {len(inlined.graph.node)} nodes, {len(inlined.functions)} functions")


@click.command("convert")
@MODEL
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--opset", type=int, help="The version of ai.onnx to convert to, older or newer.")
@LIMIT
@reporting_errors
def convert_command(model: Path, output: Path, opset: int | None, limits: Mapping[str, int]) -> None:
    """Write MODEL as OUTPUT, in the form that its ending names.

    .onnxtxt is ONNX's own text syntax, .textproto protobuf's text format, .json JSON; all else the binary form. A text
    is read back as exactly the same model. With --opset it is in that version of ai.onnx, and means what it meant.
    """
    with progress(f"converting {model.name}"):
        made = read_model(model).proto if opset is None else onnxc.convert_version(model, opset, limits)
        write_model(made, output, model)


def write_model(made: ModelProto, output: Path, source: Path) -> None:
    """Writes a model that was made from the file `source`, as its ending tells; says where it leaves weights behind."""
    output.write_bytes(file_bytes(made, output.name))
    is_elsewhere = output.absolute().parent != source.absolute().parent
    if is_elsewhere and any(tensor.external_data for tensor in made.graph.initializer):
        click.echo(f"{output} reads the weights beside {source}: put it there, or copy them", err=True)
