"""What the attentions of com.microsoft add to their scores: masks in the forms that exporters write, biases, causality.

A key that a mask hides has a large number taken from its score, the attribute mask_filter_value, so that a row of
hidden keys alone weighs them as if none were hidden. What is after a query in causal attention is never seen.
"""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.broadcasting import broadcast_onto
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value

CODE = "attention-mask"
FILTER_VALUE = -10000.0
LOWEST = float(np.finfo(np.float32).min)


def score_bias(
    mask: Value | None, bias: Value | None, sizes: Sequence[Dim], past: Dim, node: Node, ir: Builder, *, causal: bool
) -> Value | None:
    """f32[B|1, N|1, S|1, T] to add to the scores [B, N, S, T] of `sizes`; None where nothing is added."""
    batch, _, queries, keys = sizes
    total: Value | None = None
    if mask is not None:
        hidden = ir.scalar(node.float("mask_filter_value", FILTER_VALUE), F32)
        total = ir.select(_visible(mask, batch, queries, keys, past, node, ir), ir.scalar(0, F32), hidden)
    if bias is not None:
        bias = _of_scores(bias, sizes, node, ir)
        total = bias if total is None else ir.add(total, bias)
    if causal:
        column = ir.iota((1, 1, 1, keys), 3, I64)
        row = ir.add(ir.iota((1, 1, queries, 1), 2, I64), ir.size(past))
        seen = ir.scalar(0, F32) if total is None else total
        total = ir.select(ir.less_equal(column, row), seen, ir.scalar(LOWEST, F32))
    return total


def _of_scores(bias: Value, sizes: Sequence[Dim], node: Node, ir: Builder) -> Value:
    """The bias in f32, with axes of size 1 where it is repeated"""
    if bias.rank != 4:
        node.fail(CODE, f"attention_bias is {bias.type}, not of 4 axes", rule=f"ONNX Runtime {node.operator}")
    target = [1 if size == 1 else wanted for size, wanted in zip(bias.shape, sizes, strict=True)]
    return ir.cast(broadcast_onto(bias, target, "attention_bias", node, ir, CODE), F32)


def _visible(mask: Value, batch: Dim, queries: Dim, keys: Dim, past: Dim, node: Node, ir: Builder) -> Value:
    """bool[B|1, 1, S|1, T]: which keys the mask shows"""
    if mask.rank == 1:
        return _within_bounds(mask, batch, keys, node, ir)
    if mask.rank == 2:
        return ir.unsqueeze(_is_positive(of_shape(mask, (batch, keys), "the mask", node, ir, CODE), ir), (1, 2))
    if mask.rank == 3:
        shown = of_shape(mask, (batch, queries, keys), "the mask", node, ir, CODE)
        return ir.unsqueeze(_is_positive(shown, ir), (1,))
    if mask.rank != 4:
        node.fail(CODE, f"the mask is {mask.type}, not of 1 to 4 axes", rule=f"ONNX Runtime {node.operator}")
    return _is_positive(ir.slice(mask, (0, 0, past, 0), (*mask.shape[:2], queries, keys)), ir)


def _is_positive(mask: Value, ir: Builder) -> Value:
    return ir.greater(mask, 0)


def _within_bounds(mask: Value, batch: Dim, keys: Dim, node: Node, ir: Builder) -> Value:
    """bool[B, 1, 1, T], from i32[B], the ends of the keys; i32[2 B], their ends and starts; or i32[3 B + 2]

    The last begins with the ends, and goes on with where each sequence begins if they lie without padding.
    """
    if mask.shape[0] not in (batch * 2, batch * 3 + 2):
        mask = of_shape(mask, (batch,), "the mask", node, ir, CODE)
    column = ir.iota((1, 1, 1, keys), 3, I64)

    def bound(start: Dim) -> Value:
        return ir.reshape(ir.cast(ir.slice(mask, (start,), (batch,)), I64), (batch, 1, 1, 1))

    shown = ir.less(column, bound(0))
    if mask.shape[0] != batch and mask.shape[0] == batch * 2:
        shown = ir.and_(shown, ir.less_equal(bound(batch), column))
    return shown
