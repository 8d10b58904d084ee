"""Clip: values brought into an interval."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.building.sizes import Operand
from onnxc.compiler.ir.module import Value


@operator("Clip", since=(1, 6))
def clip_by_attributes(node: Node, ir: Builder) -> Value:
    """input: T[...]  ->  T[...], min(max, max(input, min)) of the attributes `min` and `max`

    Source: https://onnx.ai/onnx/operators/onnx__Clip.html
    """
    low, high = (node.float(name) if node.has(name) else None for name in ("min", "max"))
    return _clipped(node.input("input"), low, high, ir)


@operator("Clip", since=(11, 12, 13))
def clip(node: Node, ir: Builder) -> Value:
    """input: T[...], min: T[], max: T[]  ->  T[...], min(max, max(input, min)); an absent bound is none

    Source: https://onnx.ai/onnx/operators/onnx__Clip.html
    """
    return _clipped(node.input("input"), _bound("min", node, ir), _bound("max", node, ir), ir)


def _bound(name: str, node: Node, ir: Builder) -> Value | None:
    bound = node.optional(name)
    if bound is None:
        return None
    if any(size != 1 for size in bound.shape):
        node.fail("bound-not-scalar", f"{name} is {bound.type}, not a scalar", rule=f"ONNX Clip, input {name}")
    return ir.reshape(bound, ())


def _clipped(x: Value, low: Operand | None, high: Operand | None, ir: Builder) -> Value:
    if low is not None:
        x = ir.max(x, low)
    return x if high is None else ir.min(x, high)
