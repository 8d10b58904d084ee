"""Nodes of other domains that compute what an operator of the standard does, seen as nodes of that operator."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from onnxc.compiler.frontend.graph import AttributeValue
from onnxc.compiler.frontend.operator import Lowering, Node
from onnxc.compiler.frontend.schemas import schema
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value


def standard_node(
    node: Node,
    operator: str,
    version: int,
    operands: Sequence[Value | None],
    attributes: Mapping[str, AttributeValue] | None = None,
) -> Node:
    """The node as one of the standard's `operator` in this version, with `operands`; what it fails with names it still.

    The attributes of the node that the operator knows are kept, `attributes` go before them.
    """
    chosen = schema("", operator, version)
    assert chosen is not None, operator
    assert chosen.since_version == version, (operator, version)
    known = {name: known.default for name, known in chosen.attributes.items() if known.default is not None}
    given = {**node.graph_node.attributes, **(attributes or {})}
    graph_node = replace(
        node.graph_node,
        operator=operator,
        domain="",
        since=version,
        opset=version,
        schema=chosen,
        attributes={**known, **{name: value for name, value in given.items() if name in chosen.attributes}},
    )
    return replace(node, graph_node=graph_node, operands=tuple(operands))


def first_result(lowering: Lowering, node: Node, ir: Builder) -> Value:
    """What the lowering gives as the first output of the node, which it must have."""
    made = lowering(node, ir)
    result = made[0] if isinstance(made, tuple) else made
    assert result is not None, node.operator
    return result
