"""Orderings: of all there is."""

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import rule


@rule("top_k")
def sort_all(op: Op, build: Builder) -> tuple[Value, ...] | None:
    """top_k(x, k) = sort(x), where a line has k elements"""
    (x,), axis = op.operands, op.int("axis")
    if op.dim("k") != x.shape[axis]:
        return None
    return build.sort(x, axis, descending=op.flag("largest"))
