"""Shape and Size: how many elements a tensor has, along its axes and in all."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.module import Value


@operator("Shape", since=(1, 13, 15, 19, 21, 23, 24, 25))
def shape(node: Node, ir: Builder) -> Value:
    """data: T[d0 ... dr-1]  ->  i64[n]: the sizes of the axes from `start` up to `end`, both clamped.

    Source: https://onnx.ai/onnx/operators/onnx__Shape.html
    """
    data = node.input("data")
    return ir.sizes(data.shape[slice(node.int("start", 0), node.int("end", data.rank))])


@operator("Size", since=(1, 13, 19, 21, 23, 24, 25))
def size(node: Node, ir: Builder) -> Value:
    """data: T[d0 ... dr-1]  ->  i64[]: d0 * ... * dr-1

    Source: https://onnx.ai/onnx/operators/onnx__Size.html
    """
    return ir.size(product(node.input("data").shape))
