"""The commands that write a model made from models: inline, convert, extract, split, merge, rename, repair."""

from collections.abc import Mapping
from pathlib import Path

import click

import onnxc
from onnxc.command_line.option_files import PLAIN_FILE
from onnxc.command_line.option_values import parse_names
from onnxc.command_line.progress import progress
from onnxc.command_line.shared import ALLOW_LINKS, LIMIT, MODEL, OPSET, reporting_errors
from onnxc.compiler.frontend.external.save import save_model
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import read_model, wrap_model
from onnxc.compiler.frontend.text_forms.forms import form_of_path
from onnxc.compiler.model_texts import file_bytes
from onnxc.runtime.files.plain_files import replaced_file

__all__ = [
    "convert_command",
    "extract_command",
    "inline_command",
    "merge_command",
    "rename_command",
    "repair_command",
    "split_command",
    "write_model",
]

_FILE = click.Path(dir_okay=False, path_type=Path)
_OUTPUT = click.option("-o", "--output", type=_FILE, required=True, help="Where to write.")


@click.command("inline")
@MODEL
@_OUTPUT
@click.option(
    "--function",
    "functions",
    multiple=True,
    metavar="[DOMAIN.]NAME[:OVERLOAD]",
    help="Expand this one; may be repeated. Default: all.",
)
@LIMIT
@ALLOW_LINKS
@OPSET
@reporting_errors
def inline_command(
    model: Path,
    output: Path,
    functions: tuple[str, ...],
    limits: Mapping[str, int],
    opset: int | None,
    *,
    allow_links: bool,
) -> None:
    """Write MODEL with its functions expanded where they are called.

    Everything else that the file carries is kept. Weights in files of their own stay there.
    """
    with progress(f"expanding {model.name}"):
        inlined = onnxc.inline(model, functions or None, limits, allow_links, opset)
        write_model(inlined, output, model)
    click.echo(f"{output}: {len(inlined.graph.node)} nodes, {len(inlined.functions)} functions")


@click.command("convert")
@MODEL
@click.argument("output", type=_FILE)
@click.option("--opset", type=int, help="The version of ai.onnx to convert to, older or newer.")
@click.option("--external-data", metavar="NAME", help="The file beside OUTPUT that gets the large initializers.")
@LIMIT
@ALLOW_LINKS
@reporting_errors
def convert_command(
    model: Path,
    output: Path,
    opset: int | None,
    external_data: str | None,
    limits: Mapping[str, int],
    *,
    allow_links: bool,
) -> None:
    """Write MODEL as OUTPUT, in the form that its ending names.

    .onnxtxt is ONNX's own text syntax, .textproto protobuf's text format, .json JSON; all else the binary form. A text
    is read back as exactly the same model. With --opset it is in that version of ai.onnx, and means what it meant.
    Weights in files of their own stay there, unless --external-data copies them.
    """
    if external_data is not None and form_of_path(output.name) is not None:
        raise click.UsageError(f"--external-data is for the binary form, and {output} is a text")
    with progress(f"converting {model.name}"):
        if external_data is not None and opset is None:
            # Streamed: such a model may be larger than a message, and than memory.
            onnxc.save_model(model, output, external_data, allow_links)
            return
        made = (
            read_model(model).proto
            if opset is None
            else onnxc.convert_version(model, opset, limits, allow_links=allow_links)
        )
        if external_data is None:
            write_model(made, output, model)
        else:
            loaded = wrap_model(made, model.absolute().parent, allow_links=allow_links)
            save_model(loaded, output, external_data)


@click.command("extract")
@MODEL
@_OUTPUT
@click.option("--to", "outputs", multiple=True, required=True, metavar="VALUE", help="An output; may be repeated.")
@click.option(
    "--from",
    "inputs",
    multiple=True,
    metavar="VALUE",
    help="An input; may be repeated. Default: the inputs of the model that are needed.",
)
@reporting_errors
def extract_command(model: Path, output: Path, outputs: tuple[str, ...], inputs: tuple[str, ...]) -> None:
    """Write the part of MODEL that computes some values of its graph from others."""
    with progress(f"extracting from {model.name}"):
        _write_part(onnxc.extract(model, outputs, inputs or None), output, model)


