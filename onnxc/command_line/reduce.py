"""`onnxc reduce`: the smallest model that fails as a model does."""

import json
from pathlib import Path

import click

from onnxc.command_line.progress import progress
from onnxc.command_line.shared import AS_JSON, MODEL, TARGET, reporting_errors
from onnxc.comparing.attempt import Attempts, Job
from onnxc.comparing.reduce import reduce_model
from onnxc.compiler.model_texts import file_bytes

__all__ = ["reduce_command"]


@click.command("reduce")
@MODEL
@click.option("--fails", required=True, metavar="CODE|TEXT", help="A code, a part of the text, SIGSEGV, time limit.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Where to write.")
@TARGET
@click.option("--compile-only", is_flag=True, help="Do not call what is compiled.")
@click.option("--seconds", type=click.FloatRange(min=0.1), default=20.0, show_default=True, help="Of one attempt.")
@click.option("--memory", type=click.IntRange(min=256), default=8192, show_default=True, help="MiB of one attempt.")
@AS_JSON
@reporting_errors
def reduce_command(
    model: Path,
    fails: str,
    output: Path,
    target: str,
    seconds: float,
    memory: int,
    *,
    compile_only: bool,
    as_json: bool,
) -> None:
    """Write the smallest model that fails as MODEL does.

    Models are compiled, and called on drawn inputs, in processes of their own, which may crash, hang or need too much
    memory; a model counts where the error, or how the process ended, contains what --fails says.
    """
    job = Job(target, not compile_only, seconds, memory << 20)
    with progress(f"reducing {model.name}") as say, Attempts() as attempts:
        reduced = reduce_model(model, fails, job, attempts, say)
    try:
        output.write_bytes(file_bytes(reduced.model, output.name))
    except OSError as problem:
        raise click.FileError(str(output), problem.strerror) from problem
    nodes = len(reduced.model.graph.node)
    if as_json:
        figures = {
            "output": str(output),
            "nodes": nodes,
            "nodes_before": reduced.nodes_before,
            "attempts": reduced.attempts,
            "outcome": reduced.outcome,
        }
        click.echo(json.dumps(figures, indent=1, ensure_ascii=False))
        return
    click.echo(f"{output}: {nodes} of {reduced.nodes_before} nodes, after {reduced.attempts} attempts")
    click.echo(reduced.outcome)
