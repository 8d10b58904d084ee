"""Identity and BitCast: the same bits."""

from compiler.frontend.operator import Node, operator
from compiler.ir.builder import Builder
from compiler.ir.module import Value


@operator("Identity", since=(1, 13, 14, 16, 19, 21, 23, 24, 25))
def identity(node: Node, ir: Builder) -> Value:
    """input: V  ->  V, of any type.

    Source: https://onnx.ai/onnx/operators/onnx__Identity.html
    """
    value = node.host_input("input")
    return node.input("input") if value is None else value


@operator("BitCast", since=(26,))
def bit_cast(node: Node, ir: Builder) -> Value:
    """input: T1[...]  ->  T2[...], T2 = `to`, of the same width.

    Source: https://onnx.ai/onnx/operators/onnx__BitCast.html
    """
    x, dtype = node.input("input"), node.dtype("to")
    if x.dtype.is_string or dtype.is_string or x.dtype.bits != dtype.bits:
        node.fail("bit-width", f"{x.dtype} and {dtype} do not have the same width", rule="ONNX BitCast, attribute to")
    return ir.bitcast(x, dtype)
