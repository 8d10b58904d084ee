"""Rotary embeddings by position: the angles of each token are rows of two caches."""

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import at_least
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

CODE = "rotary-width"


def rotated(x: Value, cos: Value, sin: Value, positions: Value, node: Node, ir: Builder, *, interleaved: bool) -> Value:
    """x: T[B, N, S, D], caches: T[P, R/2], positions: i64[B | 1, S]  ->  as x, the first R features of D turned"""
    expect_cache(cos, node)
    sin = of_shape(sin, cos.shape, "sin_cache", node, ir, CODE)
    rows = [ir.gather(cache, ir.cast(positions, I64), 0) for cache in (cos, sin)]
    return turned_by(x, rows[0], rows[1], node, ir, interleaved=interleaved)


def turned_by(x: Value, cos: Value, sin: Value, node: Node, ir: Builder, *, interleaved: bool) -> Value:
    """x: T[B, N, S, D], cos, sin: T[B | 1, S, R/2]  ->  as x, the first R features of D turned by these angles"""
    turned, width = cos.shape[2] * 2, x.shape[3]
    if at_least(turned, width + 1):
        message = f"{turned} of {width} features cannot be turned"
        node.fail(CODE, message, rule=f"ONNX Runtime {node.operator}, cos_cache")
    if not at_least(width, turned):
        ir.guard(width, turned, "at_least", "the caches turn more features than a head has")
    shape = (*x.shape[:3], cos.shape[2])
    angles = [ir.broadcast_to(ir.cast(ir.unsqueeze(rows, (1,)), x.dtype), shape) for rows in (cos, sin)]
    part = ir.with_shape(ir.slice_axis(x, 3, 0, turned), (*x.shape[:3], turned))
    part = ir.rotary(part, angles[0], angles[1], interleaved)
    if turned == width:
        return part
    return ir.with_shape(ir.concatenate([part, ir.slice_axis(x, 3, turned, width - turned)], 3), x.shape)


def expect_cache(cos: Value, node: Node) -> None:
    """Raises ModelError unless the cache has the axes of positions and features."""
    if cos.rank != 2:
        node.fail(CODE, f"cos_cache is {cos.type}, not of 2 axes", rule=f"ONNX Runtime {node.operator}, cos_cache")
