"""Scatters at constant indices: each element of the result is known to be one of the data or one of the updates."""

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.makers import constant_of
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.rewriter import rule


@rule("scatter_nd")
def scatter_at_constants(op: Op, build: Builder) -> Value | None:
    """scatter_nd(x, [[a], [a + 1], ...], u) = concatenate(x before a, u, x behind), else select(hit, gather(u), x)

    For indices of the first axis, all of them inside. Not of a parameter, which may be written where it lies.
    """
    data, indices, updates = op.operands
    array, size = constant_of(indices), data.shape[0]
    if op.text("kind") != "set" or array is None or data.op is None or not isinstance(size, int):
        return None
    if array.ndim != 2 or array.shape[1] != 1 or not array.size or not 0 <= array.min() <= array.max() < size:
        return None
    rows = array[:, 0]
    start, count = int(rows[0]), rows.size
    if np.array_equal(rows, np.arange(start, start + count)):
        behind = start + count
        parts = [
            *([build.slice_axis(data, 0, 0, start)] if start else []),
            updates,
            *([build.slice_axis(data, 0, behind, size - behind)] if behind < size else []),
        ]
        return build.with_shape(build.concatenate(parts, 0) if len(parts) > 1 else updates, op.result.shape)
    # Of updates of one row the last one stays.
    last = np.full(size, -1, np.int64)
    last[rows] = np.arange(count)
    picked = build.gather(updates, build.constant(np.maximum(last, 0)), 0)
    if last.min() >= 0:
        return build.with_shape(picked, op.result.shape)
    hit = build.broadcast(build.constant(last >= 0), (0,), data.shape)
    return build.select(hit, build.with_shape(picked, data.shape), data)
