"""DepthToSpace and SpaceToDepth: blocks of the plane become channels, and back."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.module import Value

MODES = ("DCR", "CRD")


def _operand(node: Node) -> tuple[Value, int]:
    x, block = node.input("input"), node.int("blocksize")
    if x.rank != 4:
        node.fail("depth-to-space-rank", f"input has rank {x.rank}, not 4", rule=f"ONNX {node.operator}, input")
    if block < 1:
        node.fail("block-size", f"blocksize is {block}, not above 0", rule=f"ONNX {node.operator}, attribute blocksize")
    return x, block


def _divided(size: Dim, by: int, axis: str, node: Node, ir: Builder) -> Dim:
    """The size of an axis in blocks, which must be whole."""
    message = f"{axis} is {size}, no multiple of {by}"
    quotient = floordiv(size, by)
    if isinstance(size, int) and size % by:
        node.fail("block-size", message, rule=f"ONNX {node.operator}, attribute blocksize")
    ir.require_equal(quotient * by, size, message, "block-size")
    return quotient


@operator("DepthToSpace", since=(1, 11, 13, 28))
def depth_to_space(node: Node, ir: Builder) -> Value:
    """input: T[N, C, H, W]  ->  T[N, C / b², H * b, W * b], b = blocksize

    The channels count (b, b, c), or (c, b, b) in mode CRD.

    Source: https://onnx.ai/onnx/operators/onnx__DepthToSpace.html
    """
    x, b = _operand(node)
    N, C, H, W = x.shape
    c = _divided(C, b * b, "C", node, ir)
    if node.choice("mode", MODES, "DCR") == "DCR":
        blocks = ir.transpose(ir.reshape(x, (N, b, b, c, H, W)), (0, 3, 4, 1, 5, 2))
    else:
        blocks = ir.transpose(ir.reshape(x, (N, c, b, b, H, W)), (0, 1, 4, 2, 5, 3))
    return ir.reshape(blocks, (N, c, H * b, W * b))


@operator("SpaceToDepth", since=(1, 13, 28))
def space_to_depth(node: Node, ir: Builder) -> Value:
    """input: T[N, C, H, W]  ->  T[N, C * b², H / b, W / b], b = blocksize

    The channels of the result count (b, b, C), or (C, b, b) in mode CRD.

    Source: https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html
    """
    x, b = _operand(node)
    N, C, H, W = x.shape
    h, w = _divided(H, b, "H", node, ir), _divided(W, b, "W", node, ir)
    blocks = ir.reshape(x, (N, C, h, b, w, b))
    order = (0, 3, 5, 1, 2, 4) if node.choice("mode", MODES, "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return ir.reshape(ir.transpose(blocks, order), (N, C * (b * b), h, w))
