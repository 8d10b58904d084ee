"""Operators of the standard expanded in a model, each as the function of other operators that it is.

The body is written in some opset and crosses to that of the model. Operators that are new in a version have theirs in
`versions/compositions.py`, in the version before; `operator_bodies.py` has those of operators that were always there.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from onnxc.compiler.diagnostics import DiagnosedModelError, Location, error
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.functions import ModelFunction, all_nodes, imported_opsets, node_key
from onnxc.compiler.frontend.inlining.hand_on import hand_on
from onnxc.compiler.frontend.inlining.inline import names_of
from onnxc.compiler.frontend.inlining.operator_bodies import BODIES, WRITTEN_IN
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, NodeProto
from onnxc.compiler.frontend.schemas import normal_domain, schema, versions
from onnxc.compiler.frontend.tensors import TensorStore
from onnxc.compiler.frontend.versions.change import Change, Values
from onnxc.compiler.frontend.versions.cross import cross
from onnxc.compiler.frontend.versions.downward import DOWNWARD
from onnxc.compiler.frontend.versions.fit import fit
from onnxc.compiler.frontend.versions.made_types import learn_made_types
from onnxc.compiler.frontend.versions.walk import NodeWalk
from onnxc.runtime.errors import InputError, UnsupportedError

__all__ = ["expand_operators", "operators_among"]


def operators_among(names: Iterable[str], model: ModelProto) -> Mapping[str, str]:
    """The operators of ai.onnx, by those of the names of functions that mean one and no function of the model.

    Raises InputError for an operator that has no body.
    """
    own = frozenset().union(*(names_of(ModelFunction(function)) for function in model.functions))
    operators: dict[str, str] = {}
    for name in names:
        domain, _, operator = name.rpartition(".")
        if name in own or not versions(domain, operator):
            continue
        if normal_domain(domain) or not _has_body(operator):
            message = f"the operator {name} is no function of others (docs/inlining.md lists those that are)"
            raise InputError(message, code="operator-without-body")
        operators[name] = operator
    return operators


def _has_body(operator: str) -> bool:
    """Whether an operator of ai.onnx is a function of others, in one of its versions."""
    return operator in BODIES or (operator, min(versions("", operator))) in DOWNWARD


def expand_operators(
    model: ModelProto, typed: ModelProto, operators: Collection[str], store: TensorStore
) -> ModelProto:
    """A copy of the model in which nodes of these operators of ai.onnx, which have bodies, are expanded everywhere.

    typed: the same model with the types of its values declared, as far as they are known; store: where its tensors are.
    Raises UnsupportedError for a node whose body is not known.
    """
    expanded = ModelProto()
    expanded.CopyFrom(model)
    expansion = _Expansion(model, operators)
    opset = imported_opsets(model.opset_import).get("", 1)
    NodeWalk(expanded, store, expansion.replace).run(typed, opset, without_import=opset)
    return expanded


class _Expansion:
    """Which operators are expanded, and the names of nodes that are taken."""

    def __init__(self, model: ModelProto, operators: Collection[str]) -> None:
        self.operators = operators
        self.functions = {ModelFunction(function).key for function in model.functions}
        self.names = FreshNames(lambda: _node_names(model))

    def replace(self, node: NodeProto, opset: int, location: Location, values: Values) -> list[NodeProto]:
        """The nodes of the body, with what the node says of itself; any other node as it is."""
        if not self.is_expanded(node) or node_key(node) in self.functions:
            return [node]
        try:
            nodes = self.body(node, opset, opset, location, values)
        except DiagnosedModelError as refusal:
            raise _unknown_body(node, location, refusal) from refusal
        label = node.name or node.op_type
        for each in nodes:
            each.name = each.name or self.names(f"{label}/{each.op_type}")
            hand_on(each, node, lambda name: name)
        return nodes

    def is_expanded(self, node: NodeProto) -> bool:
        return not normal_domain(node.domain) and node.op_type in self.operators

    def body(self, node: NodeProto, version: int, opset: int, location: Location, values: Values) -> list[NodeProto]:
        """The nodes of `opset` for an expanded node of opset `version`."""
        change = _written(node, version, location, values)
        if change.version != opset or any(map(self.is_expanded, change.parts())):
            learn_made_types(change)
        steps = [self.body if self.is_expanded(part) else cross for part in change.parts()]
        return [
            each
            for part, step in zip(change.parts(), steps, strict=True)
            for each in step(part, change.version, opset, location, values)
        ]


def _written(node: NodeProto, version: int, location: Location, values: Values) -> Change:
    """A node one step nearer to its body: that, or the node in an older version of its operator."""
    before = schema("", node.op_type, version)
    assert before is not None, node
    copied = NodeProto()
    copied.CopyFrom(node)
    since, body = BODIES.get(node.op_type, (before.since_version + 1, None))
    if body is not None and since <= before.since_version:
        change = Change(copied, before, None, max(version, WRITTEN_IN), values, location)
        body(change)
        return change
    reached = before.since_version - 1
    change = Change(copied, before, schema("", node.op_type, reached), reached, values, location)
    adapter = DOWNWARD.get((node.op_type, before.since_version))
    if adapter is not None:
        adapter(change)
        change.after = schema("", copied.op_type, reached)
    elif change.after is None:
        change.fail("this version of the operator has no body")
    # The types of the newest version are those of the model's, whose nodes these become again.
    fit(change, are_types_checked=False)
    return change


def _unknown_body(node: NodeProto, location: Location, refusal: DiagnosedModelError) -> UnsupportedError:
    message = f"{node.op_type} is not expanded here: {refusal.diagnostics[0].message}"
    finding = error("unknown-body", message, location, rule=f"ONNX {node.op_type}, function body")
    return UnsupportedError(str(finding), code=finding.code)


def _node_names(model: ModelProto) -> Iterator[str]:
    graphs = [model.graph, *(graph for info in model.training_info for graph in (info.initialization, info.algorithm))]
    for nodes in (*(graph.node for graph in graphs), *(function.node for function in model.functions)):
        yield from (node.name for node in all_nodes(nodes))
