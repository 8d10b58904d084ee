"""SequenceConstruct, SequenceEmpty, SequenceAt, SequenceInsert, SequenceErase, SequenceLength: sequences of values."""

from onnxc.compiler.frontend.joining.container_values import taken_out
from onnxc.compiler.frontend.joining.joined_types import is_never_filled, joined_element
from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.host_values import (
    construct,
    element_type,
    expect_position,
    known_elements,
    known_position,
    scalar_position,
    sequence_input,
)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import SequenceType, TensorType, Type


@operator("SequenceConstruct", since=(11,))
def sequence_construct(node: Node, ir: Builder) -> Value:
    """inputs: T...  ->  seq(T)

    Source: https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html
    """
    elements = [value for value in node.operands if value is not None]
    if not elements:
        node.fail("missing-input", "at least one input is required", rule="ONNX SequenceConstruct, inputs")
    return construct(elements, node, ir)


@operator("SequenceEmpty", since=(11,))
def sequence_empty(node: Node, ir: Builder) -> Value:
    """->  seq(T) without elements, T = `dtype`, f32 by default

    Source: https://onnx.ai/onnx/operators/onnx__SequenceEmpty.html
    """
    dtype = node.dtype("dtype") if node.has("dtype") else F32
    return ir.host("sequence_construct", (), (SequenceType(TensorType(dtype, None)),), {})[0]


@operator("SequenceLength", since=(11,))
def sequence_length(node: Node, ir: Builder) -> Value:
    """input_sequence: seq(T)  ->  i64[]

    Source: https://onnx.ai/onnx/operators/onnx__SequenceLength.html
    """
    sequence = sequence_input("input_sequence", node)
    elements = known_elements(sequence)
    if elements is not None:
        return ir.scalar(len(elements), I64)
    return ir.host("sequence_length", (sequence,), (TensorType(I64, ()),), {})[0]


@operator("SequenceAt", since=(11,))
def sequence_at(node: Node, ir: Builder) -> Value:
    """input_sequence: seq(T), position: I[]  ->  T, negative positions counting from the end

    Source: https://onnx.ai/onnx/operators/onnx__SequenceAt.html
    """
    sequence = sequence_input("input_sequence", node)
    position = scalar_position("position", node, ir)
    if position is None:
        node.fail("missing-input", "input position is required and absent", rule="ONNX SequenceAt")
    elements, at = known_elements(sequence), known_position(position, ir)
    if elements is not None:
        expect_position(at, -len(elements), len(elements) - 1, node)
    if elements is not None and at is not None and -len(elements) <= at < len(elements):
        return elements[at]
    return ir.host("sequence_at", (sequence, position), (taken_out(element_type(sequence), ir),), {})[0]


@operator("SequenceInsert", since=(11,))
def sequence_insert(node: Node, ir: Builder) -> Value:
    """input_sequence: seq(T), tensor: T, position: I[]?  ->  seq(T) with the tensor there, by default at the end

    Source: https://onnx.ai/onnx/operators/onnx__SequenceInsert.html
    """
    sequence, value = sequence_input("input_sequence", node), node.host_input("tensor")
    if value is None:
        node.fail("missing-input", "input tensor is required and absent", rule="ONNX SequenceInsert")
    _expect_dtype(sequence, value, node)
    position = scalar_position("position", node, ir)
    elements, at = known_elements(sequence), known_position(position, ir)
    if elements is not None:
        at = len(elements) if position is None else at
        expect_position(at, -len(elements), len(elements), node)
    if elements is not None and at is not None and -len(elements) <= at <= len(elements):
        start = at if at >= 0 else at + len(elements)
        return construct((*elements[:start], value, *elements[start:]), node, ir)
    element = value.type if is_never_filled(sequence) else joined_element(element_type(sequence), value.type)
    assert element is not None, (sequence, value)
    operands = (sequence, value) if position is None else (sequence, value, position)
    return ir.host("sequence_insert", operands, (SequenceType(element),), {})[0]


def _expect_dtype(sequence: Value, value: Value, node: Node) -> None:
    """The element types agree; that of an empty sequence too."""
    element: Type = element_type(sequence)
    if joined_element(element, value.type) is None:
        message = f"a tensor {value.type} does not fit a {sequence.type}"
        node.fail("element-types", message, rule="ONNX SequenceInsert, tensor")


@operator("SequenceErase", since=(11,))
def sequence_erase(node: Node, ir: Builder) -> Value:
    """input_sequence: seq(T), position: I[]?  ->  seq(T) without the element there, by default the last

    Source: https://onnx.ai/onnx/operators/onnx__SequenceErase.html
    """
    sequence = sequence_input("input_sequence", node)
    position = scalar_position("position", node, ir)
    elements = known_elements(sequence)
    at = -1 if position is None else known_position(position, ir)
    if elements is not None:
        expect_position(at, -len(elements), len(elements) - 1, node)
    # What is left of one element is an empty sequence, which does not tell its type.
    if elements is not None and at is not None and len(elements) > 1 and -len(elements) <= at < len(elements):
        start = at % len(elements)
        return construct((*elements[:start], *elements[start + 1 :]), node, ir)
    operands = (sequence,) if position is None else (sequence, position)
    return ir.host("sequence_erase", operands, (sequence.type,), {})[0]
