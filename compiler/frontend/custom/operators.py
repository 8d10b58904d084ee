"""Custom operators: their interface as a schema, and their body in one of four forms."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Literal

from google.protobuf.message import DecodeError

from onnxc.compiler.frontend.custom.face import BuildBody, TypeRule
from onnxc.compiler.frontend.custom.triton_source import TritonCode, read_triton
from onnxc.compiler.frontend.element_types import ELEMENT_TYPES
from onnxc.compiler.frontend.proto.onnxc_pb2 import FunctionProto
from onnxc.compiler.frontend.read import SupportsSerialize
from onnxc.compiler.frontend.schemas import UNBOUNDED, AttributeSchema, Default, Formal, Option, Schema, normal_domain
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = [
    "NO_OPERATORS",
    "Access",
    "Body",
    "Built",
    "CustomOperator",
    "CustomOperators",
    "HostFunction",
    "NativeBody",
    "OnnxFunction",
    "custom_operator",
]

_FORMAL = re.compile(r"([A-Za-z_]\w*)(\?|\.\.\.)?", re.ASCII)
_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
_OPTIONS: Mapping[str | None, Option] = {None: "single", "?": "optional", "...": "variadic"}
_SCALARS: Mapping[str, type[int] | type[float] | type[str]] = {
    "int": int, "float": float, "string": str, "ints": int, "floats": float, "strings": str,
}  # fmt: skip
_KINDS = (*_SCALARS, "tensor")

# The rule says which types the operator takes.
_ANY = "any"
_DENSE = tuple(f"tensor({element.name})" for element in ELEMENT_TYPES.values())


@record(eq=False)
class OnnxFunction:
    """A body that is a function of ONNX, expanded where it is called as one of the model's own."""

    proto: FunctionProto


@record
class Built:
    """A body made of ops."""

    build: BuildBody


@record
class HostFunction:
    """A body that is a function on NumPy arrays, by its import path, "package.module:name", called on the host."""

    path: str
    types: TypeRule


Access = Literal["elements", "rows", "whole"]
"""What a call of native code computes: so many elements, so many rows along the last axis, or everything."""


@record
class NativeBody:
    """A body that is code: a module of LLVM IR for CPUs, empty where there is none, Triton source for GPUs, or both.

    path: of a host function which means the same, empty where there is none.
    """

    llvm: str
    triton: TritonCode | None
    access: Access
    types: TypeRule
    path: str


Body = OnnxFunction | Built | HostFunction | NativeBody


@dataclass(frozen=True, eq=False, repr=False)
class CustomOperator:
    """An operator that a caller brings; `schema` is its interface, which a function of ONNX has itself."""

    domain: str
    name: str
    since: int
    body: Body
    schema: Schema | None

    def __str__(self) -> str:
        return f"{self.domain}.{self.name}-{self.since}"

    def __repr__(self) -> str:
        return f"<CustomOperator {self}>"


@record
class CustomOperators:
    """The custom operators of a compilation, no two of one domain, name and version."""

    operators: tuple[CustomOperator, ...] = ()

    @cached_property
    def _versions(self) -> Mapping[tuple[str, str], tuple[CustomOperator, ...]]:
        """By domain and name, newest first."""
        versions: dict[tuple[str, str], tuple[CustomOperator, ...]] = {}
        for operator in sorted(self.operators, key=lambda operator: -operator.since):
            key = operator.domain, operator.name
            versions[key] = (*versions.get(key, ()), operator)
        return versions

    def find(self, domain: str, name: str, opset: int) -> CustomOperator | None:
        """The version of an operator that holds in an opset: the newest that is not newer than it."""
        versions = self._versions.get((domain, name), ())
        return next((operator for operator in versions if operator.since <= opset), None)

    def versions(self, domain: str, name: str) -> tuple[int, ...]:
        """The versions of an operator, oldest first."""
        return tuple(operator.since for operator in reversed(self._versions.get((domain, name), ())))

    def have(self, domain: str) -> bool:
        """Whether any is of the domain."""
        return any(operator.domain == domain for operator in self.operators)


NO_OPERATORS = CustomOperators()


