"""Scan as it was in opset 8: the first axis is a batch, each element of which is scanned for itself."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.loops import while_loop
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, zero
from onnxc.compiler.frontend.operators.control.control_flow import (
    expect_declared_shapes,
    scan_operands,
    with_kept_shapes,
)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

RULE = "ONNX Scan-8"


@record
class _Batch:
    """The operands: states [B, ...], scanned tensors [B, L, ...], lengths i64[B] or None."""

    states: Sequence[Value]
    scanned: Sequence[Value]
    directions: Sequence[int]
    length: Dim
    lengths: Value | None


@operator("Scan", since=(8,))
def scan_in_batches(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """sequence_lens: i64[B]?, states: [B, ...]..., scanned: [B, L, ...]...  ->  states..., scanned outputs [B, L, ...]

    body(states..., elements...) -> states..., scanned elements... Beyond the end of a sequence its states stay, and its
    outputs are 0.
    Source: https://onnx.ai/onnx/operators/onnx__Scan.html
    """
    batch = _read(node, ir)
    size = batch.scanned[0].shape[0]

    def build(nested: Builder, index: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        return nested.constant(np.array(True)), *_scan_one(batch, index, node, nested)

    return while_loop(node, ir, ir.size(size), ir.constant(np.array(True)), (), build)


def _read(node: Node, ir: Builder) -> _Batch:
    count = node.int("num_scan_inputs")
    tensors = scan_operands(node.operands[1:], count, 2, node)
    states, scanned = tensors[: len(tensors) - count], tensors[len(tensors) - count :]
    for value in scanned:
        if value.rank < 2:
            node.fail("scan-inputs", f"a scanned input is {value.type}, without batch and sequence axes", rule=RULE)
    size, length = scanned[0].shape[:2]
    for value in (*states, *scanned[1:]):
        ir.require_equal(size, value.shape[0] if value.rank else 1, "the batches differ", "scan-length")
    for value in scanned[1:]:
        length = ir.require_equal(length, value.shape[1], "the scanned inputs differ in length", "scan-length")
    directions = node.ints("directions", [0] * count)
    if len(directions) != count:
        message = f"directions has {len(directions)} entries for {count} scanned inputs"
        node.fail("attribute-length", message, rule=f"{RULE}, attribute directions")
    lengths = node.optional("sequence_lens")
    if lengths is not None:
        lengths = ir.cast(of_shape(lengths, (size,), "sequence_lens", node, ir, "scan-lengths"), I64)
    return _Batch(states, scanned, directions, length, lengths)


def _scan_one(batch: _Batch, index: Value, node: Node, ir: Builder) -> tuple[Value, ...]:
    """The last states and the scanned outputs [L, ...] of one element of the batch."""
    states = [ir.gather(state, index, 0) for state in batch.states]
    scanned = [ir.gather(value, index, 0) for value in batch.scanned]
    own = None if batch.lengths is None else ir.gather(batch.lengths, index, 0)
    count = ir.size(batch.length) if own is None else own

    def build(nested: Builder, step: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        last = nested.sub(nested.sub(count, 1), step)
        backwards = nested.max(last, 0)
        steps = [backwards if direction else step for direction in batch.directions]
        elements = [nested.gather(value, at, 0) for value, at in zip(scanned, steps, strict=True)]
        expect_declared_shapes(node.graph("body"), (*carried, *elements), node)
        results = node.lower_subgraph(node.graph("body"), (*carried, *elements), nested, (index, step))
        results = with_kept_shapes(carried, results, node, nested)
        if own is not None:
            runs = nested.less(step, own)
            after = [nested.select(runs, new, old) for new, old in zip(results, carried, strict=False)]
            results = (*after, *(nested.select(runs, x, zero(x.dtype, nested)) for x in results[len(carried) :]))
        return nested.constant(np.array(True)), *results

    return while_loop(node, ir, ir.size(batch.length), ir.constant(np.array(True)), states, build)
