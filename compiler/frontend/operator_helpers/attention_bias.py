"""What attention adds to its scores: the mask, and minus infinity for keys that a query does not see."""

from dataclasses import replace

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.broadcasting import broadcast_onto
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

NEGATIVE_INFINITY = float("-inf")


@record
class Visibility:
    """Which keys a query sees. Query i stands at i + offset; the offset is `past`, or `valid` minus the queries.

    `left` and `right` bound the distance, -1 does not. `valid` is None or how many keys of each batch are no padding.
    """

    causal: bool
    left: int
    right: int
    past: Dim
    valid: Value | None

    @property
    def is_triangle(self) -> bool:
        """Whether causality alone, without an offset, decides by the index in the block."""
        return self.causal and self.past == 0 and self.valid is None

    def without_causal(self) -> "Visibility":
        return replace(self, causal=False)


def attention_bias(
    mask: Value | None, visibility: Visibility, q: Value, k: Value, node: Node, ir: Builder
) -> Value | None:
    """T[B|1, H|1, S|1, T] to add to the scores of q: T[B, H, S, D], k: T[B, G, T, D]; None where nothing is hidden."""
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    allowed = _allowed(visibility, queries, keys, ir)
    if mask is not None:
        mask = _padded(mask, keys, node, ir)
        mask = _of_rank_four(mask, (batch, heads, queries, keys), node, ir)
    if mask is not None and mask.dtype.is_bool:
        allowed = mask if allowed is None else ir.and_(mask, allowed)
        mask = None
    if allowed is None:
        return None if mask is None else ir.cast(mask, q.dtype)
    open_value = 0.0 if mask is None else ir.cast(mask, q.dtype)
    return ir.select(allowed, open_value, ir.scalar(NEGATIVE_INFINITY, q.dtype))


def _padded(mask: Value, keys: Dim, node: Node, ir: Builder) -> Value:
    """The mask with all keys: those that it leaves out are hidden."""
    if not mask.rank or mask.shape[-1] == keys:
        return mask
    missing = keys - mask.shape[-1]
    if at_least(-1, missing):
        message = f"the last axis of attn_mask is {mask.shape[-1]}, there are {keys} keys"
        node.fail("attention-mask", message, rule="ONNX Attention, attn_mask")
    if not at_least(missing, 0):
        ir.guard(missing, 0, "at_least", "attn_mask is longer than the keys")
    none = (0,) * (mask.rank - 1)
    hidden = False if mask.dtype.is_bool else NEGATIVE_INFINITY
    return ir.with_shape(ir.pad(mask, (*none, 0), (*none, missing), hidden), (*mask.shape[:-1], keys))


def _of_rank_four(mask: Value, shape: tuple[Dim, ...], node: Node, ir: Builder) -> Value:
    """The mask with four axes; those that are not 1 are checked, or guarded, to be those of the scores."""
    if mask.rank > 4:
        node.fail(
            "attention-mask", f"attn_mask is {mask.type}, with more than 4 axes", rule="ONNX Attention, attn_mask"
        )
    mask = ir.unsqueeze(mask, range(4 - mask.rank)) if mask.rank < 4 else mask
    target = [1 if size == 1 else wanted for size, wanted in zip(mask.shape, shape, strict=True)]
    return broadcast_onto(mask, target, "attn_mask", node, ir, "attention-mask")


def _allowed(visibility: Visibility, queries: Dim, keys: Dim, ir: Builder) -> Value | None:
    """bool[B|1, 1, S|1, T]: which keys are seen; None where all are."""
    column = ir.iota((1, 1, 1, keys), 3, I64)
    conditions = []
    if visibility.valid is not None:
        conditions.append(ir.less(column, ir.reshape(visibility.valid, (visibility.valid.shape[0], 1, 1, 1))))
    conditions += _by_distance(visibility, column, queries, keys, ir)
    if not conditions:
        return None
    allowed = conditions[0]
    for condition in conditions[1:]:
        allowed = ir.and_(allowed, condition)
    return allowed


def _by_distance(visibility: Visibility, column: Value, queries: Dim, keys: Dim, ir: Builder) -> list[Value]:
    bounds = (visibility.left, 0 if visibility.causal else visibility.right)
    if bounds == (-1, -1) or (bounds == (-1, 0) and _is_decoding(visibility, queries, keys)):
        return []
    row = ir.add(ir.iota((1, 1, queries, 1), 2, I64), _offset(visibility, queries, ir))
    conditions = []
    if visibility.causal or visibility.right >= 0:
        conditions.append(ir.less_equal(column, ir.add(row, bounds[1])))
    if visibility.left >= 0:
        conditions.append(ir.less_equal(ir.sub(row, visibility.left), column))
    return conditions


def _is_decoding(visibility: Visibility, queries: Dim, keys: Dim) -> bool:
    """Whether one query stands at the last key, so that causality hides nothing."""
    return queries == 1 and visibility.valid is None and keys == visibility.past + 1


def _offset(visibility: Visibility, queries: Dim, ir: Builder) -> Value:
    """i64[] or i64[B, 1, 1, 1]: the position of the first query."""
    if visibility.valid is None:
        return ir.size(visibility.past)
    valid = ir.reshape(visibility.valid, (visibility.valid.shape[0], 1, 1, 1))
    return ir.sub(valid, ir.size(queries))
