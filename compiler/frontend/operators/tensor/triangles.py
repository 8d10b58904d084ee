"""Trilu and EyeLike: what is above, below or on a diagonal of a matrix."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar, zero
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value


@operator("Trilu", since=(14,))
def trilu(node: Node, ir: Builder) -> Value:
    """input: T[..., n, m], k: i64[]?  ->  T[..., n, m], 0 below diagonal k, or above it without `upper`.

    Source: https://onnx.ai/onnx/operators/onnx__Trilu.html
    """
    x, k = node.input("input"), node.optional("k")
    if x.rank < 2:
        node.fail("trilu-rank", f"input has rank {x.rank}, not 2 or more", rule="ONNX Trilu, input")
    diagonal = ir.scalar(0, I64) if k is None else as_scalar(k, "k", node, ir)
    rows, columns = (ir.iota(x.shape[-2:], axis, I64) for axis in (0, 1))
    distance = ir.sub(columns, rows)
    kept = ir.less_equal(diagonal, distance) if node.flag("upper") else ir.less_equal(distance, diagonal)
    return ir.select(kept, x, zero(x.dtype, ir))


@operator("EyeLike", since=(9, 22))
def eye_like(node: Node, ir: Builder) -> Value:
    """input: T1[n, m]  ->  T2[n, m], T2 = `dtype` or T1: 1 on diagonal `k`, else 0.

    Source: https://onnx.ai/onnx/operators/onnx__EyeLike.html
    """
    x = node.input("input")
    if x.rank != 2:
        node.fail("eye-rank", f"input has rank {x.rank}, not 2", rule="ONNX EyeLike, input")
    dtype = node.dtype("dtype") if node.has("dtype") else x.dtype
    rows, columns = (ir.iota(x.shape, axis, I64) for axis in (0, 1))
    # Where the diagonal meets a row is one number for it; sums that wrap are below 0, and no column.
    return ir.cast(ir.equal(columns, ir.add(rows, node.int("k"))), dtype)
