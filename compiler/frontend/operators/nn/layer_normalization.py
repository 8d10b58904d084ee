"""LayerNormalization and RMSNormalization: over the trailing axes."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.broadcasting import broadcast_onto
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import (
    broadcast_input,
    optional_broadcast_input,
)
from onnxc.compiler.frontend.operator_helpers.precision import wide_type
from onnxc.compiler.frontend.operator_helpers.standardize import moments, standardize
from onnxc.compiler.frontend.operators.nn.instance_normalization import stash_type
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value

CODE = "normalization-parameter"


@operator("LayerNormalization", since=(17,))
def layer_normalization(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """X: T[d...], Scale, B: T broadcast to X  ->  Y: T[d...], Mean, InvStdDev: U[d before axis ..., 1 ...]

    Source: https://onnx.ai/onnx/operators/onnx__LayerNormalization.html
    """
    x = node.input("X")
    scale, bias = broadcast_input("Scale", x, node, ir), optional_broadcast_input("B", x, node, ir)
    axis = node.axis("axis", rank=x.rank)
    y = _layer_norm(x, scale, bias, axis, node, ir)
    if not node.wants(1) and not node.wants(2):
        return (y,)
    dtype = node.dtype("stash_type")
    mean, variance = moments(ir.cast(x, stash_type(x, node)), range(axis, x.rank), ir)
    inverse = ir.reciprocal(ir.sqrt(ir.add(variance, node.float("epsilon"))))
    return y, ir.cast(mean, dtype), ir.cast(inverse, dtype)


def _layer_norm(x: Value, scale: Value, bias: Value | None, axis: int, node: Node, ir: Builder) -> Value:
    """Y: in one where scale and bias have only the normalised axes, else scaled and shifted after."""
    normalised, epsilon = x.shape[axis:], node.float("epsilon")
    parameters = [value for value in (scale, bias) if value is not None]
    if stash_type(x, node) == wide_type(x.dtype) and all(value.rank <= len(normalised) for value in parameters):
        scale = broadcast_onto(scale, normalised, "Scale", node, ir, CODE)
        shift = ir.full(normalised, 0, x.dtype) if bias is None else _shift(bias, normalised, node, ir)
        return ir.layer_norm(x, scale, shift, axis, epsilon)
    normal = standardize(ir.cast(x, stash_type(x, node)), range(axis, x.rank), epsilon, ir)
    scaled = ir.mul(ir.cast(normal, x.dtype), broadcast_onto(scale, x.shape, "Scale", node, ir, CODE))
    return scaled if bias is None else ir.add(scaled, _shift(bias, x.shape, node, ir))


def _shift(bias: Value, shape: Sequence[Dim], node: Node, ir: Builder) -> Value:
    return broadcast_onto(bias, shape, "B", node, ir, CODE)


@operator("RMSNormalization", since=(23,))
def rms_normalization(node: Node, ir: Builder) -> Value:
    """X: T[d0 ... dr-1], scale: V broadcast to X  ->  Y: V[d0 ... dr-1]

    Source: https://onnx.ai/onnx/operators/onnx__RMSNormalization.html
    """
    x = node.input("X")
    scale = broadcast_input("scale", x, node, ir)
    axis, epsilon = node.axis("axis", rank=x.rank), node.float("epsilon")
    normalised, stash = x.shape[axis:], stash_type(x, node)
    if stash == wide_type(x.dtype) and scale.dtype == x.dtype and scale.rank <= len(normalised):
        return ir.rms_norm(x, broadcast_onto(scale, normalised, "scale", node, ir, CODE), axis, epsilon)
    wide = ir.cast(x, stash)
    square = ir.mean(ir.square(wide), range(axis, x.rank), keepdims=True)
    normal = ir.cast(ir.div(wide, ir.sqrt(ir.add(square, epsilon))), x.dtype)
    return ir.mul(ir.cast(normal, scale.dtype), broadcast_onto(scale, x.shape, "scale", node, ir, CODE))
