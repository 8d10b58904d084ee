"""Expand and Tile: a tensor repeated along its axes."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.host_without_rank import moved_without_rank
from onnxc.compiler.frontend.operator_helpers.shape_inputs import (
    as_scalar,
    as_vector,
    known_integers,
    read_lengths,
    vector_input,
)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value


@operator("Expand", since=(8, 13))
def expand(node: Node, ir: Builder) -> Value:
    """input: T[d...], shape: i64[n]  ->  T[broadcast of d and shape]

    Source: https://onnx.ai/onnx/operators/onnx__Expand.html
    """
    unranked = moved_without_rank("expand_any_rank", node, "input", "shape", ir)
    if unranked is not None:
        return unranked
    x = node.input("input")
    shape = read_lengths(vector_input("shape", node, ir), "shape", node, ir)
    return ir.broadcast_to(x, ir.broadcast_shape(x.shape, shape, code="expand-incompatible"))


@operator("Tile", since=(1,))
def tile_one_axis(node: Node, ir: Builder) -> Value:
    """input: T[... d ...], tiles: T[], axis: T[]  ->  T[... tiles * d ...]

    Source: https://onnx.ai/onnx/operators/onnx__Tile.html
    """
    x = node.input("input")
    tiles, axis = (ir.cast(as_scalar(node.input(name), name, node, ir), I64) for name in ("tiles", "axis"))
    axes = ir.iota((x.rank,), 0, I64)
    node.axes_list(known_integers(axis, ir) or (), x.rank, "axis")
    return _tile(x, ir.select(ir.equal(axes, axis), tiles, 1), node, ir)


@operator("Tile", since=(6, 13))
def tile(node: Node, ir: Builder) -> Value:
    """input: T[d...], repeats: i64[r]  ->  T[repeats * d ...]

    Source: https://onnx.ai/onnx/operators/onnx__Tile.html
    """
    return _tile(node.input("input"), node.input("repeats"), node, ir)


def _repeats(value: Value, count: int, node: Node, ir: Builder) -> tuple[Dim, ...]:
    """One integer for each axis."""
    vector = as_vector(value, "repeats", node, ir, count, "tile-repeats")
    return read_lengths(vector, "repeats", node, ir)


def _tile(x: Value, repeats: Value, node: Node, ir: Builder) -> Value:
    axes: list[int] = []
    spread: list[Dim] = []
    shape: list[Dim] = []
    for size, count in zip(x.shape, _repeats(repeats, x.rank, node, ir), strict=True):
        spread += [size] if count == 1 else [count, size]
        axes.append(len(spread) - 1)
        shape.append(size * count)
    return ir.reshape(ir.broadcast(x, axes, spread), shape)
