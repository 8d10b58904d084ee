"""`onnxc shard`: a model with annotations that divide it over devices, and why they are as they are."""

from pathlib import Path

import click

import onnxc
from onnxc.command_line.progress import progress
from onnxc.command_line.rewrite import write_model
from onnxc.command_line.shared import MODEL, reporting_errors
from onnxc.compiler.shard_model import explain_source

__all__ = ["shard_command"]


@click.command("shard")
@MODEL
@click.option("--tp", type=int, default=1, help="Over how many devices products with weights are divided.")
@click.option("--pp", type=int, default=1, help="Into how many pipeline stages the nodes are parted.")
@click.option("--dp", type=int, default=1, help="Into how many blocks the batch is divided.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where to write.")
@click.option("--explain", is_flag=True, help="Print why each matrix, and each value, is divided as it is.")
@reporting_errors
def shard_command(model: Path, tp: int, pp: int, dp: int, output: Path | None, *, explain: bool) -> None:
    """Write MODEL with annotations that divide it over tp * pp * dp devices.

    They are a device configuration of the standard, named after the counts as in tp4pp2, which `onnxc compile --config`
    and other tools read. Everything else that the file carries is kept; weights in files of their own stay there.
    """
    if output is None and not explain:
        raise click.UsageError("say where to write with --output, or ask with --explain")
    if output is not None:
        with progress(f"dividing {model.name}"):
            made = onnxc.shard(model, tp, pp, dp)
            write_model(made, output, model)
        config = made.configuration[-1]
        click.echo(f"{output}: configuration {config.name}, {config.num_devices} devices")
    if explain:
        for line in explain_source(model, tp, pp, dp):
            click.echo(line)
