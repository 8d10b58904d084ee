"""Concat: tensors one after another along an axis."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value


@operator("Concat", since=(1, 4, 11, 13))
def concat(node: Node, ir: Builder) -> Value:
    """inputs: T[... di ...]  ->  T[... d0 + d1 + ... ...] along `axis`; version 1 has axis 1 by default.

    A tensor without elements must fit the others too, "except for the dimension size of the axis to concatenate on".
    ONNX Runtime refuses others where it knows the sizes; where it does not, it returns memory that nothing has written.
    Source: https://onnx.ai/onnx/operators/onnx__Concat.html
    """
    inputs = node.variadic()
    if not inputs:
        node.fail("missing-input", "at least one input is required", rule="ONNX Concat, inputs")
    axis = node.axis("axis", rank=inputs[0].rank, default=1)
    for ordinal, value in enumerate(inputs):
        if value.rank != inputs[0].rank:
            message = f"input {ordinal} has rank {value.rank}, input 0 has rank {inputs[0].rank}"
            node.fail("concat-rank", message, rule="ONNX Concat, inputs")
        for other, (size, first) in enumerate(zip(value.shape, inputs[0].shape, strict=True)):
            if other != axis:
                message = f"axis {other} of input {ordinal} and of input 0 differ"
                ir.require_equal(size, first, message, "concat-sizes")
    return ir.concatenate(inputs, axis)
