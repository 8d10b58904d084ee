"""`onnxc infer`: the type of every value of a model."""

from collections.abc import Mapping
from pathlib import Path

import click

import onnxc
from onnxc.command_line.option_values import Range, Shape
from onnxc.command_line.progress import progress
from onnxc.command_line.rewrite import write_model
from onnxc.command_line.shared import ALLOW_LINKS, DIM, DTYPE, LIMIT, MODEL, OPERATORS, OPSET, SHAPE, reporting_errors
from onnxc.compiler.frontend.custom.operators import CustomOperator
from onnxc.compiler.inspect_model import find_types
from onnxc.compiler.options import make_options

__all__ = ["infer_command"]


@click.command("infer")
@MODEL
@DIM
@SHAPE
@DTYPE
@LIMIT
@OPSET
@OPERATORS
@ALLOW_LINKS
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the annotated model.")
@click.option("--report", is_flag=True, help="Print only the values whose rank data decides, and why.")
@reporting_errors
def infer_command(
    model: Path,
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, str] | str | None,
    limits: Mapping[str, int],
    opset: int | None,
    operators: tuple[CustomOperator, ...],
    output: Path | None,
    *,
    allow_links: bool,
    report: bool,
) -> None:
    """Print the type of every value of MODEL.

    That is its element type and its shape, in the names of the symbolic sizes. What lies within a graph of a node has
    the place of that graph before its name. Weights in files of their own stay there.
    """
    with progress(f"inferring {model.name}"):
        if output is not None:
            typed = onnxc.infer(model, dims, shapes, dtypes, operators, allow_links, limits, opset)
            write_model(typed, output, model)
        if output is not None and not report:
            return
        options = make_options(
            "interpreter",
            dims,
            shapes,
            dtypes,
            limits=limits,
            operators=operators,
            allow_links=allow_links,
            opset=opset,
        )
        types = find_types(model, options)
    for value in types.values:
        if not report or value.reason:
            click.echo(f"{value}\n  {value.reason}" if report else str(value))
    if report:
        ranked = sum(not value.reason for value in types.values)
        click.echo(f"{ranked} of {len(types.values)} values have a known rank")
