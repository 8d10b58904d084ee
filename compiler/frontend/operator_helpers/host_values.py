"""Sequences and optionals as values of the program: what is known of them while it is built, and what comes out.

A sequence whose elements are known is followed through the operators, so that what is taken from it is a tensor like
any other and no host step is left.
"""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, RankUnknown
from onnxc.compiler.frontend.operator_helpers.joined_types import joined_element
from onnxc.compiler.frontend.operator_helpers.shape_inputs import only_element
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import ANY_SIZE, OptionalType, SequenceType, TensorType, Type

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


def taken_out(type: Type, ir: Builder) -> Type:
    """The type of a value that is taken out of a sequence or an optional: any size becomes one of its own."""
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    sizes = (ir.fresh_symbol("element") if dim == ANY_SIZE else dim for dim in type.shape)
    return TensorType(type.dtype, tuple(sizes))


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


def known_presence(value: Value) -> bool | None:
    """Whether a value is present, where that is known; what is no optional is."""
    if not isinstance(value.type, OptionalType):
        return True
    op = value.op
    if op is None or op.name != "host" or op.text("function") != "optional_construct":
        return None
    return bool(op.operands)


def with_element(value: Value, ir: Builder) -> Value:
    """The value of what is an optional, if that is present; anything else as it is."""
    if not isinstance(value.type, OptionalType):
        return value
    if known_presence(value) and value.op is not None:
        return value.op.operands[0]
    return ir.host("optional_get_element", (value,), (taken_out(value.type.element, ir),), {})[0]


def of_declared_shape(value: Value, declared: TensorType, ir: Builder) -> Value:
    """A tensor whose rank only data tells as one of the declared rank; the call checks the sizes that are integers."""
    shape = declared.known_shape
    squeezed = _squeezed_to(value, len(shape), ir)
    if squeezed is not None:
        return squeezed
    sizes = [dim if isinstance(dim, int) else ir.fresh_symbol("declared") for dim in shape]
    wanted = tuple(dim if isinstance(dim, int) else -1 for dim in shape)
    return ir.host("expect_shape", (value,), (TensorType(value.tensor.dtype, tuple(sizes)),), {"shape": wanted})[0]


def _squeezed_to(value: Value, rank: int, ir: Builder) -> Value | None:
    """What is squeezed of its ones, where its rank says that all axes of symbolic size are ones, or that none is."""
    if value.op is None or value.op.name != "host" or value.op.text("function") != "squeeze_ones":
        return None
    (x,) = value.op.operands
    ones = [axis for axis, size in enumerate(x.shape) if size == 1]
    open_axes = [axis for axis, size in enumerate(x.shape) if may_be_one(size) and axis not in ones]
    if rank == x.rank - len(ones) - len(open_axes):
        return ir.squeeze(x, [*ones, *open_axes])
    if rank != x.rank - len(ones):
        return None
    for axis in open_axes:
        size, message = x.shape[axis], f"Squeeze without axes keeps axis {axis}, and its size is 1"
        ir.guard(maximum(size - 1, 1 - size), 1, "at_least", message)
    return ir.squeeze(x, ones)


def may_be_one(size: Dim) -> bool:
    """Whether a size is 1, or only data tells."""
    return size != 0 and not at_least(size, 2)


def of_case(unknown: RankUnknown, count: int, ir: Builder) -> Value:
    """The tensor with its unknown rank, or the unknown size of its axis, taken to be `count`, which the call checks."""
    value = unknown.value
    if unknown.axis is None:
        return of_declared_shape(value, TensorType(value.tensor.dtype, (ANY_SIZE,) * count), ir)
    size = value.shape[unknown.axis]
    ir.guard(size, count, "equal", f"{unknown}: it is none of those that are told apart")
    axis = unknown.axis % value.rank
    return ir.with_shape(value, [*value.shape[:axis], count, *value.shape[axis + 1 :]])
