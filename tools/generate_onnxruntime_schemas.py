"""Make compiler/frontend/schema_data_onnxruntime.json.gz: what ONNX Runtime says of the operators that are its own.

    python tools/generate_onnxruntime_schemas.py

The form is that of generate_schemas.py, of whose registry nothing is repeated. Its operators are in the domains
com.microsoft and com.microsoft.nchwc; a few are in ai.onnx, where the standard does not define them, or not before a
later opset.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import onnx
from generate_schemas import FormalRow, SchemaRow, Table, attribute_default, enumerator
from onnx import defs
from onnxruntime.capi import onnxruntime_pybind11_state

TARGET = Path(__file__).resolve().parent.parent / "compiler" / "frontend" / "schema_data_onnxruntime.json.gz"
DOMAINS = ("com.microsoft", "com.microsoft.nchwc")
OF_ONNX = ("LayerNormalization", "SimplifiedLayerNormalization")


class Formal(Protocol):
    """A parameter or result, as the binding shows it; it does not tell the least number of a variadic one."""

    name: str
    typeStr: str
    option: object
    isHomogeneous: bool


class Attribute(Protocol):
    """An attribute; its default is the bytes of an AttributeProto."""

    name: str
    type: object
    required: bool
    _default_value: bytes


class Constraint(Protocol):
    """A type parameter."""

    type_param_str: str
    allowed_type_strs: list[str]


class OperatorSchema(Protocol):
    """A schema, as the binding shows it."""

    domain: str
    name: str
    since_version: int
    deprecated: bool
    min_input: int
    max_input: int
    min_output: int
    max_output: int
    inputs: list[Formal]
    outputs: list[Formal]
    attributes: dict[str, Attribute]
    type_constraints: list[Constraint]


def own_schemas() -> Iterator[OperatorSchema]:
    """The schemas that are not the standard's."""
    known = {(schema.domain, schema.name, schema.since_version) for schema in defs.get_all_schemas_with_history()}
    schemas: Iterable[OperatorSchema] = onnxruntime_pybind11_state.get_all_operator_schema()
    for schema in sorted(schemas, key=lambda s: (s.domain, s.name, s.since_version)):
        is_own = schema.domain in DOMAINS or (schema.domain == "" and schema.name in OF_ONNX)
        if is_own and (schema.domain, schema.name, schema.since_version) not in known:
            yield schema


def _formal(formal: Formal) -> FormalRow:
    option = ["Single", "Optional", "Variadic"].index(enumerator(formal.option))
    return [formal.name, formal.typeStr, option, int(formal.isHomogeneous), 1]


def _attribute(attribute: Attribute) -> list[object]:
    default = attribute_default(onnx.AttributeProto.FromString(attribute._default_value))
    return [attribute.name, enumerator(attribute.type).lower(), int(attribute.required), default]


def _schema(schema: OperatorSchema, types: Table, type_sets: Table) -> SchemaRow:
    constraints = [
        [constraint.type_param_str, type_sets.index(tuple(types.index(text) for text in constraint.allowed_type_strs))]
        for constraint in schema.type_constraints
    ]
    return [
        schema.since_version,
        int(schema.deprecated),
        [schema.min_input, schema.max_input, schema.min_output, schema.max_output],
        [_formal(formal) for formal in schema.inputs],
        [_formal(formal) for formal in schema.outputs],
        [_attribute(attribute) for _, attribute in sorted(schema.attributes.items())],
        constraints,
    ]


def schema_tables() -> dict[str, object]:
    """The operators as plain data."""
    types, type_sets = Table(), Table()
    schemas: dict[str, dict[str, list[SchemaRow]]] = {}
    for schema in own_schemas():
        schemas.setdefault(schema.domain, {}).setdefault(schema.name, []).append(_schema(schema, types, type_sets))
    return {
        "ir_version": onnx.IR_VERSION,
        "types": list(types.values),
        "type_sets": list(type_sets.values),
        "schemas": schemas,
    }


def main() -> None:
    """Write the file; equal registries give equal bytes."""
    text = json.dumps(schema_tables(), separators=(",", ":"), ensure_ascii=False)
    TARGET.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
