"""SequenceMap: a graph applied to each element of a sequence."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.joining.container_values import taken_out
from onnxc.compiler.frontend.joining.joined_types import is_never_filled, joined_element
from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.host_values import (
    construct,
    element_type,
    known_elements,
    sequence_input,
)
from onnxc.compiler.frontend.operator_helpers.loops import while_loop
from onnxc.compiler.frontend.operators.control.control_flow import expect_declared_shapes
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import SequenceType, TensorType

UNROLLED = 8
"""A sequence of so many known elements is gone through without a loop. An estimate: each is a copy of the body."""


@operator("SequenceMap", since=(17,))
def sequence_map(node: Node, ir: Builder) -> tuple[Value, ...]:
    """input_sequence: seq(T), additional_inputs: seq(T) or T ...  ->  seq(T) ..., the results of `body` per element

    Tensors among the additional inputs are the same for every element.
    Source: https://onnx.ai/onnx/operators/onnx__SequenceMap.html
    """
    first = sequence_input("input_sequence", node)
    inputs = [value for value in node.operands if value is not None]
    known = [known_elements(value) for value in inputs if isinstance(value.type, SequenceType)]
    lengths = {len(elements) for elements in known if elements is not None}
    if len(lengths) > 1:
        message = f"the sequences have {', '.join(map(str, sorted(lengths)))} elements"
        node.fail("map-lengths", message, rule="ONNX SequenceMap, additional_inputs")
    if None not in known and len(lengths) == 1 and 0 < max(lengths) <= UNROLLED:
        return _unrolled(inputs, max(lengths), node, ir)
    count = ir.host("sequence_length", (first,), (TensorType(I64, ()),), {})[0]
    body = node.graph("body")
    empty = SequenceType(TensorType(F32, None))
    initial = [ir.host("sequence_construct", (), (empty,), {})[0] for _ in body.outputs]

    def build(nested: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        elements = [_element(value, iteration, nested) for value in inputs]
        expect_declared_shapes(body, elements, node)
        results = node.lower_subgraph(body, elements, nested, (iteration,))
        longer = [_appended(sequence, result, node, nested) for sequence, result in zip(carried, results, strict=True)]
        return nested.constant(np.array(True)), *longer

    return while_loop(node, ir, count, ir.constant(np.array(True)), initial, build)


def _unrolled(inputs: Sequence[Value], count: int, node: Node, ir: Builder) -> tuple[Value, ...]:
    results = []
    for ordinal in range(count):
        elements = [value if (known := known_elements(value)) is None else known[ordinal] for value in inputs]
        expect_declared_shapes(node.graph("body"), elements, node)
        results.append(node.lower_subgraph(node.graph("body"), elements, ir, (ir.scalar(ordinal, I64),)))
    return tuple(construct(column, node, ir) for column in zip(*results, strict=True))


def _element(value: Value, position: Value, ir: Builder) -> Value:
    if not isinstance(value.type, SequenceType):
        return value
    return ir.host("sequence_at", (value, position), (taken_out(element_type(value), ir),), {})[0]


def _appended(sequence: Value, value: Value, node: Node, ir: Builder) -> Value:
    if is_never_filled(sequence):
        return construct((value,), node, ir)
    element = joined_element(element_type(sequence), value.type)
    if element is None:
        node.fail("element-types", f"a result {value.type} does not fit a {sequence.type}", rule="ONNX SequenceMap")
    return ir.host("sequence_insert", (sequence, value), (SequenceType(element),), {})[0]
