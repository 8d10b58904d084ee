"""Counterparts of onnx.checker: parts are checked within a model of nothing else."""

import os
from collections.abc import Mapping
from typing import Protocol

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, helper
from onnx.checker import ValidationError

import onnxc

__all__ = ["check_function", "check_graph", "check_model", "check_node", "check_sparse_tensor", "check_tensor"]


class Context(Protocol):
    """What a part is checked in."""

    ir_version: int
    opset_imports: Mapping[str, int]


def _expect_no_errors(model: ModelProto | bytes | str | os.PathLike[str]) -> None:
    errors = [finding for finding in onnxc.check(model) if finding.severity == "error"]
    if errors:
        raise ValidationError("\n".join(f"{finding.code}: {finding}" for finding in errors))


def _model(graph: GraphProto, context: Context | None = None) -> ModelProto:
    opsets = {"": onnx.defs.onnx_opset_version()} if context is None else context.opset_imports
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in opsets.items()])
    if context is not None:
        made.ir_version = context.ir_version
    return made


def check_model(
    model: ModelProto | bytes | str | os.PathLike[str],
    full_check: bool = False,
    skip_opset_compatibility_check: bool = False,
    check_custom_domain: bool = False,
) -> None:
    """Raises the errors of a model; types are always checked, operators of others never."""
    del full_check, skip_opset_compatibility_check, check_custom_domain
    _expect_no_errors(model)


def check_graph(graph: GraphProto, ctx: Context | None = None, lexical_scope: object = None) -> None:
    """Raises the errors of a graph."""
    del lexical_scope
    _expect_no_errors(_model(graph, ctx))


def check_function(function: FunctionProto, ctx: Context | None = None) -> None:
    """Raises the errors of a function."""
    model = _model(helper.make_graph([], "empty", [], []), ctx)
    model.functions.add().CopyFrom(function)
    model.opset_import.add(domain=function.domain, version=1)
    _expect_no_errors(model)


def check_node(node: NodeProto, ctx: Context | None = None) -> None:
    """Raises the errors of a node, as the body of a function, whose inputs have no types."""
    opsets = [helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    given = dict.fromkeys(name for name in node.input if name)
    results = [name for name in node.output if name]
    check_function(helper.make_function("part", "part", [*given], results, [node], opsets), ctx)


def check_tensor(tensor: TensorProto, ctx: Context | None = None) -> None:
    """Raises the errors of a tensor, as an initializer."""
    _expect_no_errors(_model(helper.make_graph([], "tensor", [], [], [_named(tensor)]), ctx))


def check_sparse_tensor(sparse: SparseTensorProto, ctx: Context | None = None) -> None:
    """Raises the errors of a sparse tensor, as an initializer."""
    graph = helper.make_graph([], "tensor", [], [])
    graph.sparse_initializer.add().CopyFrom(sparse)
    _expect_no_errors(_model(graph, ctx))


def _named(tensor: TensorProto) -> TensorProto:
    named = TensorProto()
    named.CopyFrom(tensor)
    named.name = tensor.name or "tensor"
    return named
