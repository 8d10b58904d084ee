"""MaxPool, AveragePool and LpPool: a fold of each window over the spatial axes.

X: T[N, C, *S]  ->  Y: T[N, C, *O]

A window beyond the padded image has no position: the formula of the standard gives O = 0 where it is at most a stride
too large, and an O below 0, which is an error, where it is larger. ONNX Runtime does the same.

Source: https://onnx.ai/onnx/operators/
"""

from collections.abc import Sequence
from math import prod

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.precision import in_wide, widened
from onnxc.compiler.frontend.operator_helpers.sliding_window import SlidingWindow, kernel_of, sliding_window
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value


@operator("MaxPool", since=(1, 8, 10, 11, 12, 22))
def max_pool(node: Node, ir: Builder) -> tuple[Value, ...]:
    """X: T[N, C, *S]  ->  Y: T[N, C, *O], Indices: i64[N, C, *O], indices in X as if it were flat

    Source: https://onnx.ai/onnx/operators/onnx__MaxPool.html
    """
    x = node.input("X")
    kernel = kernel_of(node, x.rank)
    window = sliding_window(node, ir, x.shape[2:], kernel)
    if node.int("storage_order", 0) not in (0, 1):
        message = f"storage_order is {node.int('storage_order')}, not 0 or 1"
        node.fail("attribute-range", message, rule="ONNX MaxPool, attribute storage_order")
    largest = _fold(x, "max", kernel, window, ir)
    if not node.wants(1):
        return (largest,)
    index = _fold(x, "max", kernel, window, ir, arg=True)
    return largest, _flat_indices(index, x.shape, ir, column_major=node.flag("storage_order", False))


def _flat_indices(index: Value, shape: Sequence[Dim], ir: Builder, *, column_major: bool) -> Value:
    """Indices in row-major order within the spatial axes, as indices in the whole tensor."""
    spatial = shape[2:]
    if column_major:
        index = _in_column_major_order(index, spatial, ir)
    channel = ir.add(
        ir.mul(ir.iota(index.shape, 0, I64), ir.size(shape[1])),
        ir.iota(index.shape, 1, I64),
    )
    return ir.add(ir.mul(channel, ir.size(product(spatial))), index)


def _in_column_major_order(index: Value, spatial: Sequence[Dim], ir: Builder) -> Value:
    """Row-major indices as those of an order in which the first axis is the innermost."""
    total = ir.full(index.shape, 0, I64)
    for axis in reversed(range(len(spatial))):
        coordinate = ir.rem(index, ir.size(spatial[axis])) if axis else index
        index = ir.div(index, ir.size(spatial[axis]))
        total = ir.add(total, ir.mul(coordinate, ir.size(product(spatial[:axis]))))
    return total


@operator("AveragePool", since=(1, 7, 10, 11, 19, 22))
def average_pool(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S]  ->  T[N, C, *O]: the sum of each window divided by its elements, padding counted or not

    Source: https://onnx.ai/onnx/operators/onnx__AveragePool.html
    """
    x = node.input("X")
    kernel = kernel_of(node, x.rank)
    window = sliding_window(node, ir, x.shape[2:], kernel)
    wide = widened(x, ir)
    total = _fold(wide, "sum", kernel, window, ir)
    count = _window_counts(wide, kernel, window, ir, padding_counts=node.flag("count_include_pad", False))
    return ir.cast(ir.div(total, count), x.dtype)


def _window_counts(
    x: Value, kernel: Sequence[int], window: SlidingWindow, ir: Builder, *, padding_counts: bool
) -> Value:
    """How many elements each window has: one scalar where they all have all, else [1, 1, *O]."""
    given = [low + high for low, high in zip(window.low, window.given_high, strict=True)]
    beyond = tuple(maximum(0, reached - high) for reached, high in zip(window.high, window.given_high, strict=True))
    partial = beyond if padding_counts else window.low + window.high
    if set(partial) <= {0}:
        return ir.scalar(prod(kernel), x.dtype)
    if not padding_counts:
        return _fold(ir.full((1, 1, *x.shape[2:]), 1, x.dtype), "sum", kernel, window, ir)
    sizes = [size + more for size, more in zip(x.shape[2:], given, strict=True)]
    none = (0,) * len(kernel)
    padded = SlidingWindow(window.kernel, window.strides, window.dilations, none, beyond, beyond, window.positions)
    return _fold(ir.full((1, 1, *sizes), 1, x.dtype), "sum", kernel, padded, ir)


@operator("LpPool", since=(1, 2, 11, 18, 22))
def lp_pool(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S]  ->  T[N, C, *O]: the p-th root of the sum of |x|^p in each window

    Source: https://onnx.ai/onnx/operators/onnx__LpPool.html
    """
    x = node.input("X")
    kernel = kernel_of(node, x.rank)
    window = sliding_window(node, ir, x.shape[2:], kernel)
    p = _order(node)
    return in_wide(lambda wide: root(_fold(power(wide, p, ir), "sum", kernel, window, ir), p, ir), x, ir)


@operator("GlobalMaxPool", since=(1, 22))
def global_max_pool(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S]  ->  T[N, C, 1, ...]

    Source: https://onnx.ai/onnx/operators/onnx__GlobalMaxPool.html
    """
    x = node.input("X")
    return ir.reduce(x, "max", _spatial(x, node), keepdims=True)


@operator("GlobalAveragePool", since=(1, 22))
def global_average_pool(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S]  ->  T[N, C, 1, ...]

    Source: https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html
    """
    x = node.input("X")
    return in_wide(lambda wide: ir.mean(wide, _spatial(x, node), keepdims=True), x, ir)


@operator("GlobalLpPool", since=(1, 2, 22))
def global_lp_pool(node: Node, ir: Builder) -> Value:
    """X: T[N, C, *S]  ->  T[N, C, 1, ...]

    Source: https://onnx.ai/onnx/operators/onnx__GlobalLpPool.html
    """
    x = node.input("X")
    p, axes = _order(node), _spatial(x, node)
    return in_wide(lambda wide: root(ir.reduce(power(wide, p, ir), "sum", axes, keepdims=True), p, ir), x, ir)


def _order(node: Node) -> float:
    """The attribute `p`, above 0: of other orders there is no norm."""
    p = node.float("p")
    if not p > 0:
        node.fail("lp-order", f"p is {p:g}, not above 0", rule=f"ONNX {node.operator}, attribute p")
    return p


def power(x: Value, p: float, ir: Builder) -> Value:
    """|x|^p"""
    if p == 2:
        return ir.square(x)
    return ir.abs(x) if p == 1 else ir.pow(ir.abs(x), p)


def root(x: Value, p: float, ir: Builder) -> Value:
    """x^(1/p)"""
    if p == 2:
        return ir.sqrt(x)
    return x if p == 1 else ir.pow(x, 1 / p)


def _spatial(x: Value, node: Node) -> range:
    if x.rank < 3:
        node.fail("pool-rank", f"X has {x.rank} axes, no spatial ones", rule=f"ONNX {node.operator}")
    return range(2, x.rank)


def _fold(
    x: Value, kind: str, kernel: Sequence[int], window: SlidingWindow, ir: Builder, *, arg: bool = False
) -> Value:
    return ir.reduce_window(
        x,
        kind,
        window=(1, 1, *kernel),
        strides=(1, 1, *window.strides),
        low=(0, 0, *window.low),
        high=(0, 0, *window.high),
        dilations=(1, 1, *window.dilations),
        arg=arg,
    )
