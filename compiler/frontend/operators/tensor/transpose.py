"""Transpose: axes in another order."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value


@operator("Transpose", since=(1, 13, 21, 23, 24, 25))
def transpose(node: Node, ir: Builder) -> Value:
    """data: T[d0 ... dr-1]  ->  T[dp0 ... dpr-1], p = perm, by default all axes reversed.

    Source: https://onnx.ai/onnx/operators/onnx__Transpose.html
    """
    data = node.input("data")
    permutation = node.ints("perm", range(data.rank)[::-1])
    if sorted(permutation) != list(range(data.rank)):
        message = f"perm {list(permutation)} is no permutation of the {data.rank} axes"
        node.fail("not-a-permutation", message, rule="ONNX Transpose, attribute perm")
    return ir.transpose(data, permutation)
