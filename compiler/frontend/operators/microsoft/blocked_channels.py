"""Convolutions and pools of com.microsoft.nchwc, which ONNX Runtime's optimiser writes at the level ORT_ENABLE_ALL.

A value there has its channels in blocks in memory. Here it is the tensor in the order of its axes, as its shape says,
so that only filters, which the model has in memory's order, are put in another. Channels are as many as fill blocks.
"""

import numpy as np

from onnxc.compiler.frontend.operator import Lowering, Node, operator
from onnxc.compiler.frontend.operator_domains import NCHWC
from onnxc.compiler.frontend.operator_helpers.fused_activations import activated
from onnxc.compiler.frontend.operator_helpers.standard_nodes import first_result, standard_node
from onnxc.compiler.frontend.operators.image.resize import resize
from onnxc.compiler.frontend.operators.microsoft.convolutions import channels_first, channels_last, plus
from onnxc.compiler.frontend.operators.nn.conv import conv
from onnxc.compiler.frontend.operators.nn.pooling import average_pool, global_average_pool, global_max_pool, max_pool
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

CODE = "channel-blocks"


@operator("Conv", since=(1,), domain=NCHWC)
def blocked_conv(node: Node, ir: Builder) -> Value:
    """As FusedConv, with W in the order of memory that its blocks ask for; Sum: T[N, M, *O] is added."""
    x, w = node.inputs("X", "W")
    operands = (x, _filters(w, node, ir), node.optional("B"))
    y = first_result(conv, standard_node(node, "Conv", 11, operands), ir)
    return activated(plus(y, node.optional("Sum"), node, ir), node.floats("activation_params", ()), node, ir)


def _filters(w: Value, node: Node, ir: Builder) -> Value:
    """W: T[M, C, *K] in the order of its axes; in memory it is [M/b, C/b, *K, b, b], or [M/b, C, *K, b] for C < b."""
    sizes = [size for size in w.shape if isinstance(size, int)]
    if len(sizes) < w.rank or w.rank < 3:
        node.unsupported("the sizes of W are only known at run time, and filters of blocks have spatial axes")
    outer = node.channels_in_block
    inner = outer if sizes[1] >= outer else 1
    if sizes[0] % outer or sizes[1] % inner:
        message = f"W is {w.type}, which does not lie in blocks of {outer} channels"
        node.fail(CODE, message, rule=f"ONNX Runtime {NCHWC}.Conv, W")
    blocks = ir.reshape(w, (sizes[0] // outer, sizes[1] // inner, *sizes[2:], inner, outer))
    plain = ir.transpose(blocks, (0, w.rank + 1, 1, w.rank, *range(2, w.rank)))
    return ir.reshape(plain, sizes)


def _images(node: Node) -> Value:
    """X, which has spatial axes."""
    x = node.input("X")
    if x.rank < 3:
        node.fail(CODE, f"X has {x.rank} axes, none of them spatial", rule=f"ONNX Runtime {NCHWC}.{node.operator}, X")
    return x


@operator("ReorderInput", since=(1,), domain=NCHWC)
def reorder_input(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S], or with channels_last T[N, *S, C]  →  T[N, C', *S] with zeros up to a multiple of the block"""
    x = _images(node)
    images = channels_first(x, ir) if node.flag("channels_last", default=False) else x
    channels = images.shape[1]
    if not isinstance(channels, int):
        node.unsupported("the number of channels is only known at run time")
    others = (0,) * (images.rank - 2)
    return ir.pad(images, (0,) * images.rank, (0, -channels % node.channels_in_block, *others))


@operator("ReorderOutput", since=(1,), domain=NCHWC)
def reorder_output(node: Node, ir: Builder) -> Value:
    """X: T[N, C', *S]  →  its first `channels`, with channels_last behind the spatial axes"""
    x, channels = _images(node), node.int("channels", 0)
    if not isinstance(x.shape[1], int) or not 0 < channels <= x.shape[1]:
        message = f"channels is {channels}, and X has {x.shape[1]}"
        node.fail(CODE, message, rule=f"ONNX Runtime {NCHWC}.ReorderOutput, attribute channels")
    images = ir.slice(x, (0,) * x.rank, (x.shape[0], channels, *x.shape[2:]))
    return channels_last(images, ir) if node.flag("channels_last", default=False) else images


@operator("Upsample", since=(1,), domain=NCHWC)
def blocked_upsample(node: Node, ir: Builder) -> Value:
    """As Resize with `scales`, where the nearest element is the one before."""
    scales = ir.constant(np.array(node.ints("scales"), np.float32))
    operands = (node.input("X"), None, scales)
    return first_result(resize, standard_node(node, "Resize", 13, operands, {"nearest_mode": "floor"}), ir)


def _as_standard(name: str, version: int, lowering: Lowering) -> None:
    """The operator computes what the standard's of that name does."""

    @operator(name, since=(1,), domain=NCHWC)
    def lower(node: Node, ir: Builder) -> Value:
        return first_result(lowering, standard_node(node, name, version, node.operands), ir)


_as_standard("MaxPool", 12, max_pool)
_as_standard("AveragePool", 19, average_pool)
_as_standard("GlobalMaxPool", 1, global_max_pool)
_as_standard("GlobalAveragePool", 1, global_average_pool)
