"""NonZero and Compress: the elements that a condition picks, as many as there are."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import zero
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least, product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value


@operator("NonZero", since=(9, 13))
def non_zero(node: Node, ir: Builder) -> Value:
    """X: T[d0 ... dr-1]  ->  i64[r, n]: the coordinates of what is not zero, in row-major order.

    Source: https://onnx.ai/onnx/operators/onnx__NonZero.html
    """
    x = node.input("X")
    x = ir.not_(ir.equal(x, zero(x.dtype, ir))) if x.dtype.is_string else x
    known = ir.known_array(x)
    if known is not None:
        return ir.constant(np.argwhere(known.astype(np.bool_)).astype(np.int64).T.copy())
    return _all_coordinates(x.shape, ir) if _is_full(x, ir) else ir.non_zero(x)


def _is_full(x: Value, ir: Builder) -> bool:
    """Whether `x` is one constant, not 0, everywhere: how exporters count before there was Range."""
    if x.op is None or x.op.name != "broadcast":
        return False
    value = ir.known_array(x.op.operands[0])
    return value is not None and value.size == 1 and bool(value.astype(np.bool_).all())


def _all_coordinates(shape: Sequence[Dim], ir: Builder) -> Value:
    count = product(shape)
    rows = [ir.reshape(ir.iota(shape, axis, I64), (1, count)) for axis in range(len(shape))]
    return ir.concatenate(rows, 0) if rows else ir.full((0, 1), 0, I64)


@operator("Compress", since=(9, 11, 28))
def compress(node: Node, ir: Builder) -> Value:
    """input: T[... d ...], condition: bool[m], m <= d  ->  T[... n ...]: the slices along `axis` where it holds.

    Without `axis` of the flattened input; a condition of more axes, which paddle2onnx writes, is flattened then too.
    Source: https://onnx.ai/onnx/operators/onnx__Compress.html
    """
    x, condition = node.inputs("input", "condition")
    if condition.rank > 1 and not node.has("axis"):
        message = f"condition is {condition.type}, and is taken as the vector of its elements"
        node.warn("not-a-vector", message, "ONNX Compress, condition")
        condition = ir.reshape(condition, (product(condition.shape),))
    if condition.rank != 1:
        node.fail("not-a-vector", f"condition is {condition.type}, not a vector", rule="ONNX Compress, condition")
    axis = node.axis("axis", rank=x.rank) if node.has("axis") else 0
    if not node.has("axis"):
        x = ir.reshape(x, (product(x.shape),))
    length, size = condition.shape[0], x.shape[axis]
    message = f"condition has {length} elements, more than the {size} it chooses from"
    if at_least(length, size + 1):
        node.fail("compress-length", message, rule="ONNX Compress, condition")
    if not at_least(size, length):
        ir.guard(size, length, "at_least", message)
    return ir.gather(x, _true_indices(condition, ir), axis)


def _true_indices(condition: Value, ir: Builder) -> Value:
    known = ir.known_array(condition)
    if known is not None:
        return ir.constant(np.flatnonzero(known).astype(np.int64))
    return ir.squeeze(ir.non_zero(condition), (0,))
