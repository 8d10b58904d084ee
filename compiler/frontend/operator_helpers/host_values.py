"""Sequences and optionals as values of the program: what is known of them while it is built, and what comes out.

A sequence whose elements are known is followed through the operators, so that what is taken from it is a tensor like
any other and no host step is left.
"""

from collections.abc import Sequence

from onnxc.compiler.frontend.joining.joined_types import joined_element
from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.shape_inputs import only_element
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import SequenceType, Type

LONGEST_KNOWN = 64
"""Sequences of more elements than this are not followed element by element. An estimate: models have up to a dozen."""


def required(name: str, node: Node) -> Value:
    """The input `name`, of whatever type."""
    value = node.host_input(name)
    if value is None:
        node.fail("missing-input", f"input {name} is required and absent", rule=f"ONNX {node.operator}")
    return value


def sequence_input(name: str, node: Node) -> Value:
    """The input `name`, which must be a sequence."""
    value = required(name, node)
    if not isinstance(value.type, SequenceType):
        node.fail("not-a-sequence", f"{name} is {value.type}, not a sequence", rule=f"ONNX {node.operator}, {name}")
    return value


def element_type(sequence: Value) -> Type:
    """The type of the elements of a sequence."""
    assert isinstance(sequence.type, SequenceType), sequence
    return sequence.type.element


def known_elements(sequence: Value) -> tuple[Value, ...] | None:
    """The elements, where one op makes the sequence of them."""
    op = sequence.op
    is_made = op is not None and op.name == "host" and op.text("function") == "sequence_construct"
    return op.operands if op is not None and is_made and len(op.operands) <= LONGEST_KNOWN else None


def construct(elements: Sequence[Value], node: Node, ir: Builder) -> Value:
    """The sequence of these elements, of which there is one at least."""
    element = elements[0].type
    for other in elements[1:]:
        common = joined_element(element, other.type)
        if common is None:
            node.fail("element-types", f"elements are {element} and {other.type}", rule=f"ONNX {node.operator}")
        element = common
    return ir.host("sequence_construct", elements, (SequenceType(element),), {})[0]


def known_position(value: Value | None, ir: Builder) -> int | None:
    """The integer that a position is, where it is known."""
    known = None if value is None else ir.known(value)
    return known[0] if known is not None and len(known) == 1 and isinstance(known[0], int) else None


def expect_position(known: int | None, low: int, high: int, node: Node) -> None:
    """ModelError where a known position is outside [low, high]; a graph within may be one that never runs so."""
    if known is not None and not low <= known <= high and "." not in node.location.graph:
        message = f"position {known} is outside [{low}, {high}]" if low <= high else "there is no element"
        node.fail("sequence-position", message, rule=f"ONNX {node.operator}, position")


def scalar_position(name: str, node: Node, ir: Builder) -> Value | None:
    """The input `name` as i64[], or None."""
    value = node.optional(name)
    if value is None:
        return None
    return ir.cast(only_element(value, name, node, ir), I64)
