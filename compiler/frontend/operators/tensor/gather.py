"""Gather, GatherElements and GatherND: elements and slices picked by index."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.host_without_rank import indexed_without_rank
from onnxc.compiler.frontend.operator_helpers.shape_inputs import known_integers
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value


@operator("Gather", since=(1, 11, 13))
def gather(node: Node, ir: Builder) -> Value:
    """data: T[d0 ... dr-1], indices: I[i0 ... iq-1]  ->  T[d0 ... da-1, i0 ... iq-1, da+1 ... dr-1], a = axis.

    Source: https://onnx.ai/onnx/operators/onnx__Gather.html
    """
    data, indices = node.inputs("data", "indices")
    axis = node.axis("axis", rank=data.rank)
    expect_in_range(indices, data.shape[axis], node, ir)
    return ir.gather(data, ir.wrap_negative(indices, data.shape[axis]), axis)


def expect_in_range(indices: Value, size: Dim, node: Node, ir: Builder) -> None:
    """ModelError where an index is certainly outside an axis of `size`; what data decides is checked by the call."""
    known = known_integers(indices, ir)
    if known is None:
        array = ir.known_array(indices)
        known = () if array is None or not array.size else (int(array.min()), int(array.max()))
    for index in known:
        if at_least(index, size) or at_least(-index, size + 1):
            node.fail("index-out-of-range", f"index {index} of an axis of size {size}", rule=f"ONNX {node.operator}")


@operator("GatherElements", since=(11, 13))
def gather_elements(node: Node, ir: Builder) -> Value:
    """data: T[d0 ... dr-1], indices: I[i0 ... ir-1]  ->  T[i0 ... ir-1], each index replacing its own along `axis`.

    Source: https://onnx.ai/onnx/operators/onnx__GatherElements.html
    """
    data, indices = node.inputs("data", "indices")
    expect_same_rank(data, indices, "indices", node)
    axis = node.axis("axis", rank=data.rank)
    expect_within(data, indices, axis, node, ir)
    return ir.gather_along(data, ir.wrap_negative(indices, data.shape[axis]), axis)


def expect_same_rank(data: Value, other: Value, name: str, node: Node) -> None:
    """ModelError where the operand `name` does not have the rank of `data`, at least 1."""
    if data.rank != other.rank or not data.rank:
        message = f"data has rank {data.rank}, {name} has rank {other.rank}"
        node.fail("gather-rank", message, rule=f"ONNX {node.operator}, {name}")


def expect_within(data: Value, indices: Value, axis: int, node: Node, ir: Builder) -> None:
    """`indices` may not be larger than `data` but along `axis`: their own indices count too."""
    for checked, (size, count) in enumerate(zip(data.shape, indices.shape, strict=True)):
        message = f"axis {checked} of indices is larger than that of data: {count} and {size}"
        if checked != axis and at_least(count, size + 1):
            node.fail("gather-sizes", message, rule=f"ONNX {node.operator}, indices")
        if checked != axis and not at_least(size, count):
            ir.guard(size, count, "at_least", message)
    expect_in_range(indices, data.shape[axis], node, ir)


@operator("GatherND", since=(11, 12, 13))
def gather_nd(node: Node, ir: Builder) -> Value:
    """data: T[b..., d...], indices: i64[b..., i..., k]  ->  T[b..., i..., d after the first k], `batch_dims` axes b

    Source: https://onnx.ai/onnx/operators/onnx__GatherND.html
    """
    batch = node.int("batch_dims", 0)
    unranked = indexed_without_rank("gather_nd_any_rank", node, ir, batch_dims=batch) if batch >= 0 else None
    if unranked is not None:
        return unranked
    data, indices = node.inputs("data", "indices")
    expect_indexed(data, indices, node)
    if not 0 <= batch < min(data.rank, indices.rank):
        message = f"batch_dims is {batch}, the ranks are {data.rank} and {indices.rank}"
        node.fail("batch-dims", message, rule="ONNX GatherND, attribute batch_dims")
    depth = index_depth(data, indices, batch, 1, node)
    shape = [
        ir.require_equal(size, count, f"batch axis {axis} of data and indices differs", "batch-dims")
        for axis, (size, count) in enumerate(zip(data.shape[:batch], indices.shape[:batch], strict=True))
    ]
    data = ir.with_shape(data, (*shape, *data.shape[batch:]))
    indices = ir.with_shape(indices, (*shape, *indices.shape[batch:]))
    expect_coordinates_in_range(indices, data.shape[batch : batch + depth], node, ir)
    return ir.gather_nd(data, wrap_coordinates(indices, data.shape[batch : batch + depth], ir), batch)


def expect_indexed(data: Value, indices: Value, node: Node) -> None:
    """ModelError unless both operands have an axis."""
    if not data.rank or not indices.rank:
        message = f"data has rank {data.rank} and indices {indices.rank}, both at least 1"
        node.fail("gather-rank", message, rule=f"ONNX {node.operator}, indices")


def expect_coordinates_in_range(indices: Value, sizes: Sequence[Dim], node: Node, ir: Builder) -> None:
    """ModelError where a constant coordinate is certainly outside its axis."""
    rows = ir.known_array(indices)
    if rows is None or not rows.size:
        return
    for axis, size in enumerate(sizes):
        for index in (int(rows[..., axis].min()), int(rows[..., axis].max())):
            if at_least(index, size) or at_least(-index, size + 1):
                message = f"coordinate {axis} of an index is {index}, of an axis of size {size}"
                node.fail("index-out-of-range", message, rule=f"ONNX {node.operator}, indices")


def index_depth(data: Value, indices: Value, batch: int, least: int, node: Node) -> int:
    """How many axes a row of `indices` names, at least `least`."""
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        node.split_by_size(indices, -1, "the last size of indices is only known at run time")
    if not least <= depth <= data.rank - batch:
        message = f"an index has {depth} coordinates, data has {data.rank - batch} axes to index"
        node.fail("index-depth", message, rule=f"ONNX {node.operator}, indices")
    return depth


def wrap_coordinates(indices: Value, sizes: Sequence[Dim], ir: Builder) -> Value:
    """i64 rows of coordinates, in which negative ones count from the end of their axis."""
    wide = ir.cast(indices, I64)
    return ir.select(ir.less(wide, 0), ir.add(wide, ir.sizes(tuple(sizes))), wide)
