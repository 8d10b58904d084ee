"""Scores of queries and keys, where each of them is multiplied by the root of the scale before they meet."""

from math import sqrt

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import F64
from onnxc.compiler.ir.module import Value


def scaled_scores(q: Value, k: Value, node: Node, ir: Builder) -> Value:
    """Q: T[B, H, S, D], K: T[B, G, T, D]  ->  scale Q K': T[B, H, S, T]; head h reads group h // (H / G)

    The scale is the attribute of that name, by default 1 / sqrt(D).
    """
    (batch, heads, queries, width), (_, groups, keys, _) = q.shape, k.shape
    root = ir.cast(_root_of_scale(width, node, ir), q.dtype)
    signed = ir.neg(root) if node.float("scale", 1.0) < 0 else root
    grouped = ir.reshape(ir.mul(q, root), (batch, groups, floordiv(heads, groups), queries, width))
    return ir.reshape(ir.dot(grouped, ir.mul(k, signed), "bghsd,bgtd->bghst"), (batch, heads, queries, keys))


def _root_of_scale(width: Dim, node: Node, ir: Builder) -> Value:
    """The square root of the magnitude of the scale."""
    if node.has("scale"):
        return ir.scalar(sqrt(abs(node.float("scale"))), F64)
    return ir.pow(ir.cast(ir.size(width), F64), -0.25)
