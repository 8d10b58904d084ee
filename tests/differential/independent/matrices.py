"""Products: quantized ones, attention."""

from itertools import product

import numpy as np

from tests.differential.independent.elementwise import bounds
from tests.differential.independent.registry import Given, Rounded, computes
from tests.differential.independent.windows import paddings


def along(values: np.ndarray | None, rank: int, axis: int) -> np.ndarray:
    """A scale or zero point of one axis, or of the whole."""
    wide = np.zeros(()) if values is None else values.astype(np.float64)
    if wide.size <= 1:
        return wide.reshape(())
    shape = [1] * rank
    shape[axis] = -1
    return wide.reshape(shape)


def requantized(y: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> object:
    exact = y / scale.astype(np.float64) + zero.astype(np.float64)
    return Rounded(np.clip(exact, *bounds(zero.dtype))) if "int" in zero.dtype.name else exact


@computes("QLinearMatMul")
def qlinear_matmul(g: Given) -> list[object]:
    a = (g.array(0).astype(np.float64) - g.wide(2)) * g.wide(1)
    b = (g.array(3).astype(np.float64) - g.wide(5)) * g.wide(4)
    return [requantized(a @ b, g.array(6), g.array(7))]


@computes("MatMulInteger")
def matmul_integer(g: Given) -> list[object]:
    """The zero points are of all, of the rows of A and of the columns of B."""
    a, b = g.array(0).astype(np.int64), g.array(1).astype(np.int64)
    a_zero, b_zero = g.optional(2), g.optional(3)
    rows = 0 if a_zero is None else a_zero.astype(np.int64).reshape((-1, 1) if a_zero.ndim else ())
    columns = 0 if b_zero is None else b_zero.astype(np.int64)
    return [(a - rows) @ (b - columns)]


@computes("QLinearConv")
def qlinear_conv(g: Given) -> list[object]:
    x = g.array(0).astype(np.float64) - g.wide(2)
    w = g.array(3).astype(np.float64) - along(g.array(5), g.array(3).ndim, 0)
    scale = g.wide(1) * along(g.array(4), x.ndim, 1)
    total = convolved(g, x, w)
    bias = g.optional(8)
    if bias is not None:
        total = total + bias.astype(np.float64).reshape(-1, *[1] * (x.ndim - 2))
    return [requantized(total * scale, g.array(6), g.array(7))]


@computes("Conv", "ConvInteger")
def conv(g: Given) -> list[object]:
    x, w = g.array(0).astype(np.float64), g.array(1).astype(np.float64)
    if g.node.op_type == "ConvInteger":
        return [convolved(g, x - along(g.optional(2), x.ndim, 0), w - along(g.optional(3), w.ndim, 0))]
    bias = g.optional(2)
    total = convolved(g, x, w)
    return [total if bias is None else total + bias.astype(np.float64).reshape(-1, *[1] * (x.ndim - 2))]


def convolved(g: Given, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Element by element; what is padded is 0."""
    rank, group = x.ndim - 2, g.int("group", 1)
    strides, dilations = g.ints("strides", [1] * rank), g.ints("dilations", [1] * rank)
    reach = [(w.shape[2 + i] - 1) * dilations[i] + 1 for i in range(rank)]
    pads = paddings(g, x.shape[2:], reach, strides)
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    places = [(padded.shape[2 + i] - reach[i]) // strides[i] + 1 for i in range(rank)]
    result = np.zeros((x.shape[0], w.shape[0], *places))
    per_group = w.shape[0] // group
    for m, at in product(range(w.shape[0]), product(*map(range, places))):
        channels = slice(m // per_group * w.shape[1], (m // per_group + 1) * w.shape[1])
        window = tuple(slice(at[i] * strides[i], at[i] * strides[i] + reach[i], dilations[i]) for i in range(rank))
        result[(slice(None), m, *at)] = np.sum(
            padded[(slice(None), channels, *window)] * w[m], axis=tuple(range(1, rank + 2))
        )
    return result


@computes("Attention")
def attention(g: Given) -> list[object]:
    """Head by head and query by query, in f64."""
    q, k, v = (heads(g, place, name) for place, name in enumerate(("q_num_heads", "kv_num_heads", "kv_num_heads")))
    past_k, past_v = g.optional(4), g.optional(5)
    if past_k is not None and past_v is not None:
        k = np.concatenate([past_k.astype(np.float64), k], axis=2)
        v = np.concatenate([past_v.astype(np.float64), v], axis=2)
    batch, count, length, width = q.shape
    keys = k.shape[2]
    scale = g.number("scale") if g.has("scale") else 1 / np.sqrt(width)
    mask, valid = g.optional(3), g.optional(6)
    past = keys - g.array(1).shape[-2] if past_k is not None else 0
    y = np.zeros((batch, count, length, v.shape[3]))
    shown = np.zeros((batch, count, length, keys))
    left, right = g.int("left_window_size", -1), g.int("right_window_size", -1)
    for b, h, i in np.ndindex(batch, count, length):
        kv = h // (count // k.shape[1])
        raw = k[b, kv] @ q[b, h, i] * scale
        capped = g.number("softcap") * np.tanh(raw / g.number("softcap")) if g.number("softcap") else raw
        offset = past if valid is None else int(valid[b]) - length
        distance = np.arange(keys) - (i + offset)
        seen = np.ones(keys, bool)
        if g.int("is_causal"):
            seen &= distance <= 0
        if left >= 0:
            seen &= distance >= -left
        if right >= 0:
            seen &= distance <= right
        if valid is not None:
            seen &= np.arange(keys) < int(valid[b])
        bias = np.where(seen, 0.0, -np.inf)
        if mask is not None:
            full = np.broadcast_to(mask, (batch, count, length, mask.shape[-1]))[b, h, i]
            row = np.where(full, 0.0, -np.inf) if full.dtype.kind == "b" else full.astype(np.float64)
            bias = bias + np.pad(row, (0, keys - row.size), constant_values=-np.inf)
        scores = capped + bias
        most = scores.max()
        weights = np.zeros(keys) if most == -np.inf else np.exp(scores - most) / np.exp(scores - most).sum()
        y[b, h, i] = weights @ v[b, kv]
        shown[b, h, i] = (raw, capped, scores, weights)[g.int("qk_matmul_output_mode")]
    if g.array(0).ndim == 3:
        y = y.transpose(0, 2, 1, 3).reshape(batch, length, -1)
    return [y, k, v, shown]


def heads(g: Given, place: int, name: str) -> np.ndarray:
    x = g.wide(place)
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], g.int(name), -1).transpose(0, 2, 1, 3)
