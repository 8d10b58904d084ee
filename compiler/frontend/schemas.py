"""Operator schemas: names, arity, types, attributes and defaults of every operator version that ONNX has defined.

The facts are in schema_data.json.gz, which tools/generate_schemas.py makes; those of the operators that ONNX Runtime
adds, in schema_data_onnxruntime.json.gz. A schema becomes an object when it is asked for.
"""

import gzip
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

from onnxc.runtime.records import record

Option = Literal["single", "optional", "variadic"]
Default: TypeAlias = int | float | str | tuple[int | float | str, ...]

# What max_inputs and max_outputs are where there is no limit.
UNBOUNDED = 2**31 - 1

_OPTIONS: tuple[Option, ...] = ("single", "optional", "variadic")
_DIFFERENTIABLE = (None, True, False)
_CONTRIB_PAGE = "https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md"
_STANDARD = Path(__file__).with_name("schema_data.json.gz")
_ONNX_RUNTIME = Path(__file__).with_name("schema_data_onnxruntime.json.gz")


@record
class Formal:
    """A parameter or result; `type_str` is a type, "tensor(int64)", or the name of a constraint, "T".

    differentiable: whether the operator has a derivative by it, or of it; None where the standard does not say.
    """

    name: str
    type_str: str
    option: Option
    homogeneous: bool
    min_arity: int
    differentiable: bool | None = None


@record
class AttributeSchema:
    """An attribute; `kind` is the lower-case name of its AttributeProto.AttributeType."""

    name: str
    kind: str
    required: bool
    default: Default | None


@record
class Schema:
    """One version of an operator; domain ai.onnx is the empty string."""

    domain: str
    name: str
    since_version: int
    deprecated: bool
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: Mapping[str, AttributeSchema]
    type_constraints: Mapping[str, tuple[str, ...]]
    has_function: bool

    @property
    def identity(self) -> str:
        """Domain, name and version as people write them: ai.onnx.Gather-13."""
        return f"{self.domain or 'ai.onnx'}.{self.name}-{self.since_version}"

    def __str__(self) -> str:
        return self.identity

    @property
    def url(self) -> str | None:
        """The page that documents the operator, as the texts are not part of this table; None where there is none."""
        if _rows(_STANDARD, self.domain, self.name):
            return f"https://onnx.ai/onnx/operators/onnx_{self.domain.replace('.', '')}_{self.name}.html"
        if self.domain == "com.microsoft":
            return f"{_CONTRIB_PAGE}#{self.domain}.{self.name}"
        return None

    def input(self, position: int) -> Formal | None:
        """The formal of the input at `position`; all inputs from a variadic one on belong to it."""
        return _formal_at(self.inputs, position)

    def output(self, position: int) -> Formal | None:
        """The formal of the output at `position`."""
        return _formal_at(self.outputs, position)

    def allowed_types(self, formal: Formal) -> tuple[str, ...]:
        """The types that its operands or results may be of, as the standard lists them."""
        return self.type_constraints.get(formal.type_str, (formal.type_str,))

    def allows(self, text: str, formal: Formal) -> bool:
        """Whether an operand or a result may be of a type.

        A Constant may give any tensor: before opset 9 floats alone are listed, and exporters wrote lists of sizes too.
        """
        is_constant = (self.domain, self.name) == ("", "Constant") and text.startswith("tensor(")
        return is_constant or text in self.allowed_types(formal)


def _formal_at(formals: tuple[Formal, ...], position: int) -> Formal | None:
    if position < len(formals):
        return formals[position]
    return formals[-1] if formals and formals[-1].option == "variadic" else None


_FormalRow: TypeAlias = tuple[str, str, int, int, int, int]
_DefaultRow: TypeAlias = int | float | str | list[int | float | str] | None
_AttributeRow: TypeAlias = tuple[str, str, int, _DefaultRow]
_Row: TypeAlias = tuple[
    int,
    int,
    tuple[int, int, int, int],
    list[_FormalRow],
    list[_FormalRow],
    list[_AttributeRow],
    list[tuple[str, int]],
]


class _Tables(TypedDict):
    ir_version: int
    types: list[str]
    type_sets: list[list[int]]
    schemas: dict[str, dict[str, list[_Row]]]


