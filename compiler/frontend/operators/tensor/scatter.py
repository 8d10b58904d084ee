"""Scatter, ScatterElements, ScatterND and TensorScatter: elements and slices replaced at given indices.

Where an element is named twice, updates apply in row-major order: the last one stays.
"""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.host_without_rank import indexed_without_rank
from onnxc.compiler.frontend.operator_helpers.shape_inputs import known_integers, of_shape
from onnxc.compiler.frontend.operators.tensor.gather import (
    expect_coordinates_in_range,
    expect_indexed,
    expect_same_rank,
    expect_within,
    index_depth,
    wrap_coordinates,
)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value

# attribute reduction: kind of the primitive, first version that has it
REDUCTIONS = {"none": ("set", 1), "add": ("add", 16), "mul": ("mul", 16), "max": ("max", 18), "min": ("min", 18)}


def _kind(node: Node) -> str:
    names = [name for name, (_, since) in REDUCTIONS.items() if node.since >= since]
    return REDUCTIONS[node.choice("reduction", names, "none", elsewhere=tuple(REDUCTIONS))][0]


@operator("Scatter", since=(9, 11))
@operator("ScatterElements", since=(11, 13, 16, 18))
def scatter_elements(node: Node, ir: Builder) -> Value:
    """data: T[d0 ... dr-1], indices: I[i0 ... ir-1], updates: T[i0 ... ir-1]  ->  T[d0 ... dr-1]

    Each index replaces the element's own along `axis`.
    Source: https://onnx.ai/onnx/operators/onnx__ScatterElements.html
    """
    data, indices, updates = node.inputs("data", "indices", "updates")
    expect_same_rank(data, indices, "indices", node)
    axis = node.axis("axis", rank=data.rank)
    expect_within(data, indices, axis, node, ir)
    updates = _of_written_shape(updates, indices.shape, node, ir)
    return ir.scatter_along(data, ir.wrap_negative(indices, data.shape[axis]), updates, axis, _kind(node))


@operator("ScatterND", since=(11, 13, 16, 18))
def scatter_nd(node: Node, ir: Builder) -> Value:
    """data: T[d...], indices: i64[i..., k], updates: T[i..., d after the first k]  ->  T[d...]

    Source: https://onnx.ai/onnx/operators/onnx__ScatterND.html
    """
    unranked = indexed_without_rank("scatter_nd_any_rank", node, ir, kind=_kind(node))
    if unranked is not None:
        return unranked
    data, indices, updates = node.inputs("data", "indices", "updates")
    expect_indexed(data, indices, node)
    if not isinstance(indices.shape[-1], int):
        named = indices.rank - 1 + data.rank - updates.rank
        indices = of_shape(indices, (*indices.shape[:-1], named), "indices", node, ir, "scatter-updates")
    depth = index_depth(data, indices, 0, 0, node)
    updates = _of_written_shape(updates, indices.shape[:-1] + data.shape[depth:], node, ir)
    expect_coordinates_in_range(indices, data.shape[:depth], node, ir)
    return ir.scatter_nd(data, wrap_coordinates(indices, data.shape[:depth], ir), updates, _kind(node))


def _of_written_shape(updates: Value, shape: tuple[Dim, ...], node: Node, ir: Builder) -> Value:
    """The updates, whose shape is written as indices and data have it, even where their own sizes are integers."""
    return ir.with_shape(of_shape(updates, shape, "updates", node, ir, "scatter-updates"), shape)


@operator("TensorScatter", since=(24,))
def tensor_scatter(node: Node, ir: Builder) -> Value:
    """past_cache: T[B, ..., S, ...], update: T[B, ..., s, ...], write_indices: i64[B]?  ->  T[B, ..., S, ...]

    `axis` is that of S and s. The update of each batch element is written from its index on, in mode circular around
    the end.
    Source: https://onnx.ai/onnx/operators/onnx__TensorScatter.html
    """
    cache, update = node.inputs("past_cache", "update")
    axis = node.axis("axis", rank=cache.rank)
    if axis == 0:
        node.fail("tensor-scatter-axis", "axis names the batch axis", rule="ONNX TensorScatter, attribute axis")
    if cache.rank != update.rank:
        message = f"past_cache has rank {cache.rank}, update has rank {update.rank}"
        node.fail("tensor-scatter-update", message, rule="ONNX TensorScatter, update")
    length, count = cache.shape[axis], update.shape[axis]
    if at_least(count, length + 1):
        message = f"the update has {count} entries, the cache {length}"
        node.fail("tensor-scatter-update", message, rule="ONNX TensorScatter, update")
    shape = (*cache.shape[:axis], count, *cache.shape[axis + 1 :])
    update = of_shape(update, shape, "update", node, ir, "tensor-scatter-update")
    indices = _written_indices(update, axis, node, ir)
    mode = node.choice("mode", ("linear", "circular"))
    _expect_room(length - count if mode == "linear" else None, node, ir)
    if mode == "circular":
        indices = ir.rem(indices, ir.size(length))
    elif not at_least(length, count):
        ir.guard(length, count, "at_least", f"the update of {count} entries is longer than the cache of {length}")
    return ir.scatter_along(cache, indices, update, axis, "set")


def _expect_room(last: Dim | None, node: Node, ir: Builder) -> None:
    """ModelError where a known index is negative, or beyond the `last` at which the update still fits."""
    starts = node.optional("write_indices")
    known = None if starts is None else known_integers(starts, ir)
    for start in known or ():
        if start < 0 or (last is not None and at_least(start, last + 1)):
            message = f"write_indices has {start}, outside [0, {'...' if last is None else last}]"
            node.fail("tensor-scatter-indices", message, rule="ONNX TensorScatter, write_indices")


def _written_indices(update: Value, axis: int, node: Node, ir: Builder) -> Value:
    """i64, shaped as `update`: the index along `axis` of each of its elements."""
    indices = ir.iota(update.shape, axis, I64)
    starts = node.optional("write_indices")
    if starts is None:
        return indices
    starts = ir.cast(of_shape(starts, update.shape[:1], "write_indices", node, ir, "tensor-scatter-indices"), I64)
    return ir.add(indices, ir.broadcast(starts, (0,), update.shape))
