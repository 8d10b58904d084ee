"""Findings about a part of a model: a node, a tensor, a graph, a function and the like, as a message by itself.

A part is put into a model of nothing else, which is then checked as every model is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

import numpy as np
from google.protobuf.message import DecodeError, EncodeError, Message

from onnxc.compiler.diagnostics import Diagnostic, error, model_error
from onnxc.compiler.frontend.functions import all_nodes, imported_opsets
from onnxc.compiler.frontend.parts.uses import used_by_node
from onnxc.compiler.frontend.proto.onnxc_pb2 import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
)
from onnxc.compiler.frontend.read import SupportsSerialize
from onnxc.compiler.frontend.schemas import newest_ir_version, newest_opset, normal_domain
from onnxc.compiler.frontend.wire import explain
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["PartVersions", "is_part", "model_of_part", "part_findings"]

_FRAME = "part"
"""The domain of the functions that hold parts which only stand in a body, and what locations in them begin with."""


@record
class PartVersions:
    """The versions that a part is in, as far as the caller says; else they are the newest of what the part uses."""

    opset: int | None = None
    opset_imports: Mapping[str, int] | None = None
    ir_version: int | None = None


def is_part(source: object) -> TypeGuard[SupportsSerialize]:
    """Whether it is a message of onnx's classes or ours that `model_of_part` takes."""
    return type(source).__name__ in _PARTS and isinstance(source, SupportsSerialize)


def model_of_part(source: SupportsSerialize, versions: PartVersions) -> ModelProto:
    """A model of this part alone. Raises ModelError for a broken message, InputError for versions that cannot be."""
    versions = _as_integers(versions)
    kind, put = _PARTS[type(source).__name__]
    part = _own_message(source, kind)
    model = ModelProto(ir_version=newest_ir_version() if versions.ir_version is None else versions.ir_version)
    model.graph.name = _FRAME
    put(model, part)
    imports = _imports(model, versions)
    model.opset_import.extend(_entries(imports))
    for function in model.functions if kind is not FunctionProto else ():
        function.opset_import.extend(_entries(imports))
    return model


def _as_integers(versions: PartVersions) -> PartVersions:
    imports = {} if versions.opset_imports is None else versions.opset_imports
    if not isinstance(imports, Mapping) or not all(isinstance(domain, str) for domain in imports):
        raise InputError(f"opset_imports maps domains to versions; this is {imports!r}", code="option-type")
    integers = {domain: _version(version) for domain, version in imports.items()}
    opset, ir_version = (None if each is None else _version(each) for each in (versions.opset, versions.ir_version))
    return PartVersions(opset, None if versions.opset_imports is None else integers, ir_version)


def _version(given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or not -1 << 31 <= given < 1 << 31:
        raise InputError(f"a version is an integer of 32 bits; this is {given!r}", code="option-type")
    return int(given)


def _entries(imports: Mapping[str, int]) -> Iterable[OperatorSetIdProto]:
    return (OperatorSetIdProto(domain=domain, version=version) for domain, version in imports.items())


def part_findings(findings: Iterable[Diagnostic], source: SupportsSerialize) -> tuple[Diagnostic, ...]:
    """The findings about `model_of_part` as those of the part: without what is said of the functions that hold it."""
    if type(source).__name__ not in ("NodeProto", "AttributeProto"):
        return tuple(findings)
    return tuple(_without_frame(finding) for finding in findings if finding.code != "later-ir-version")


def _without_frame(finding: Diagnostic) -> Diagnostic:
    location = finding.location
    if location is None:
        return finding
    graph = location.graph.replace(f"function {_FRAME}.{_FRAME}", _FRAME, 1)
    return replace(finding, location=replace(location, graph=graph))


def _own_message(source: SupportsSerialize, kind: type[Message]) -> Message:
    name = type(source).__name__
    try:
        data = source.SerializeToString()
    except (EncodeError, ValueError) as problem:
        raise model_error([error("unserializable-model", f"the {name} cannot be serialized: {problem}")]) from problem
    try:
        return kind.FromString(data)
    except DecodeError:
        reason = explain(memoryview(data), kind, name)
        raise model_error([error(reason.code, f"the {name} cannot be parsed: {reason}")]) from None


def _imports(model: ModelProto, versions: PartVersions) -> Mapping[str, int]:
    """The versions of operator sets that the caller gives; without any, the newest of all that the part uses."""
    given = {normal_domain(domain): version for domain, version in (versions.opset_imports or {}).items()}
    if versions.opset not in (None, given.get("", versions.opset)):
        message = f"opset is {versions.opset}, and opset_imports has version {given['']} of ai.onnx"
        raise InputError(message, code="opset-contradiction")
    imports = _newest(model) if versions.opset_imports is None else given
    own = {} if versions.opset is None else {"": versions.opset}
    return {**{normal_domain(function.domain): 1 for function in model.functions}, **imports, **own}


def _newest(model: ModelProto) -> dict[str, int]:
    bodies = (model.graph.node, *(function.node for function in model.functions))
    domains = dict.fromkeys(["", *(normal_domain(node.domain) for body in bodies for node in all_nodes(body))])
    newest = {domain: newest_opset(domain) or 1 for domain in domains}
    for function in model.functions:
        newest |= imported_opsets(function.opset_import)
    return newest


# Where each kind of part stands in a model


def _put_node(model: ModelProto, node: NodeProto) -> None:
    """In a function, the one body in which operands have no types, and attributes may be parameters."""
    function = model.functions.add(domain=_FRAME, name=_FRAME)
    function.input.extend(dict.fromkeys(used_by_node(node)))
    function.output.extend(dict.fromkeys(name for name in node.output if name))
    parameters = (attribute.ref_attr_name for each in all_nodes([node]) for attribute in each.attribute)
    function.attribute.extend(dict.fromkeys(name for name in parameters if name))
    function.node.append(node)


def _put_attribute(model: ModelProto, attribute: AttributeProto) -> None:
    """At a call of a function, which takes attributes of any kind."""
    names = [attribute.name] if attribute.name else []
    model.functions.add(domain=_FRAME, name="callee", attribute=names, input=["x"], output=["x"])
    _put_node(model, NodeProto(domain=_FRAME, op_type="callee", attribute=[attribute], input=["x"], output=["y"]))


def _put_tensor(model: ModelProto, tensor: TensorProto) -> None:
    tensor.name = tensor.name or _FRAME
    model.graph.initializer.append(tensor)


def _put_sparse_tensor(model: ModelProto, tensor: SparseTensorProto) -> None:
    tensor.values.name = tensor.values.name or _FRAME
    model.graph.sparse_initializer.append(tensor)


def _put_value_info(model: ModelProto, info: ValueInfoProto) -> None:
    model.graph.input.append(info)


def _put_graph(model: ModelProto, graph: GraphProto) -> None:
    model.graph.CopyFrom(graph)


def _put_function(model: ModelProto, function: FunctionProto) -> None:
    model.functions.append(function)


_PARTS: Mapping[str, tuple[type[Message], Callable[..., None]]] = {
    "AttributeProto": (AttributeProto, _put_attribute),
    "FunctionProto": (FunctionProto, _put_function),
    "GraphProto": (GraphProto, _put_graph),
    "NodeProto": (NodeProto, _put_node),
    "SparseTensorProto": (SparseTensorProto, _put_sparse_tensor),
    "TensorProto": (TensorProto, _put_tensor),
    "ValueInfoProto": (ValueInfoProto, _put_value_info),
}
"""By the names of their classes, which are the same in onnx and here: our class, and what puts one into a model."""
