"""Counterparts of onnx.checker."""

import os
from collections.abc import Iterable, Mapping
from typing import Protocol

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto
from onnx.checker import ValidationError

import onnxc
from onnxc.compiler.diagnostics import Diagnostic

__all__ = ["check_function", "check_graph", "check_model", "check_node", "check_sparse_tensor", "check_tensor"]


Part = FunctionProto | GraphProto | NodeProto | SparseTensorProto | TensorProto


class Context(Protocol):
    """What a part is checked in."""

    ir_version: int
    opset_imports: Mapping[str, int]


def _expect_no_errors(findings: Iterable[Diagnostic]) -> None:
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise ValidationError("\n".join(f"{finding.code}: {finding}" for finding in errors))


def _check_part(part: Part, context: Context | None) -> None:
    if context is None:
        _expect_no_errors(onnxc.check(part))
    else:
        _expect_no_errors(onnxc.check(part, opset_imports=context.opset_imports, ir_version=context.ir_version))


def check_model(
    model: ModelProto | bytes | str | os.PathLike[str],
    full_check: bool = False,
    skip_opset_compatibility_check: bool = False,
    check_custom_domain: bool = False,
) -> None:
    """Raises the errors of a model; types are always checked, operators of others never."""
    del full_check, skip_opset_compatibility_check, check_custom_domain
    _expect_no_errors(onnxc.check(model))


def check_graph(graph: GraphProto, ctx: Context | None = None, lexical_scope: object = None) -> None:
    """Raises the errors of a graph."""
    del lexical_scope
    _check_part(graph, ctx)


def check_function(function: FunctionProto, ctx: Context | None = None) -> None:
    """Raises the errors of a function."""
    _check_part(function, ctx)


def check_node(node: NodeProto, ctx: Context | None = None) -> None:
    """Raises the errors of a node."""
    _check_part(node, ctx)


def check_tensor(tensor: TensorProto, ctx: Context | None = None) -> None:
    """Raises the errors of a tensor."""
    _check_part(tensor, ctx)


def check_sparse_tensor(sparse: SparseTensorProto, ctx: Context | None = None) -> None:
    """Raises the errors of a sparse tensor."""
    _check_part(sparse, ctx)
