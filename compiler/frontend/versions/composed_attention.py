"""Attention and rotary embeddings as compositions, of operands whose heads and widths are known."""

from functools import reduce
from math import copysign, sqrt

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.sizes import (
    Size,
    along,
    lacking,
    positions,
    size_of,
    sum_of,
    value_of,
    vector,
)
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.runtime.records import record

__all__ = ["attention", "attention_24", "attention_25", "rotary_embedding"]

HEADS_FIRST = (0, 2, 1, 3)
KEYS_LAST = (0, 1, 3, 2)
INFINITE = float("inf")


@record
class _Heads:
    """T[batch, heads, length, width]; a length that is not known is a symbol or empty."""

    name: str
    heads: int
    length: int | str
    width: int


def attention(change: Change) -> None:
    """softmax(scale Q K' + mask) V, with the past in front of K and V."""
    at = Steps(change)
    if change.element(0) != change.element(2):
        change.fail("the types of Q and V differ, or are not known")
    q = _heads(at, 0, "q_num_heads")
    k, v = (_with_past(at, position, "kv_num_heads") for position in (1, 2))
    at.give(1, k.name)
    at.give(2, v.name)
    scores, bias, stages = _scores(at, q, k)
    weights = _weights(at, scores, bias)
    stages.append(weights)
    at.give(3, stages[change.integer("qk_matmul_output_mode")])
    product = weights, _shared(at, v, q.heads).name
    if change.rank(0) == 4:
        at.become("MatMul", *product)
    else:
        turned = at("Transpose", at("MatMul", *product), perm=HEADS_FIRST)
        at.become("Reshape", turned, at.integers(0, 0, -1))


def attention_24(change: Change) -> None:
    """By older operators where the version before leaves out other keys, or has no word for padding."""
    if change.input(6) or (change.integer("is_causal") and change.input(4)):
        attention(change)


def attention_25(change: Change) -> None:
    """By older operators where queries see keys in a window only."""
    if any(change.integer(f"{side}_window_size", -1) != -1 for side in ("left", "right")):
        attention(change)