@lru_cache(maxsize=4096)
def schema(domain: str, name: str, opset_version: int) -> Schema | None:
    """The version of an operator that holds in an opset: the newest that is not newer than it.

    Where the standard has none, that of ONNX Runtime: its optimiser writes LayerNormalization whatever the opset is.
    """
    domain = normal_domain(domain)
    for data in (_STANDARD, _ONNX_RUNTIME):
        position = bisect_right(_rows(data, domain, name), opset_version, key=lambda row: row[0]) - 1
        if position >= 0:
            return _make(data, domain, name, position)
    return None


def all_schemas() -> Iterable[Schema]:
    """Every version of every operator of the standard, by domain, name and version."""
    return _schemas_of(_STANDARD)


def onnxruntime_schemas() -> Iterable[Schema]:
    """Every operator that ONNX Runtime adds to the standard's, by domain and name."""
    return _schemas_of(_ONNX_RUNTIME)


def _schemas_of(data: Path) -> Iterable[Schema]:
    for domain, operators in _tables(data)["schemas"].items():
        for name, rows in operators.items():
            for position in range(len(rows)):
                yield _make(data, domain, name, position)


def versions(domain: str, name: str) -> tuple[int, ...]:
    """The versions of an operator, oldest first; none for an unknown one."""
    domain = normal_domain(domain)
    return tuple(row[0] for row in _rows(_STANDARD, domain, name) or _rows(_ONNX_RUNTIME, domain, name))


def versions_of(domain: str, name: str) -> tuple[Schema, ...]:
    """The schemas of an operator, oldest version first; none for an unknown one."""
    definitions = (schema(domain, name, version) for version in versions(domain, name))
    return tuple(each for each in definitions if each is not None)


def newest_ir_version() -> int:
    """The newest version of the IR."""
    return _tables(_STANDARD)["ir_version"]


@cache
def newest_opset(domain: str) -> int | None:
    """The newest opset of a domain, None for one that neither ONNX nor ONNX Runtime defines."""
    domain = normal_domain(domain)
    operators = _tables(_STANDARD)["schemas"].get(domain) or _tables(_ONNX_RUNTIME)["schemas"].get(domain)
    return None if operators is None else max(rows[-1][0] for rows in operators.values())


def is_standard(domain: str) -> bool:
    """Whether ONNX itself defines the operators of a domain."""
    return normal_domain(domain) in _tables(_STANDARD)["schemas"]


def unknown_schema(domain: str, name: str, version: int) -> Schema:
    """What holds for an operator that nobody here knows: it may have any operands and attributes."""
    return Schema(domain, name, version, False, 0, UNBOUNDED, 0, UNBOUNDED, (), (), {}, {}, has_function=False)


def normal_domain(domain: str) -> str:
    """`domain`, with ai.onnx under its other name, the empty string."""
    return "" if domain == "ai.onnx" else domain


@cache
def _tables(data: Path) -> _Tables:
    tables: _Tables = json.loads(gzip.decompress(data.read_bytes()))
    return tables


def _rows(data: Path, domain: str, name: str) -> list[_Row]:
    return _tables(data)["schemas"].get(domain, {}).get(name, [])


@cache
def _make(data: Path, domain: str, name: str, position: int) -> Schema:
    tables = _tables(data)
    since, flags, (min_inputs, max_inputs, min_outputs, max_outputs), inputs, outputs, attributes, constraints = tables[
        "schemas"
    ][domain][name][position]
    return Schema(
        domain=domain,
        name=name,
        since_version=since,
        deprecated=bool(flags & 1),
        min_inputs=min_inputs,
        max_inputs=max_inputs,
        min_outputs=min_outputs,
        max_outputs=max_outputs,
        inputs=tuple(map(_formal, inputs)),
        outputs=tuple(map(_formal, outputs)),
        attributes={attribute.name: attribute for attribute in map(_attribute, attributes)},
        type_constraints={
            constraint: tuple(tables["types"][index] for index in tables["type_sets"][types])
            for constraint, types in constraints
        },
        has_function=bool(flags & 2),
    )


def _formal(row: _FormalRow) -> Formal:
    name, type_str, option, homogeneous, min_arity, category = row
    return Formal(name, type_str, _OPTIONS[option], bool(homogeneous), min_arity, _DIFFERENTIABLE[category])


def _attribute(row: _AttributeRow) -> AttributeSchema:
    name, kind, required, default = row
    return AttributeSchema(name, kind, bool(required), tuple(default) if isinstance(default, list) else default)
