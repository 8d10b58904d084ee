"""Reshape and Flatten: the same elements in row-major order under another shape."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.host_without_rank import moved_without_rank
from onnxc.compiler.frontend.operator_helpers.shape_inputs import (
    read_lengths,
    vector_input,
    vector_length,
)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import BOOL
from onnxc.compiler.ir.known_elements import partly_known
from onnxc.compiler.ir.module import Value

RULE = "ONNX Reshape, shape"
# Flatten: "must be in the range [0, R]" before.
NEGATIVE_AXIS_SINCE = 11


@operator("Reshape", since=(1,))
def reshape_1(node: Node, ir: Builder) -> Value:
    """data: T[...]  ->  T[*shape], shape an attribute in which 0 copies a size and -1 stands for the rest.

    Source: https://onnx.ai/onnx/operators/onnx__Reshape.html
    """
    data = node.input("data")
    return ir.reshape(data, _resolved(data.shape, node.ints("shape", ()), False, node))


@operator("Reshape", since=(5, 13, 14, 19, 21, 23, 24, 25))
def reshape(node: Node, ir: Builder) -> Value:
    """data: T[...], shape: i64[r]  ->  T[*shape]; 0 copies a size unless `allowzero`, -1 stands for the rest.

    Source: https://onnx.ai/onnx/operators/onnx__Reshape.html
    """
    allow_zero = node.flag("allowzero", False)
    unranked = moved_without_rank("reshape_any_rank", node, "data", "shape", ir, allow_zero=allow_zero)
    if unranked is not None:
        return unranked
    data, shape = node.input("data"), vector_input("shape", node, ir)
    known = ir.known(shape)
    if known is not None:
        return ir.reshape(data, _resolved(data.shape, known, allow_zero, node))
    resolved = _resolved_by_data(data.shape, shape, allow_zero, ir)
    hints = [_hint(data.shape, axis, size, allow_zero) for axis, size in enumerate(partly_known(shape))]
    return ir.reshape(data, read_lengths(resolved, "shape", node, ir, hints=hints))


def _resolved(old: Sequence[Dim], shape: Sequence[Dim], allow_zero: bool, node: Node) -> tuple[Dim, ...]:
    """`shape` with 0 and -1 replaced by what they mean."""
    inferred = [axis for axis, size in enumerate(shape) if size == -1]
    if len(inferred) > 1:
        node.fail("reshape-inferred", f"shape {list(shape)} has more than one -1", rule=RULE)
    if any(isinstance(size, int) and size < -1 for size in shape):
        node.fail("reshape-size", f"shape {list(shape)} has a size below -1", rule=RULE)
    if allow_zero and inferred and 0 in shape:
        node.fail("reshape-inferred", f"shape {list(shape)} has both 0 and -1 under allowzero", rule=RULE)
    copied = [axis for axis, size in enumerate(shape) if size == 0 and not allow_zero]
    if copied and copied[-1] >= len(old):
        node.fail("reshape-copied", f"shape {list(shape)} copies axis {copied[-1]} of {len(old)}", rule=RULE)
    resolved = [old[axis] if axis in copied else size for axis, size in enumerate(shape)]
    if inferred:
        # Copied sizes count on both sides; leaving them out keeps the answer where one of them is 0.
        before = product(size for axis, size in enumerate(old) if axis not in copied)
        after = product(size for axis, size in enumerate(resolved) if axis not in (*copied, *inferred))
        resolved[inferred[0]] = floordiv(before, after)
    if _contradicts(old, resolved):
        message = f"shape {list(shape)} does not have the elements of {list(old)}"
        node.fail("reshape-elements", message, rule=RULE)
    return tuple(resolved)


def _contradicts(old: Sequence[Dim], new: Sequence[Dim]) -> bool:
    before, after = product(old), product(new)
    return isinstance(before, int) and isinstance(after, int) and before != after


def _hint(old: Sequence[Dim], axis: int, size: Dim | None, allow_zero: bool) -> Dim | None:
    """The size of `axis` of the result where it does not depend on what only data tells."""
    if size == 0 and not allow_zero:
        return old[axis] if axis < len(old) else None
    return None if size == -1 else size


def _resolved_by_data(old: Sequence[Dim], shape: Value, allow_zero: bool, ir: Builder) -> Value:
    """As `_resolved`, on an i64[r] that only data decides."""
    rank = vector_length(shape)
    length = max(rank, len(old))
    target = ir.concatenate([shape, ir.full((length - rank,), 1, shape.dtype)], 0) if length > rank else shape
    sizes = ir.sizes((*old, *[1] * (length - len(old))))
    copied = ir.full((length,), False, BOOL) if allow_zero else ir.equal(target, 0)
    inferred = ir.equal(target, -1)
    before = ir.reduce(ir.select(copied, 1, sizes), "prod", (0,))
    after = ir.reduce(ir.select(ir.or_(copied, inferred), 1, target), "prod", (0,))
    # "It is invalid for the specified shape to contain both a zero value and -1": none is given, which is below 0.
    rest = ir.select(ir.equal(after, 0), -1, ir.div(before, after)) if allow_zero else ir.div(before, after)
    resolved = ir.select(inferred, rest, ir.select(copied, sizes, target))
    return ir.slice(resolved, (0,), (rank,))


@operator("Flatten", since=(1, 9, 11, 13, 21, 23, 24, 25))
def flatten(node: Node, ir: Builder) -> Value:
    """input: T[d0 ... dr-1]  ->  T[d0 * ... * da-1, da * ... * dr-1], a = axis, which may be r.

    Source: https://onnx.ai/onnx/operators/onnx__Flatten.html
    """
    x = node.input("input")
    axis = node.int("axis")
    least = -x.rank if node.since >= NEGATIVE_AXIS_SINCE else 0
    if not least <= axis <= x.rank:
        node.fail("axis-out-of-range", f"axis is {axis}, outside [{least}, {x.rank}]", rule="ONNX Flatten, axis")
    axis += x.rank if axis < 0 else 0
    return ir.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))
