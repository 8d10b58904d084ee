"""Squeeze and Unsqueeze: axes of size 1 removed and inserted."""

from onnxc.compiler.frontend.joining.squeezed_ones import may_be_one
from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.host_without_rank import moved_without_rank
from onnxc.compiler.frontend.operator_helpers.shape_inputs import (
    as_vector,
    known_integers,
    read_lengths,
    spread_over_axes,
    vector_length,
)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType

AXES_ARE_INPUT_SINCE = 13
# Before, axes are "a list of non-negative integers".
NEGATIVE_AXES_SINCE = 11


def _axes(node: Node, ir: Builder) -> Value | None:
    """The axes, which are an attribute or an input, as i64[n]; None where none are given."""
    if node.since < AXES_ARE_INPUT_SINCE:
        given = node.ints("axes") if node.has("axes") else ()
        if node.since < NEGATIVE_AXES_SINCE and min(given, default=0) < 0:
            message = f"axes {list(given)} has a negative one, which opset {NEGATIVE_AXES_SINCE} brought"
            node.fail("axis-out-of-range", message, rule=f"ONNX {node.operator}, attribute axes")
        return ir.sizes(given) if node.has("axes") else None
    axes = node.optional("axes")
    return None if axes is None else as_vector(axes, "axes", node, ir)


@operator("Squeeze", since=(1, 11, 13, 21, 23, 24, 25))
def squeeze(node: Node, ir: Builder) -> Value:
    """data: T[...], axes: i64[n]?  ->  T[...] without `axes`, whose sizes must be 1

    By default every axis of size 1 goes.
    Source: https://onnx.ai/onnx/operators/onnx__Squeeze.html
    """
    unranked = moved_without_rank("squeeze_any_rank", node, "data", "axes", ir)
    if unranked is not None:
        return unranked
    data, axes = node.input("data"), _axes(node, ir)
    if axes is None:
        return _squeeze_ones(data, ir)
    known = known_integers(axes, ir)
    if known is None:
        return _squeeze_by_data(data, axes, node, ir)
    dropped = node.axes_list(known, data.rank)
    for axis in dropped:
        if not may_be_one(data.shape[axis]):
            message = f"axis {axis} has size {data.shape[axis]}, not 1"
            node.fail("squeeze-size", message, rule="ONNX Squeeze, axes")
    return ir.squeeze(data, dropped)


def _squeeze_ones(data: Value, ir: Builder) -> Value:
    """Without the axes that are 1; a tensor of unknown rank where only data tells of one."""
    if any(size != 1 and may_be_one(size) for size in data.shape):
        return ir.host("squeeze_ones", (data,), (TensorType(data.dtype, None),), {})[0]
    return ir.squeeze(data, [axis for axis, size in enumerate(data.shape) if size == 1])


def _kept_first(axes: Value, rank: int, ir: Builder) -> Value:
    """i64[rank]: the axes that are not among `axes` in order, then those that are."""
    marked = spread_over_axes(ir.full(axes.shape, rank, I64), axes, [0] * rank, ir)
    (named,) = ir.read_sizes(ir.reduce(ir.cast(ir.less(0, marked), I64), "sum", (0,)), "axes")
    ir.guard(named, vector_length(axes), "equal", f"the axes repeat, or are outside [{-rank}, {rank - 1}]")
    order, _ = ir.sort(ir.add(marked, ir.iota((rank,), 0, I64)), 0)
    return ir.rem(order, rank)


def _squeeze_by_data(data: Value, axes: Value, node: Node, ir: Builder) -> Value:
    """Which axes go is only known at run time, how many is known now."""
    count = data.rank - vector_length(axes)
    if count < 0:
        message = f"{vector_length(axes)} axes of {data.rank} are named"
        node.fail("axis-out-of-range", message, rule="ONNX Squeeze, axes")
    kept = ir.slice(_kept_first(axes, data.rank, ir), (0,), (count,))
    return ir.reshape(data, read_lengths(ir.gather(ir.sizes(data.shape), kept, 0), "shape", node, ir))


@operator("Unsqueeze", since=(1, 11, 13, 21, 23, 24, 25))
def unsqueeze(node: Node, ir: Builder) -> Value:
    """data: T[...], axes: i64[n]  ->  T[...] with axes of size 1 inserted, which are `axes` of the result.

    Source: https://onnx.ai/onnx/operators/onnx__Unsqueeze.html
    """
    unranked = moved_without_rank("unsqueeze_any_rank", node, "data", "axes", ir)
    if unranked is not None:
        return unranked
    data, axes = node.input("data"), _axes(node, ir)
    if axes is None:
        node.fail("missing-attribute", "attribute axes is required and absent", rule="ONNX Unsqueeze, axes")
    known = known_integers(axes, ir)
    if known is None:
        return _unsqueeze_by_data(data, axes, node, ir)
    return ir.unsqueeze(data, node.axes_list(known, data.rank + len(known)))


def _unsqueeze_by_data(data: Value, axes: Value, node: Node, ir: Builder) -> Value:
    """Where the axes come is only known at run time, how many is known now."""
    rank = data.rank + vector_length(axes)
    targets = ir.slice(_kept_first(axes, rank, ir), (0,), (data.rank,))
    shape = spread_over_axes(ir.sizes(data.shape), targets, [1] * rank, ir)
    return ir.reshape(data, read_lengths(shape, "shape", node, ir))
