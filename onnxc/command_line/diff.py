"""`onnxc diff`: what differs between two runs of a model, and the smallest model that shows it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from rich.console import RenderableType

from onnxc.command_line.array_files import write_npz
from onnxc.command_line.option_values import Range, Shape
from onnxc.command_line.progress import progress
from onnxc.command_line.shared import AS_JSON, DIM, INPUT, SEED, SHAPE, fixed_sizes, print_parts, reporting_errors
from onnxc.command_line.texts.tables import facts_table, formatted, table
from onnxc.comparing.bisect import Bisection, bisect
from onnxc.comparing.compare import compare_sides
from onnxc.comparing.comparison import Comparison
from onnxc.comparing.diff import drawn_feed, parse_sides
from onnxc.comparing.differences import ValueDifference
from onnxc.compiler.model_texts import file_bytes

__all__ = ["diff_command"]

MOST_ROWS = 20
"""Of the values in between that differ: those behind the first ones mostly differ because of them."""


@click.command("diff")
@click.argument("a")
@click.argument("b")
@INPUT
@DIM
@SHAPE
@SEED
@click.option("--outputs-only", is_flag=True, help="Leave out the values in between.")
@click.option("--bisect", "bisects", is_flag=True, help="Write the smallest model that shows the difference.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where; its inputs go to .npz.")
@AS_JSON
@reporting_errors
def diff_command(
    a: str,
    b: str,
    inputs: Mapping[str, object],
    dims: Mapping[str, Range],
    shapes: Mapping[str, Shape],
    seed: int,
    output: Path | None,
    *,
    outputs_only: bool,
    bisects: bool,
    as_json: bool,
) -> None:
    """Compare two runs of a model, B being the one that is right.

    A and B are MODEL[@ENGINE][:precision=bf16][:threads=1], where ENGINE is cpu, cuda, interpreter, onnxruntime or
    reference; B alone may leave out the model: onnxc diff model.onnx@cpu @onnxruntime. Outputs are compared, then every
    value in between, and the first that differs is named. The exit code is 1 where outputs differ.
    """
    if bisects != (output is not None):
        raise click.UsageError("--bisect and -o go together: what is found is written")
    sides = parse_sides(a, b)
    with progress(f"comparing {a} and {b}"):
        feed = drawn_feed(sides[0], inputs, shapes, fixed_sizes(dims), seed)
        compared = compare_sides(*sides, feed, inner=not outputs_only)
    if as_json:
        click.echo(json.dumps(compared.to_json(), indent=1, ensure_ascii=False))
    else:
        print_parts(diff_parts(compared))
    if output is not None and compared.first is not None:
        with progress(f"looking for the smallest part of {sides[0].model.name}"):
            bisection = bisect(*sides, feed, compared)
        _write(bisection, output)
        click.echo(f"{output}: {_nodes(bisection)}; its inputs are in {output.with_suffix('.npz')}", err=as_json)
    if not compared.is_same:
        raise SystemExit(1)


def diff_parts(compared: Comparison) -> Iterator[RenderableType]:
    """The outputs, the values in between that differ, and the first of these."""
    first, inner = compared.first, [each for each in compared.inner if not each.is_same]
    yield _values(compared.outputs)
    for side, names in ((compared.a, compared.only_a), (compared.b, compared.only_b)):
        if names:
            yield f"only {side} gives {', '.join(names)}"
    if inner:
        yield ""
        yield f"{len(inner)} of {len(compared.inner)} values in between differ:"
        yield _values(inner[:MOST_ROWS])
    if compared.inner_error:
        yield f"there are no values in between: {compared.inner_error}"
    yield ""
    if first is None:
        yield f"{compared.a} and {compared.b} agree"
    else:
        yield facts_table({"first to differ": f"{first.name}, which is computed by {first.node or 'no node'}"})


def _values(values: tuple[ValueDifference, ...] | list[ValueDifference]) -> RenderableType:
    rows = table("value", "type", "same", "of the largest", "allowed", "absolute", "relative", "ulps", "NaN")
    for each in values:
        kind = each.a if each.a == each.b else f"{each.a} and {each.b}"
        figures = (each.max_abs, each.max_rel, each.max_ulps)
        rows.add_row(
            each.name,
            kind,
            "yes" if each.is_same else "NO",
            f"{each.difference:.2g}",
            f"{each.allowed:.0e}",
            *("" if figure is None else formatted(figure) for figure in figures),
            str(each.nans) if each.nans else "",
        )
    return rows


def _write(bisection: Bisection, output: Path) -> None:
    try:
        output.write_bytes(file_bytes(bisection.model, output.name))
        write_npz(output.with_suffix(".npz"), bisection.feed)
    except OSError as problem:
        raise click.FileError(str(output), problem.strerror) from problem


def _nodes(bisection: Bisection) -> str:
    operators = [node.op_type for node in bisection.model.graph.node]
    return f"{len(operators)} node{'s' * (len(operators) != 1)} ({', '.join(operators[:5])})"