@click.command("split")
@MODEL
@click.option("--at", "values", multiple=True, required=True, metavar="VALUE", help="Cut here; may be repeated.")
@click.option("-o", "--output", "outputs", type=_FILE, nargs=2, required=True, help="Where to write the two parts.")
@reporting_errors
def split_command(model: Path, values: tuple[str, ...], outputs: tuple[Path, Path]) -> None:
    """Write MODEL in two: what computes some values of its graph, and what goes on from them."""
    if outputs[0].absolute() == outputs[1].absolute():
        raise click.UsageError(f"both parts are to be written to {outputs[0]}")
    with progress(f"splitting {model.name}"):
        for part, output in zip(onnxc.split(model, values), outputs, strict=True):
            _write_part(part, output, model)


@click.command("merge")
@click.argument("first", type=PLAIN_FILE)
@click.argument("second", type=PLAIN_FILE)
@_OUTPUT
@click.option(
    "--link",
    "links",
    multiple=True,
    required=True,
    callback=parse_names,
    metavar="OUTPUT=INPUT",
    help="An output of FIRST and the input of SECOND that it is; may be repeated.",
)
@click.option(
    "--shared",
    multiple=True,
    metavar="NAME",
    help="An input or a constant that both have, and that is one; may be repeated.",
)
@reporting_errors
def merge_command(first: Path, second: Path, output: Path, links: Mapping[str, str], shared: tuple[str, ...]) -> None:
    """Write FIRST and SECOND as one model, in which outputs of the one are inputs of the other.

    They must not have names in common but for those that are --shared: `rename --prefix` gives one of them other names.
    """
    with progress(f"merging {first.name} and {second.name}"):
        _write_part(onnxc.merge(first, second, links, shared=shared), output, first, second)


@click.command("rename")
@MODEL
@_OUTPUT
@click.option(
    "--value",
    "names",
    multiple=True,
    callback=parse_names,
    metavar="OLD=NEW",
    help="Another name of a value, the prefix included; may be repeated.",
)
@click.option("--prefix", default="", metavar="TEXT", help="Before the names of all values and nodes.")
@click.option("--node-prefix", default="", metavar="TEXT", help="Before the names of nodes alone.")
@reporting_errors
def rename_command(model: Path, output: Path, names: Mapping[str, str], prefix: str, node_prefix: str) -> None:
    """Write MODEL with other names of values and nodes in its graph, and in the graphs within."""
    if not names and not prefix and not node_prefix:
        raise click.UsageError("--value, --prefix or --node-prefix says what to rename")
    with progress(f"renaming {model.name}"):
        _write_part(onnxc.rename(model, names, prefix, node_prefix), output, model)


@click.command("repair")
@MODEL
@_OUTPUT
@reporting_errors
def repair_command(model: Path, output: Path) -> None:
    """Write MODEL without those breaches of the standard that can mean one thing only.

    Such are nodes out of order, graphs without a name, initializers that are no inputs before IR version 4, operators
    of com.microsoft without its import, attributes without a type, and constants that are there twice.
    """
    with progress(f"repairing {model.name}"):
        _write_part(onnxc.repair(model), output, model)


def _write_part(part: ModelProto, output: Path, *sources: Path) -> None:
    write_model(part, output, *sources)
    graph = part.graph
    names = (", ".join(value.name for value in values) for values in (graph.input, graph.output))
    click.echo(f"{output}: {len(graph.node)} nodes, {' -> '.join(names)}")


def write_model(made: ModelProto, output: Path, *sources: Path) -> None:
    """Writes a model that was made from the files `sources`, as its ending tells; says where weights stay behind."""
    try:
        with replaced_file(output, what="the model") as file:
            file.write(file_bytes(made, output.name))
    except OSError as problem:
        raise click.FileError(str(output), problem.strerror) from problem
    elsewhere = [source for source in sources if output.absolute().parent != source.absolute().parent]
    if elsewhere and any(tensor.external_data for tensor in made.graph.initializer):
        beside = " and ".join(map(str, elsewhere))
        click.echo(f"{output} reads the weights beside {beside}: put it there, or copy them", err=True)
