"""Make compiler/frontend/schema_data.json.gz: what the `onnx` package's registry says of every operator version.

    python tools/generate_schemas.py

The file is a JSON object, compressed reproducibly:
  "ir_version": the newest version of the IR
  "types":     all type strings, "tensor(float)" and so on; referred to by index below
  "type_sets": all sets of allowed types, as lists of indices into "types"
  "schemas":   domain -> operator -> one row per version, oldest first:
               [since, flags (1 deprecated, 2 has a function body), [min inputs, max inputs, min outputs, max outputs],
                inputs, outputs, attributes, constraints]
               a formal is [name, type, option (0 single, 1 optional, 2 variadic), homogeneous, min arity,
                            differentiability (0 not said, 1 differentiable, 2 not)]
               an attribute is [name, kind, required, default or null]
               a constraint is [name, index into "type_sets"]
"""

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import onnx
from onnx import defs, helper

TARGET = Path(__file__).resolve().parent.parent / "compiler" / "frontend" / "schema_data.json.gz"

FormalRow = list[str | int]
AttributeRow = list[object]
SchemaRow = list[object]


class Table:
    """Values by index, each once."""

    def __init__(self) -> None:
        self.values: dict[object, int] = {}

    def index(self, value: object) -> int:
        """The index of `value`, which is added if it is new."""
        return self.values.setdefault(value, len(self.values))


def enumerator(member: object) -> str:
    """The last part of AttrType.INT and the like."""
    return str(member).rpartition(".")[2]


def _formal(formal: defs.OpSchema.FormalParameter) -> FormalRow:
    option = ["Single", "Optional", "Variadic"].index(enumerator(formal.option))
    category = ["Unknown", "Differentiable", "NonDifferentiable"].index(enumerator(formal.differentiation_category))
    return [formal.name, formal.type_str, option, int(formal.is_homogeneous), formal.min_arity, category]


def _attribute(attribute: defs.OpSchema.Attribute) -> AttributeRow:
    return [
        attribute.name,
        enumerator(attribute.type).lower(),
        int(attribute.required),
        attribute_default(attribute.default_value),
    ]


def attribute_default(default: onnx.AttributeProto) -> object:
    if default.type == onnx.AttributeProto.UNDEFINED:
        return None
    value = helper.get_attribute_value(default)
    if isinstance(value, list):
        return [item.decode() if isinstance(item, bytes) else item for item in value]
    return value.decode() if isinstance(value, bytes) else value


class Constraint(Protocol):
    """A type parameter."""

    @property
    def type_param_str(self) -> str: ...

    @property
    def allowed_type_strs(self) -> Sequence[str]: ...


class Schema(Protocol):
    """What the schemas of all registries show in the same way."""

    @property
    def domain(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def since_version(self) -> int: ...

    @property
    def deprecated(self) -> bool: ...

    @property
    def min_input(self) -> int: ...

    @property
    def max_input(self) -> int: ...

    @property
    def min_output(self) -> int: ...

    @property
    def max_output(self) -> int: ...

    @property
    def type_constraints(self) -> Sequence[Constraint]: ...


S = TypeVar("S", bound=Schema)
Parts = tuple[bool, Sequence[FormalRow], Sequence[FormalRow], Sequence[AttributeRow]]
"""What registries show in ways of their own: whether there is a function body, inputs, outputs, attributes."""


def write_schemas(schemas: Iterable[S], parts_of: Callable[[S], Parts], target: Path) -> None:
    """Write the file of some operators; equal registries give equal bytes."""
    types, type_sets = Table(), Table()
    rows: dict[str, dict[str, list[SchemaRow]]] = {}
    for schema in sorted(schemas, key=lambda s: (s.domain, s.name, s.since_version)):
        row = _row(schema, parts_of(schema), types, type_sets)
        rows.setdefault(schema.domain, {}).setdefault(schema.name, []).append(row)
    tables = {
        "ir_version": onnx.IR_VERSION,
        "types": list(types.values),
        "type_sets": list(type_sets.values),
        "schemas": rows,
    }
    text = json.dumps(tables, separators=(",", ":"), ensure_ascii=False)
    target.write_bytes(gzip.compress(text.encode(), mtime=0))


def _row(schema: Schema, parts: Parts, types: Table, type_sets: Table) -> SchemaRow:
    has_function, *formals_and_attributes = parts
    constraints = [
        [constraint.type_param_str, type_sets.index(tuple(types.index(text) for text in constraint.allowed_type_strs))]
        for constraint in schema.type_constraints
    ]
    arity = [schema.min_input, schema.max_input, schema.min_output, schema.max_output]
    flags = int(schema.deprecated) | int(has_function) << 1
    return [schema.since_version, flags, arity, *formals_and_attributes, constraints]


def _parts(schema: defs.OpSchema) -> Parts:
    # The stubs of onnx leave these two out.
    has_function = schema.has_function or schema.has_context_dependent_function  # type: ignore[attr-defined]
    inputs, outputs = ([_formal(formal) for formal in formals] for formals in (schema.inputs, schema.outputs))
    return has_function, inputs, outputs, [_attribute(attribute) for _, attribute in sorted(schema.attributes.items())]


if __name__ == "__main__":
    write_schemas(defs.get_all_schemas_with_history(), _parts, TARGET)
