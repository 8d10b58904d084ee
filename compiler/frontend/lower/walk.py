"""The walk over a graph: its nodes in order, each lowered and bound to the names of its outputs."""

from functools import partial

from onnxc.compiler.diagnostics import DiagnosedModelError, Location
from onnxc.compiler.frontend.case_split import CaseKey, ConditionSplit, RankSplit
from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.lower.cases import lower_cases, may_split_by_condition
from onnxc.compiler.frontend.lower.declared import as_declared, as_sparse
from onnxc.compiler.frontend.lower.frame import Frame, GraphOutcome, NodeOutcome, Values
from onnxc.compiler.frontend.lower.nodes import call_operator, without_lowering
from onnxc.compiler.frontend.lower.renewed_operands import expect_batch_kept, renewed_operands
from onnxc.compiler.frontend.lower.subgraphs import Subgraphs
from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import SparseTensorType


def lower_graph(frame: Frame) -> GraphOutcome:
    """The values of the outputs of the graph, whose inputs and initializers are in scope."""
    graph = frame.graph
    frame.session.walked.add(graph.path)
    for name in (*(info.name for info in graph.inputs), *graph.initializers):
        frame.note(name, frame.scope.get(name))
    return _lower_from(0, frame)


def _lower_from(start: int, frame: Frame) -> GraphOutcome:
    """The values of the outputs, where the nodes before `start` are lowered already.

    Cases of a condition are told apart by the graph that has a block of its own, not by those inlined into it.
    """
    for index, node in enumerate(frame.graph.nodes[start:], start):
        if frame.is_over:
            return (None,) * len(frame.graph.outputs)
        own = frame.for_node()
        with frame.ir.at(node.location):
            made = lower_node(node, own)
            if isinstance(made, RankSplit | ConditionSplit):
                frame.attempt.keep_objections(own.attempt)
                if frame.is_inlined and isinstance(made, ConditionSplit):
                    return made
                return lower_cases(made, node, frame, partial(_lower_from, index))
            _bind(node, made, own)
        frame.attempt.keep(own.attempt)
    return _outputs(frame)


def lower_node(node: GraphNode, frame: Frame) -> NodeOutcome:
    """The values of the outputs of one node, or the cases that it asks for."""
    named = (frame.scope[name] if name else None for name in node.inputs)
    operands = tuple(map(frame.assumptions.apply, named))
    if any(name and operand is None for name, operand in zip(node.inputs, operands, strict=True)):
        frame.attempt.unsupported += without_lowering(node)
        return (None,) * len(node.outputs)
    ops_before = len(frame.ir.ops)
    subgraphs, key = Subgraphs(node, frame, lower_graph, lower_node), frame.key_of(node)
    operands = _as_overridden(node, operands, key, frame)
    assumed = frame.assumptions.conditions.get(key)
    made = call_operator(Node(node, operands, subgraphs, key, may_split_by_condition(frame), assumed), frame)
    if frame.attempt.is_trial:
        frame.session.work_left -= 1 + len(frame.ir.ops) - ops_before
    if not isinstance(made, RankSplit | ConditionSplit):
        made = _expect_batch_kept(node, operands, made, key, frame)
    if frame.session.record is not None and not isinstance(made, RankSplit | ConditionSplit):
        frame.session.record.note(key, operands, made, frame.ir)
    if frame.session.types_all and not isinstance(made, RankSplit | ConditionSplit):
        subgraphs.type_what_never_runs()
    return made


def _as_overridden(
    node: GraphNode, operands: tuple[Value | None, ...], key: CaseKey, frame: Frame
) -> tuple[Value | None, ...]:
    """The operands with sizes that options override in the place of the declared ones."""
    if frame.session.before is None:
        return operands
    try:
        return renewed_operands(node, operands, frame.session.before, key, frame.ir)
    except DiagnosedModelError as problem:
        frame.attempt.findings += problem.diagnostics
        return operands


def _expect_batch_kept(node: GraphNode, operands: Values, made: Values, key: CaseKey, frame: Frame) -> Values:
    """What the node gives, unless it lost the batch that the options ask for."""
    if frame.session.before is None or None in made:
        return made
    try:
        expect_batch_kept(node, tuple(operands), tuple(made), frame.session.before, key, frame.ir)
    except DiagnosedModelError as problem:
        frame.attempt.findings += problem.diagnostics
        return (None,) * len(made)
    return made


def _bind(node: GraphNode, results: Values, frame: Frame) -> None:
    """Binds what the node gives to the names of its outputs."""
    for name, result in zip(node.outputs, results, strict=False):
        if name:
            declared = frame.graph.value_infos.get(name)
            frame.scope[name] = value = as_declared(declared, result, frame.ir, frame.attempt)
            frame.note(name, value)


def _outputs(frame: Frame) -> Values:
    """The values of the outputs of the graph, as they are declared."""
    graph, ir = frame.graph, frame.ir
    results = []
    makers = {name: node.location for node in graph.nodes for name in node.outputs}
    for info in graph.outputs:
        with ir.at(makers.get(info.name, Location(graph.path))):
            value = frame.scope.get(info.name)
            if info.name in graph.initializers and isinstance(info.type, SparseTensorType):
                value = as_sparse(value, ir)
            results.append(as_declared(info, value, ir, frame.attempt))
    return results