def _heads(at: Steps, position: int, attribute: str) -> _Heads:
    """An operand by heads, which may lie in one axis with the width."""
    change, name = at.change, at.change.input(position)
    shape = change.shape(name) or ()
    if len(shape) == 4:
        _, heads, length, width = shape
        if isinstance(heads, int) and isinstance(width, int):
            return _Heads(name, heads, length, width)
    heads, width = change.integer(attribute), shape[-1] if shape else ""
    if len(shape) != 3 or not isinstance(width, int) or not heads:
        change.fail(f"the heads and the width of its input {name} are not known")
    split = at("Reshape", name, at.integers(0, 0, heads, width // heads))
    return _Heads(at("Transpose", split, perm=HEADS_FIRST), heads, shape[1], width // heads)


def _with_past(at: Steps, position: int, attribute: str) -> _Heads:
    """Keys or values, behind those of the past."""
    change, new = at.change, _heads(at, position, attribute)
    past = change.input(position + 3)
    if not past:
        return new
    before = _past_length(change, past)
    length = before + new.length if isinstance(before, int) and isinstance(new.length, int) else ""
    return _Heads(at("Concat", past, new.name, axis=2), new.heads, length, new.width)


def _past_length(change: Change, past: str) -> int | str:
    shape = change.shape(past) if past else ("", "", 0, "")
    return shape[2] if shape is not None and len(shape) == 4 else ""


def _shared(at: Steps, x: _Heads, heads: int) -> _Heads:
    """Each head as often as queries share it."""
    if x.heads == heads:
        return x
    if not x.heads or heads % x.heads:
        at.change.fail(f"{heads} heads cannot share {x.heads}")
    repeats = at.integers(1, 1, heads // x.heads, 1, 1)
    repeated = at("Expand", at.over("Unsqueeze", x.name, [2]), repeats)
    return _Heads(at("Reshape", repeated, at.integers(0, heads, -1, x.width)), heads, x.length, x.width)


def _scores(at: Steps, q: _Heads, k: _Heads) -> tuple[str, str, list[str]]:
    """The scores with what is added to them, that, and the scores after each stage."""
    change = at.change
    given = change.given("scale")
    scale = given if isinstance(given, int | float) else 1 / sqrt(max(q.width, 1))
    root = sqrt(abs(scale))
    turned = at("Transpose", _shared(at, k, q.heads).name, perm=KEYS_LAST)
    queries, keys = at("Mul", q.name, at.scalar(copysign(root, scale))), at("Mul", turned, at.scalar(root))
    stages = [at("MatMul", queries, keys)]
    at.declare(stages[0], change.element(0), ("", q.heads, q.length, k.length))
    softcap, bias = change.real("softcap", 0.0), _bias(at, q, k)
    capped = at("Mul", at("Tanh", at("Div", stages[0], at.scalar(softcap))), at.scalar(softcap)) if softcap else ""
    stages.append(capped or stages[0])
    stages.append(at("Add", stages[1], bias) if bias else stages[1])
    return stages[2], bias, stages


def _bias(at: Steps, q: _Heads, k: _Heads) -> str:
    """What is added to the scores: the mask, and -∞ where a key is hidden; empty for nothing."""
    change, mask, seen = at.change, at.change.input(3), _seen(at, q, k)
    is_choice = change.element(3) == TensorProto.BOOL
    if mask:
        mask = _with_all_keys(at, mask, k, False if is_choice else -INFINITE)
    if mask and is_choice:
        seen, mask = (at("And", mask, seen) if seen else mask), ""
    mask = at.cast(mask, change.element(0)) if mask else ""
    if not seen:
        return mask
    return at("Where", seen, mask or at.scalar(0), at.scalar(-INFINITE))


def _with_all_keys(at: Steps, mask: str, k: _Heads, hidden: float) -> str:
    """The mask; keys that it leaves out, which are the last ones, are hidden."""
    shape = at.change.shape(mask)
    if shape is None:
        at.change.fail("the rank of its mask is not known")
    if not shape or (shape[-1] and shape[-1] == k.length):
        return mask
    pads: list[Size] = [0] * (2 * len(shape))
    pads[-1] = lacking(at, size_of(at, mask, -1), _keys(at))
    return at("Pad", mask, vector(at, pads), at.scalar(hidden, 3))


def _keys(at: Steps) -> Size:
    """How many keys there are, with those of the past."""
    return sum_of(at, _past(at), _length(at, 1))


def _length(at: Steps, position: int) -> Size:
    """How many queries or keys an operand has."""
    return size_of(at, at.change.input(position), 2 if at.change.rank(position) == 4 else 1)


def _past(at: Steps) -> Size:
    return size_of(at, at.change.input(4), 2) if at.change.input(4) else 0


def _seen(at: Steps, q: _Heads, k: _Heads) -> str:
    """bool[..., queries, keys]: the keys from `left` before a query to `right` behind it; empty for all.

    A query stands behind the past; where there are keys that are padding, the last query stands at the last other.
    """
    change, valid = at.change, at.change.input(6)
    left = change.integer("left_window_size", -1)
    right = 0 if change.integer("is_causal") else change.integer("right_window_size", -1)
    past = 0 if not change.input(4) else _past_length(change, change.input(4))
    if not valid and (left, right) == (-1, -1):
        return ""
    if not valid and left < 0 and isinstance(past, int) and at.takes_triangle(q.length, k.length):
        return at.triangle(q.length, k.length, past + right)
    column, row = positions(at, _keys(at)), along(at, positions(at, _length(at, 0)), 0, 2)
    offset, conditions = value_of(at, _past(at)), []
    if valid:
        valid = at.over("Unsqueeze", valid, [1, 2, 3])
        offset = at("Sub", valid, value_of(at, _length(at, 0)))
        conditions.append(at("Less", column, valid))
    row = at("Add", row, offset)
    if right >= 0:
        conditions.append(at("Less", column, at("Add", row, at.integers(right + 1))))
    if left >= 0:
        conditions.append(at("Less", row, at("Add", column, at.integers(left + 1))))
    return reduce(lambda one, other: at("And", one, other), conditions)


def _weights(at: Steps, scores: str, bias: str) -> str:
    """softmax(scores), 0 in rows of which the mask hides all."""
    change, element = at.change, at.change.element(0)
    precision = change.integer("softmax_precision") or element
    weights = at.cast(at("Softmax", at.cast(scores, precision), axis=3), element)
    if not bias:
        return weights
    top = at.over("ReduceMax", bias, [-1], keepdims=1)
    return at("Where", at("Equal", top, at.scalar(-INFINITE)), at.scalar(0), weights)


def rotary_embedding(change: Change) -> None:
    """Pairs of features turned by the angles of their positions; the rest of a head stays."""
    at = Steps(change)
    x = _heads(at, 0, "num_heads")
    turned = change.integer("rotary_embedding_dim") or x.width
    head = _features(at, x.name, 0, turned) if turned < x.width else x.name
    cos, sin = (_angles(at, position) for position in (1, 2))
    is_interleaved = bool(change.integer("interleaved"))
    if is_interleaved:
        first, second = (_features(at, head, start, turned, step=2) for start in (0, 1))
    else:
        first, second = _features(at, head, 0, turned // 2), _features(at, head, turned // 2, turned)
    left = at("Sub", at("Mul", first, cos), at("Mul", second, sin))
    right = at("Add", at("Mul", first, sin), at("Mul", second, cos))
    parts = [_interleaved(at, left, right, turned)] if is_interleaved else [left, right]
    if turned < x.width:
        parts.append(_features(at, x.name, turned, x.width))
    if change.rank(0) == 4:
        at.become("Concat", *parts, axis=3)
    else:
        whole = at("Transpose", at("Concat", *parts, axis=3), perm=HEADS_FIRST)
        at.become("Reshape", whole, at.integers(0, 0, x.heads * x.width))


def _features(at: Steps, x: str, start: int, end: int, step: int = 1) -> str:
    return at("Slice", x, *(at.integers(each) for each in (start, end, 3, step)))


def _angles(at: Steps, position: int) -> str:
    """T[batch, 1, length, pairs]: the cosines or sines of the positions."""
    cache, positions = at.change.input(position), at.change.input(3)
    rows = at("Gather", cache, positions, axis=0) if positions else cache
    return at.over("Unsqueeze", rows, [1])


def _interleaved(at: Steps, left: str, right: str, width: int) -> str:
    pairs = at("Concat", *(at.over("Unsqueeze", each, [4]) for each in (left, right)), axis=4)
    return at("Reshape", pairs, at.integers(0, 0, 0, width))
