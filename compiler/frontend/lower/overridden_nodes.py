"""What options override, at one node: what it reads before it is lowered, what it gives after, and what is noted."""

from collections.abc import Iterator, Sequence

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.frontend.case_split import CaseKey
from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.lower.attempt import CastValue, RenewedSizes
from onnxc.compiler.frontend.lower.chosen_floats import cast_floats, cast_operands
from onnxc.compiler.frontend.lower.frame import Frame, Values
from onnxc.compiler.frontend.overriding.declared_elements import with_declared_elements
from onnxc.compiler.frontend.overriding.renewal import Operands
from onnxc.compiler.frontend.overriding.renewed_operands import expect_batch_kept, list_of_sizes, renewed_operands
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType

__all__ = ["overridden_operands", "overridden_results"]


def overridden_operands(node: GraphNode, operands: Operands, key: CaseKey, frame: Frame) -> Operands | None:
    """The operands with sizes and element types that options put in the place of the declared ones.

    None where the node may hold an old size, and what it means now cannot be told.
    """
    session = frame.session
    if session.before is None:
        return operands
    given = operands
    try:
        operands = renewed_operands(node, given, session.before, key, frame.ir)
    except DiagnosedModelError as problem:
        frame.attempt.findings += problem.diagnostics
        return None
    frame.attempt.renewed += _renewed_sizes(node, given, operands, frame)
    cast = operands if session.floats is None else cast_operands(node, operands, session.floats, frame.ir)
    cast = with_declared_elements(node, cast, session.before.operands.get(key, ()), frame.ir)
    frame.attempt.casts += _casts(node, operands, cast, is_result=False)
    return cast


def _renewed_sizes(node: GraphNode, given: Operands, operands: Operands, frame: Frame) -> Iterator[RenewedSizes]:
    """The lists of sizes among the operands that are others than those that were given."""
    for index, (before, now) in enumerate(zip(given, operands, strict=True)):
        sizes = None if now is None or now is before else list_of_sizes(now, frame.ir)
        if now is not None and sizes is not None:
            yield RenewedSizes(node.location, index, now.dtype, sizes)


def _casts(
    node: GraphNode, before: Sequence[Value | None], now: Sequence[Value | None], *, is_result: bool
) -> Iterator[CastValue]:
    """The operands or results that have another element type than they had."""
    for index, (old, new) in enumerate(zip(before, now, strict=True)):
        if old is None or new is None or old is new or not isinstance(new.type, TensorType):
            continue
        if old.dtype != new.dtype:
            yield CastValue(node.location, index, is_result, old.dtype, new.dtype)


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
    if session.floats is None:
        return made
    cast = cast_floats(made, session.floats, frame.ir)
    frame.attempt.casts += _casts(node, made, cast, is_result=True)
    return cast
