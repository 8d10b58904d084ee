"""What options override, at one node: what it reads before it is lowered, what it gives after, and what is noted."""

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.frontend.case_split import CaseKey
from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.lower.chosen_floats import cast_floats, cast_operands
from onnxc.compiler.frontend.lower.frame import Frame, Values
from onnxc.compiler.frontend.overriding.renewal import Operands
from onnxc.compiler.frontend.overriding.renewed_operands import expect_batch_kept, renewed_operands

__all__ = ["overridden_operands", "overridden_results"]


def overridden_operands(node: GraphNode, operands: Operands, key: CaseKey, frame: Frame) -> Operands | None:
    """The operands with sizes and element types that options put in the place of the declared ones.

    None where the node may hold an old size, and what it means now cannot be told.
    """
    session = frame.session
    if session.before is None:
        return operands
    try:
        operands = renewed_operands(node, operands, session.before, key, frame.ir)
    except DiagnosedModelError as problem:
        frame.attempt.findings += problem.diagnostics
        return None
    return operands if session.floats is None else cast_operands(node, operands, session.floats, frame.ir)


def overridden_results(node: GraphNode, operands: Operands, made: Values, key: CaseKey, frame: Frame) -> Values:
    """What the node gives, in the element type that options ask for; nothing where it lost a batch."""
    session = frame.session
    if session.record is not None:
        session.record.note(key, operands, made, frame.ir)
    if session.before is None or None in made:
        return made
    try:
        expect_batch_kept(node, operands, tuple(made), session.before, key, frame.ir)
    except DiagnosedModelError as problem:
        frame.attempt.findings += problem.diagnostics
        return (None,) * len(made)
    return made if session.floats is None else cast_floats(made, session.floats, frame.ir)
