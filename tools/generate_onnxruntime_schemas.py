"""Make compiler/frontend/schema_data_onnxruntime.json.gz: what ONNX Runtime says of the operators that are its own.

    python tools/generate_onnxruntime_schemas.py

The form is that of generate_schemas.py, of whose registry nothing is repeated. Its operators are in the domains
com.microsoft and com.microsoft.nchwc; a few are in ai.onnx, where the standard does not define them, or not before a
later opset.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import onnx
from generate_schemas import AttributeRow, FormalRow, Parts, Schema, attribute_default, enumerator, write_schemas
from onnx import defs
from onnxruntime.capi import onnxruntime_pybind11_state

TARGET = Path(__file__).resolve().parent.parent / "compiler" / "frontend" / "schema_data_onnxruntime.json.gz"
DOMAINS = ("com.microsoft", "com.microsoft.nchwc")
OF_ONNX = ("LayerNormalization", "SimplifiedLayerNormalization")


class Formal(Protocol):
    """A parameter or result, as the binding shows it; it does not tell the least number of a variadic one, or what is
    differentiable."""

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


class OperatorSchema(Schema, Protocol):
    """A schema, as the binding shows it."""

    inputs: list[Formal]
    outputs: list[Formal]
    attributes: dict[str, Attribute]


def own_schemas() -> Iterator[OperatorSchema]:
    """The schemas that are not the standard's."""
    known = {(schema.domain, schema.name, schema.since_version) for schema in defs.get_all_schemas_with_history()}
    schemas: Iterable[OperatorSchema] = onnxruntime_pybind11_state.get_all_operator_schema()
    for schema in schemas:
        is_own = schema.domain in DOMAINS or (schema.domain == "" and schema.name in OF_ONNX)
        if is_own and (schema.domain, schema.name, schema.since_version) not in known:
            yield schema


def _formal(formal: Formal) -> FormalRow:
    option = ["Single", "Optional", "Variadic"].index(enumerator(formal.option))
    return [formal.name, formal.typeStr, option, int(formal.isHomogeneous), 1, 0]


def _attribute(attribute: Attribute) -> AttributeRow:
    default = attribute_default(onnx.AttributeProto.FromString(attribute._default_value))
    return [attribute.name, enumerator(attribute.type).lower(), int(attribute.required), default]


def _parts(schema: OperatorSchema) -> Parts:
    inputs, outputs = ([_formal(formal) for formal in formals] for formals in (schema.inputs, schema.outputs))
    return False, inputs, outputs, [_attribute(attribute) for _, attribute in sorted(schema.attributes.items())]


if __name__ == "__main__":
    write_schemas(own_schemas(), _parts, TARGET)
