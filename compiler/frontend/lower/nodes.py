"""One node handed to the function of its operator: what comes back, and what speaks against the node."""

from collections.abc import Iterable

from onnxc.compiler.diagnostics import DiagnosedModelError, Location, error
from onnxc.compiler.frontend.advice import advice
from onnxc.compiler.frontend.case_split import CasesNeeded, CaseSplit, RankSplit
from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.lower.cases import TOO_MANY, may_split_by_rank
from onnxc.compiler.frontend.lower.custom import lowering_of
from onnxc.compiler.frontend.lower.frame import Frame, NodeOutcome
from onnxc.compiler.frontend.operand_types import operand_findings, result_findings, size_findings
from onnxc.compiler.frontend.operator import Lowering, Node, NodeResults, NotYetSupported, OperatorKey
from onnxc.compiler.frontend.operators import registered_lowering
from onnxc.compiler.frontend.schemas import is_standard
from onnxc.runtime.errors import InputError


def call_operator(node: Node, frame: Frame) -> NodeOutcome:
    """The values of the outputs of `node`, or the cases that it asks for."""
    lowering = _lowering(node.graph_node)
    if lowering is None:
        note_without_lowering(node.graph_node, frame)
        return (None,) * node.output_count
    findings = operand_findings(node.graph_node, node.operands)
    if findings:
        frame.attempt.findings += findings
        return (None,) * node.output_count
    try:
        return _checked(lowering(node, frame.ir), node, frame)
    except CasesNeeded as asked:
        return _admitted(asked.split, node, frame)
    except NotYetSupported as reason:
        if frame.attempt.unknown and not frame.attempt.objection_count:
            return (None,) * node.output_count
        return _unsupported(node, frame, str(reason))
    except DiagnosedModelError as refusal:
        frame.attempt.findings += map(node.described, refusal.diagnostics)
    except InputError as problem:
        # What is folded here may ask for more than there is.
        message = str(problem).removeprefix(f"error[{problem.code}]: ")
        finding = error(problem.code, message, node.location, rule=f"ONNX {node.operator}")
        frame.attempt.findings.append(node.described(finding))
    return (None,) * node.output_count


def note_without_lowering(node: GraphNode, frame: Frame) -> None:
    """Notes the node with advice where its operator version has no lowering."""
    goes_on = frame.session.goes_on and not is_standard(node.domain)
    noted = frame.attempt.unknown if goes_on else frame.attempt.unsupported
    noted += without_lowering([node])


def without_lowering(nodes: Iterable[GraphNode]) -> tuple[tuple[Location, str], ...]:
    """Those of the nodes whose operator version has no lowering, with advice."""
    return tuple((node.location, advice(node.domain, node.operator)) for node in nodes if _lowering(node) is None)


def _lowering(node: GraphNode) -> Lowering | None:
    key: OperatorKey = node.domain, node.operator, node.since
    return registered_lowering(key) if node.custom is None else lowering_of(node.custom)


def _checked(made: NodeResults, node: Node, frame: Frame) -> NodeOutcome:
    """What the operator gave, held against the schema and the limits of sizes."""
    results = made if isinstance(made, tuple) else (made,)
    frame.attempt.warnings += node.warnings
    frame.attempt.findings += map(node.described, result_findings(node.graph_node, results))
    beyond = size_findings(node.graph_node, results)
    frame.attempt.findings += map(node.described, beyond)
    return (None,) * node.output_count if beyond else results


def _admitted(split: CaseSplit, node: Node, frame: Frame) -> NodeOutcome:
    """The split; a node that asks for the rank of what is no operand of it, or for too many, cannot be lowered yet."""
    if not isinstance(split, RankSplit):
        return split
    if split.value not in node.operands or split.value in frame.assumptions.values:
        return _unsupported(node, frame, split.reason)
    if node.key in frame.session.given_up:
        return _unsupported(node, frame, split.reason)
    if not may_split_by_rank(frame):
        # A part of the cases would be a program that refuses legal inputs, so none of those around are told apart.
        frame.session.tell_no_more_apart()
        return _unsupported(node, frame, f"{split.reason}, and {TOO_MANY}")
    return split


def _unsupported(node: Node, frame: Frame, reason: str) -> NodeOutcome:
    frame.note_unsupported(node.location, reason)
    return (None,) * node.output_count
