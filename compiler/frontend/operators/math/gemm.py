"""Gemm: alpha * A' * B' + beta * C."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.broadcasting import broadcast_onto
from onnxc.compiler.frontend.operator_helpers.precision import real_type, wide_type
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value


@operator("Gemm", since=(1, 6, 7, 9, 11, 13))
def gemm(node: Node, ir: Builder) -> Value:
    """A: T[M, K], B: T[K, N], either transposed, C: T broadcast to [M, N]  ->  T[M, N]

    16-bit floats are computed in f32 and rounded once. Where beta is 0, C is not read.
    Source: https://onnx.ai/onnx/operators/onnx__Gemm.html
    """
    a, b = node.inputs("A", "B")
    if (a.rank, b.rank) != (2, 2):
        node.fail("gemm-rank", f"the ranks of A and B are {a.rank} and {b.rank}, not 2", rule="ONNX Gemm")
    left = "km" if node.flag("transA") else "mk"
    right = "nk" if node.flag("transB") else "kn"
    result = ir.dot(a, b, f"{left},{right}->mn", wide_type(a.dtype))
    result = _scaled(result, node.float("alpha"), ir)
    addend = node.optional("C")
    if addend is not None:
        addend = _broadcast(addend, result.shape, node, ir)
    if addend is not None and node.float("beta") != 0:
        result = ir.add(result, _scaled(ir.cast(addend, result.dtype), node.float("beta"), ir))
    return ir.cast(result, a.dtype)


def _scaled(x: Value, factor: float, ir: Builder) -> Value:
    """x * factor; integers through floats where the factor is a fraction."""
    if factor == 1:
        return x
    if x.dtype.is_float or factor.is_integer():
        return ir.mul(x, factor if x.dtype.is_float else int(factor))
    return ir.cast(ir.mul(ir.cast(x, real_type(x.dtype)), factor), x.dtype)


def _broadcast(addend: Value, shape: tuple[Dim, ...], node: Node, ir: Builder) -> Value:
    """C at the shape of the product; before opset 7 only where `broadcast` says so."""
    if node.since < 7 and not node.flag("broadcast") and addend.rank != len(shape):
        node.fail("gemm-bias", f"C has rank {addend.rank}, and broadcast is 0", rule="ONNX Gemm, broadcast")
    return broadcast_onto(addend, shape, "C", node, ir, "gemm-bias")