def custom_operator(
    name: str = "",
    domain: str = "",
    *,
    since: int = 1,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    attributes: Mapping[str, str] | None = None,
    defaults: Mapping[str, Default] | None = None,
    function: SupportsSerialize | None = None,
    build: BuildBody | None = None,
    host: Callable[..., object] | str | None = None,
    native: str | None = None,
    triton: str | None = None,
    access: str | None = None,
    types: TypeRule | None = None,
) -> CustomOperator:
    """See `onnxc.custom_operator`."""
    if isinstance(since, bool) or not isinstance(since, int) or since < 1:
        raise _wrong(f"since is {since!r}, expected the first version of the domain that has the operator, from 1")
    has_code = native is not None or triton is not None
    # Code is for one kind of target each; what it means may be said by a function on the host, for all others.
    if sum((function is not None, build is not None, has_code or host is not None)) != 1:
        message = "has one body: function=, build=, or what means the same: host=, native= and triton="
        raise _wrong(f"{name or 'the operator'} {message}")
    if access is not None and not has_code:
        raise _wrong("access= is for native= and triton=")
    if (types is not None) != (host is not None or has_code):
        message = (
            "types= is for host=, native= and triton=, and is needed there: other bodies say their types themselves"
        )
        raise _wrong(message)
    if function is not None:
        if inputs or outputs or attributes or defaults:
            raise _wrong("a function says its inputs, outputs and attributes itself")
        return _of_function(_read_function(function), name, domain, since)
    _expect_names(name, domain)
    schema = _schema(name, domain, since, inputs, outputs, _attributes(attributes or {}, defaults or {}))
    if build is not None:
        _expect_callable("build", build)
        return CustomOperator(domain, name, since, Built(build), schema)
    assert types is not None
    _expect_callable("types", types)
    path = "" if host is None else _import_path(host)
    if not has_code:
        return CustomOperator(domain, name, since, HostFunction(path, types), schema)
    if native is not None and not isinstance(native, str):
        raise _wrong(f"native is of type {type(native).__name__}, expected a text of LLVM IR")
    code = None if triton is None else read_triton(triton, f"{domain}.{name}-{since}")
    body = NativeBody(native or "", code, _access(access, schema), types, path)
    return CustomOperator(domain, name, since, body, schema)


def _access(access: object, schema: Schema) -> Access:
    """How the code steps through its tensors. It gets each of them, and a number for each attribute."""
    for formal in (*schema.inputs, *schema.outputs):
        if formal.option != "single":
            raise _wrong(f"{formal.name} may be left out or be several, which native code cannot take")
    for attribute in schema.attributes.values():
        if attribute.kind not in ("int", "float"):
            raise _wrong(f"attribute {attribute.name} is of kind {attribute.kind}; native code takes int and float")
        if not attribute.required and attribute.default is None:
            raise _wrong(f"attribute {attribute.name} may be left out, and has no value in defaults for native code")
    if access in ("elements", "rows", "whole"):
        return access
    raise _wrong(f"access is {access!r}, what native code needs is one of elements, rows, whole")


def _wrong(message: str) -> InputError:
    return InputError(message, code="custom-operator")


def _expect_names(name: str, domain: str) -> None:
    if not isinstance(name, str) or not name or not isinstance(domain, str):
        raise _wrong(f"the operator is named {name!r} in the domain {domain!r}, expected two texts")
    if not normal_domain(domain):
        raise _wrong(f"{name} has no domain, and that of the standard, ai.onnx, is not for other operators")


def _expect_callable(what: str, value: object) -> None:
    if not callable(value):
        raise _wrong(f"{what} is {value!r}, expected a function")


def _read_function(function: object) -> FunctionProto:
    if not isinstance(function, SupportsSerialize):
        raise _wrong(f"function is of type {type(function).__name__}, expected a FunctionProto")
    try:
        return FunctionProto.FromString(function.SerializeToString())
    except DecodeError as problem:
        raise _wrong(f"function is no FunctionProto: {problem}") from problem


def _of_function(proto: FunctionProto, name: str, domain: str, since: int) -> CustomOperator:
    """The operator that a function of ONNX is; a name and a domain that are given are the function's."""
    for what, given, own in (("name", name, proto.name), ("domain", domain, proto.domain)):
        if given and given != own:
            raise _wrong(f"the function has the {what} {own!r}, and {given!r} is given")
    if proto.overload:
        raise _wrong(f"the function has the overload {proto.overload!r}, and operators have none")
    _expect_names(proto.name, proto.domain)
    return CustomOperator(proto.domain, proto.name, since, OnnxFunction(proto), None)


