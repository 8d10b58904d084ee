"""What the signatures alone decide: whether a node can stand as it is in another version of its operator."""

from collections.abc import Collection, Mapping

from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto
from onnxc.compiler.frontend.schemas import Formal, Schema
from onnxc.compiler.frontend.value_types import type_text
from onnxc.compiler.frontend.versions.change import Change

__all__ = ["fit"]

MEANINGLESS: Collection[str] = ("consumed_inputs", "output_sequence")
"""Attributes that say nothing of values: which inputs may be overwritten, and that an output is used."""

NEUTRAL: Mapping[tuple[str, str], int] = {
    ("AveragePool", "dilations"): 1,
    ("LpPool", "dilations"): 1,
    ("MaxPool", "dilations"): 1,
    ("MaxPool", "strides"): 1,
}
"""Attributes without a default that say nothing where all their elements are this."""

MISSPELLED: Collection[tuple[str, str]] = (("GRU", "direction"),)
"""Attributes whose default was no legal value in one version, and meant that of the other."""


def fit(change: Change, *, are_types_checked: bool = True) -> None:
    """Changes the node by the defaults of its attributes; fails where the other version has no word for it.

    are_types_checked: whether the types of its operands are part of that.
    """
    before, after = change.before, change.after
    if after is None:
        change.fail(f"the operator is new in opset {before.since_version}")
    if after.deprecated:
        change.fail("the operator has ended there")
    for attribute in list(change.node.attribute):
        if attribute.name not in after.attributes:
            _leave_out(change, attribute)
    _keep_defaults(change, before, after)
    _fit_required(change, after)
    _fit_operands(change, after)
    if are_types_checked:
        _fit_types(change, after)


def _keep_defaults(change: Change, before: Schema, after: Schema) -> None:
    """Says what was left to a default that is another one there."""
    for name, known in before.attributes.items():
        other = after.attributes.get(name)
        if other is None or other.default == known.default or change.has(name) or (before.name, name) in MISSPELLED:
            continue
        if known.default is not None:
            change.set(name, known.default)


def _fit_required(change: Change, after: Schema) -> None:
    for name, known in after.attributes.items():
        if known.required and not change.has(name):
            if name not in MEANINGLESS:
                change.fail(f"it needs the attribute {name}")
            change.set(name, [0] * len(change.node.input))


def _leave_out(change: Change, attribute: AttributeProto) -> None:
    name = attribute.name
    known = change.before.attributes.get(name)
    neutral = NEUTRAL.get((change.before.name, name))
    if name not in MEANINGLESS and known is not None:
        value = change.given(name)
        is_neutral = neutral is not None and isinstance(value, tuple) and all(each == neutral for each in value)
        if not is_neutral and value != known.default:
            change.fail(f"it has no attribute {name}, which is {value} here")
    change.drop(name)


def _fit_operands(change: Change, after: Schema) -> None:
    for kind, names in (("input", change.node.input), ("output", change.node.output)):
        while names and not names[-1]:
            names.pop()
        most, least = (
            (after.max_inputs, after.min_inputs) if kind == "input" else (after.max_outputs, after.min_outputs)
        )
        if not least <= len(names) <= most:
            change.fail(f"it has {len(names)} {kind}s, and {least} to {most} there")
        for position, name in enumerate(names):
            formal = after.input(position) if kind == "input" else after.output(position)
            if formal is not None and not name and formal.option == "single" and kind == "input":
                change.fail(f"its input {formal.name} is left out")


def _fit_types(change: Change, after: Schema) -> None:
    for position, name in enumerate(change.node.input):
        _fit_type(change, after, after.input(position), name, "input")
    for position, name in enumerate(change.node.output):
        _fit_type(change, after, after.output(position), name, "output")


def _fit_type(change: Change, after: Schema, formal: Formal | None, name: str, kind: str) -> None:
    type = change.values.types.get(name)
    text = None if type is None else type_text(type)
    if text is None or formal is None:
        return
    allowed = after.allowed_types(formal)
    if text not in allowed and f"optional({text})" not in allowed:
        change.fail(f"its {kind} {name} is {text}, which {after.identity} does not know")
