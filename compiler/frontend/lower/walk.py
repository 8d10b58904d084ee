"""The walk over a graph: its nodes in order, each lowered and bound to the names of its outputs."""

from functools import partial

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.case_split import ConditionSplit, RankSplit
from onnxc.compiler.frontend.graph import GraphNode, ValueInfo
from onnxc.compiler.frontend.lower.cases import lower_cases, may_split_by_condition
from onnxc.compiler.frontend.lower.check_shardings import sharding_findings
from onnxc.compiler.frontend.lower.declared import (
    DeclaredSizes,
    as_declared,
    as_sparse,
    note_contradiction,
    unknown_value,
)
from onnxc.compiler.frontend.lower.frame import Frame, GraphOutcome, NodeOutcome, Values
from onnxc.compiler.frontend.lower.nodes import call_operator, note_without_lowering, without_lowering
from onnxc.compiler.frontend.lower.overridden_nodes import overridden_operands, overridden_results
from onnxc.compiler.frontend.lower.subgraphs import Subgraphs
from onnxc.compiler.frontend.operand_types import type_by_schema
from onnxc.compiler.frontend.operator import Node
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
            own.attempt.findings += sharding_findings(node, own.scope)
        frame.attempt.keep(own.attempt)
    return _outputs(frame)


def lower_node(node: GraphNode, frame: Frame) -> NodeOutcome:
    """The values of the outputs of one node, or the cases that it asks for."""
    named = (frame.scope[name] if name else None for name in node.inputs)
    operands = tuple(map(frame.assumptions.apply, named))
    if frame.session.shardings is not None:
        pairs = zip(node.inputs, operands, strict=True)
        operands = tuple(frame.session.shardings.resharded(node, name, value, frame.ir) for name, value in pairs)
    if any(name and operand is None for name, operand in zip(node.inputs, operands, strict=True)):
        note_without_lowering(node, frame)
        return (None,) * len(node.outputs)
    ops_before = len(frame.ir.ops)
    subgraphs, key = Subgraphs(node, frame, lower_graph, lower_node), frame.key_of(node)
    given = overridden_operands(node, operands, key, frame)
    if given is None:
        return (None,) * len(node.outputs)
    assumed = frame.assumptions.conditions.get(key)
    may_split, block = may_split_by_condition(frame), frame.session.channel_blocks.size
    shown = Node(node, given, subgraphs, key, may_split, assumed, frame.random_state, block)
    made = call_operator(shown, frame)
    if frame.attempt.is_trial:
        frame.session.work_left -= 1 + len(frame.ir.ops) - ops_before
    if isinstance(made, RankSplit | ConditionSplit):
        return made
    if frame.session.types_all:
        subgraphs.type_what_never_runs()
    return overridden_results(node, given, made, key, frame)


def _bind(node: GraphNode, results: Values, frame: Frame) -> None:
    """Binds what the node gives to the names of its outputs."""
    for position, (name, result) in enumerate(zip(node.outputs, results, strict=False)):
        if name:
            if frame.session.shardings is not None:
                result = frame.session.shardings.resharded(node, name, result, frame.ir)
            declared = frame.graph.value_infos.get(name)
            if result is None and frame.session.goes_on:
                value = unknown_value(
                    declared or _output(name, frame) or _by_schema(name, position, node, frame), frame.ir
                )
            else:
                sizes = DeclaredSizes(frame.session.bound, frame.named)
                value = as_declared(declared, result, frame.ir, frame.attempt, sizes)
            note_contradiction(frame.graph.function_infos.get(name), value, frame.ir, frame.attempt)
            frame.scope[name] = value
            frame.note(name, value)


def _by_schema(name: str, position: int, node: GraphNode, frame: Frame) -> ValueInfo:
    """What the schema tells of a result of a node that has no lowering."""
    if not without_lowering([node]):
        return ValueInfo(name, None)
    operands = [frame.scope.get(operand) for operand in node.inputs]
    return ValueInfo(name, type_by_schema(node, position, operands))


def _output(name: str, frame: Frame) -> ValueInfo | None:
    """What is declared of an output of the graph."""
    return next((info for info in frame.graph.outputs if info.name == name), None)


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