def _import_path(host: object) -> str:
    """Where another process finds the function."""
    if isinstance(host, str):
        if not _PATH.fullmatch(host):
            raise _wrong(f'host is {host!r}, expected a path such as "package.module:function"')
        return host
    _expect_callable("host", host)
    path = f"{getattr(host, '__module__', '')}:{getattr(host, '__qualname__', '')}"
    if not _PATH.fullmatch(path) or _at(path) is not host:
        raise _wrong(f"host is {host!r}, which cannot be imported: define it at the top of a module")
    return path


def _at(path: str) -> object:
    """What is at an import path, None where that is nothing."""
    module, _, name = path.partition(":")
    value: object = import_module(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


# The interface


def _schema(
    name: str,
    domain: str,
    since: int,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, AttributeSchema],
) -> Schema:
    takes, gives = _formals("inputs", inputs), _formals("outputs", outputs)
    if not gives:
        raise _wrong(f"{name} has no output")
    return Schema(
        domain, name, since, False, *_counts(takes), *_counts(gives), takes, gives, attributes, {_ANY: _DENSE}, False
    )


def _formals(what: str, texts: Sequence[str]) -> tuple[Formal, ...]:
    """The parameters that texts such as "x", "bias?" and "rest..." name."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise _wrong(f"{what} is {texts!r}, expected a sequence of names")
    formals = []
    for text in texts:
        matched = _FORMAL.fullmatch(text) if isinstance(text, str) else None
        if matched is None:
            raise _wrong(f'{what} has {text!r}, expected a name, "name?" or "name..."')
        formals.append(Formal(matched[1], _ANY, _OPTIONS[matched[2]], False, 0))
    if any(formal.option == "variadic" for formal in formals[:-1]):
        raise _wrong(f"{what} has one of any number that is not the last")
    if len({formal.name for formal in formals}) < len(formals):
        raise _wrong(f"{what} names one twice: {', '.join(texts)}")
    return tuple(formals)


def _counts(formals: Sequence[Formal]) -> tuple[int, int]:
    """The least and the most that a node has of them."""
    least = max((index + 1 for index, formal in enumerate(formals) if formal.option == "single"), default=0)
    return least, UNBOUNDED if formals and formals[-1].option == "variadic" else len(formals)


def _attributes(kinds: Mapping[str, str], defaults: Mapping[str, Default]) -> Mapping[str, AttributeSchema]:
    """By name; one that has a question mark behind its name, or a default, may be left out."""
    if not isinstance(kinds, Mapping) or not isinstance(defaults, Mapping):
        raise _wrong("attributes and defaults are mappings from names to kinds and to values")
    schemas: dict[str, AttributeSchema] = {}
    for text, kind in kinds.items():
        matched = _FORMAL.fullmatch(text) if isinstance(text, str) else None
        if matched is None or matched[2] == "...":
            raise _wrong(f'attributes has {text!r}, expected a name or "name?"')
        if kind not in _KINDS:
            raise _wrong(f"attribute {matched[1]} is of kind {kind!r}, known are {', '.join(_KINDS)}")
        default = _default(matched[1], kind, defaults.get(matched[1]))
        schemas[matched[1]] = AttributeSchema(matched[1], kind, matched[2] is None and default is None, default)
    for name in defaults:
        if name not in schemas:
            raise _wrong(f"defaults names {name!r}, the attributes are {', '.join(schemas) or 'none'}")
    return schemas


def _default(name: str, kind: str, value: object) -> Default | None:
    """The default of an attribute of a kind."""
    if value is None:
        return None
    scalar = _SCALARS.get(kind)
    if scalar is None:
        raise _wrong(f'attribute {name} is of kind {kind}, which has no defaults: declare it as "{name}?"')
    is_list = isinstance(value, list | tuple)
    items = tuple(value) if isinstance(value, list | tuple) else (value,)
    if is_list != kind.endswith("s") or not all(_is_one(item, scalar) for item in items):
        raise _wrong(f"the default of attribute {name} is {value!r}, which is not of kind {kind}")
    # An integer stands for a float, which bodies then get.
    typed = tuple(scalar(item) for item in items)
    return typed if is_list else typed[0]


def _is_one(item: object, scalar: type) -> bool:
    """Whether a value is one of an attribute of this type."""
    if not isinstance(item, int) or scalar is str:
        return isinstance(item, scalar)
    # A node has integers of 64 bits; a larger one may still be near a float.
    bound = 1 << (1023 if scalar is float else 63)
    return not isinstance(item, bool) and -bound <= item < bound
