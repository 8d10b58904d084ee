"""NonZero and Compress: the elements that a condition picks, as many as there are."""

from compiler.frontend.operator import Node, operator
from compiler.ir.builder import Builder
from compiler.ir.dims import at_least, product
from compiler.ir.module import Value


@operator("NonZero", since=(9, 13))
def non_zero(node: Node, ir: Builder) -> Value:
    """X: T[d0 ... dr-1]  ->  i64[r, n]: the coordinates of what is not zero, in row-major order.

    Source: https://onnx.ai/onnx/operators/onnx__NonZero.html
    """
    return ir.non_zero(node.input("X"))


@operator("Compress", since=(9, 11, 28))
def compress(node: Node, ir: Builder) -> Value:
    """input: T[... d ...], condition: bool[m], m <= d  ->  T[... n ...]: the slices along `axis` where it holds.

    Without `axis` of the flattened input.
    Source: https://onnx.ai/onnx/operators/onnx__Compress.html
    """
    x, condition = node.inputs("input", "condition")
    if condition.rank != 1:
        node.fail("not-a-vector", f"condition is {condition.type}, not a vector", rule="ONNX Compress, condition")
    axis = node.axis("axis", rank=x.rank) if node.has("axis") else 0
    if not node.has("axis"):
        x = ir.reshape(x, (product(x.shape),))
    length, size = condition.shape[0], x.shape[axis]
    message = f"condition has {length} elements, more than the {size} it chooses from"
    if at_least(length, size + 1):
        node.fail("index-out-of-range", message, rule="ONNX Compress, condition")
    if not at_least(size, length):
        ir.guard(size, length, "at_least", message)
    places = ir.non_zero(condition)
    return ir.gather(x, ir.squeeze(places, (0,)), axis)
