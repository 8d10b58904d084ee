"""`onnxc schema`: an operator as it is defined, its inputs, outputs, attributes and types."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

import click
from rich.console import RenderableType

import onnxc
from onnxc.command_line.shared import print_parts
from onnxc.command_line.texts.tables import facts_table, table
from onnxc.compiler.frontend.schemas import AttributeSchema, Formal, Schema, all_schemas, onnxruntime_schemas


@click.command("schema")
@click.argument("operator", metavar="[DOMAIN.]NAME")
@click.option("--opset", type=click.IntRange(min=1), help="The version that holds in this opset. Default: the newest.")
def schema_command(operator: str, opset: int | None) -> None:
    """Print what an operator takes and gives.

    Conv is of ai.onnx; other domains stand before the name, as in ai.onnx.ml.TreeEnsemble and com.microsoft.Gelu.
    """
    domain, _, name = operator.rpartition(".")
    versions = onnxc.schemas(name, domain)
    if not versions:
        raise click.BadParameter(_unknown(operator), param_hint="NAME")
    until = [schema for schema in versions if opset is None or schema.since_version <= opset]
    if not until:
        raise click.BadParameter(f"{versions[0]} is the oldest version of {operator}", param_hint="--opset")
    print_parts(_parts(until[-1], [schema.since_version for schema in versions]))


def _unknown(operator: str) -> str:
    known = {_full_name(schema) for schema in (*all_schemas(), *onnxruntime_schemas())}
    folded = {name.lower(): name for name in sorted(known)}
    near = [folded[name] for name in get_close_matches(operator.lower(), folded)]
    return f"no operator is named {operator!r}" + (f"; near are {', '.join(near)}" if near else "")


def _full_name(schema: Schema) -> str:
    return f"{schema.domain}.{schema.name}" if schema.domain else schema.name


def _parts(schema: Schema, versions: Iterable[int]) -> Iterator[RenderableType]:
    """The tables that describe a version of an operator; `versions` are all it has."""
    yield f"{schema}" + (", deprecated" if schema.deprecated else "")
    yield facts_table({"versions": ", ".join(map(str, versions))})
    for title, formals in (("input", schema.inputs), ("output", schema.outputs)):
        if formals:
            shown = table(title, "type", "how often")
            for formal in formals:
                shown.add_row(formal.name, formal.type_str, _count(formal))
            yield shown
    if schema.attributes:
        shown = table("attribute", "kind", "default")
        for attribute in schema.attributes.values():
            shown.add_row(attribute.name, attribute.kind, _default(attribute))
        yield shown
    if schema.type_constraints:
        yield facts_table({name: ", ".join(types) for name, types in schema.type_constraints.items()})


def _count(formal: Formal) -> str:
    if formal.option == "variadic":
        return f"{formal.min_arity} or more" + ("" if formal.homogeneous else ", of any types")
    return "may be left out" if formal.option == "optional" else "once"


def _default(attribute: AttributeSchema) -> str:
    if attribute.default is not None:
        return repr(list(attribute.default) if isinstance(attribute.default, tuple) else attribute.default)
    return "required" if attribute.required else "may be left out"
