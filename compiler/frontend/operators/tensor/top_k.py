"""TopK: the largest or smallest elements along an axis, and where they are."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar, read_lengths
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.module import Value


@operator("TopK", since=(1,))
def top_k_by_attribute(node: Node, ir: Builder) -> tuple[Value, ...]:
    """X: T[... d ...]  ->  Values: T[... k ...], Indices: i64[... k ...], k an attribute.

    Source: https://onnx.ai/onnx/operators/onnx__TopK.html
    """
    return _top_k(node.int("k"), True, node, ir)


@operator("TopK", since=(10, 11, 24))
def top_k(node: Node, ir: Builder) -> tuple[Value, ...]:
    """X: T[... d ...], K: i64[1]  ->  Values: T[... K ...], Indices: i64[... K ...], sorted whatever `sorted` says.

    Source: https://onnx.ai/onnx/operators/onnx__TopK.html
    """
    (k,) = read_lengths(as_scalar(node.input("K"), "K", node, ir), "K", node, ir, code="top-k")
    return _top_k(k, node.flag("largest", True), node, ir)


def _top_k(k: Dim, largest: bool, node: Node, ir: Builder) -> tuple[Value, ...]:
    x = node.input("X")
    axis = node.axis("axis", rank=x.rank)
    message = f"k is {k}, axis {axis} has {x.shape[axis]} elements"
    if at_least(k, x.shape[axis] + 1) or at_least(-1, k):
        node.fail("top-k", message, rule="ONNX TopK, K")
    if not at_least(x.shape[axis], k):
        ir.guard(x.shape[axis], k, "at_least", message)
    return ir.top_k(x, k, axis, largest)
