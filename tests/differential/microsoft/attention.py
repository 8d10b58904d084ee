"""Recipes: attention, rotations, experts, weights in blocks and a recurrence."""

import numpy as np

from tests.differential.microsoft.draw import Draw, Operands, Parts, recipe
from tests.differential.microsoft.quantised import I8, U8, but, ordered

HEADS = 2


def key_mask(draw: Draw, batch: int, queries: int, keys: int) -> np.ndarray | None:
    """A mask over keys in one of its forms; the first key is always seen."""
    form = draw.pick("none", "ends", "keys", "queries and keys")
    if form == "none":
        return None
    if form == "ends":
        return draw.integers(1, keys + 1, batch)
    mask = draw.integers(0, 2, *((batch, keys) if form == "keys" else (batch, queries, keys)))
    mask[..., 0] = 1
    return mask


@recipe("Attention")
def attention(draw: Draw) -> Parts:
    b, s, width, hidden, past = draw.size(1, 3), draw.size(2), draw.size(), HEADS * draw.size(), draw.pick(0, 3)
    inputs: Operands = {
        "x": draw.floats(b, s, width),
        "w": draw.floats(width, 3 * hidden),
        "bias": draw.floats(3 * hidden),
        "mask": key_mask(draw, b, s, past + s) if not past else None,
        "past": draw.floats(2, b, HEADS, past, hidden // HEADS) if past else None,
    }
    outputs = ["y", "present"] if past else ["y"]
    return Parts(inputs, {"num_heads": HEADS, "unidirectional": draw.pick(0, 1)}, outputs=outputs)


@recipe("MultiHeadAttention")
def multi_head_attention(draw: Draw) -> Parts:
    b, s, keys, depth, past = draw.size(1, 3), draw.size(), draw.size(2), draw.size(), draw.pick(0, 3)
    causal = draw.pick(0, 1) if past else 0
    keys = s if past else keys
    hidden = HEADS * depth
    inputs: Operands = {
        "q": draw.floats(b, s, hidden),
        "k": draw.floats(b, keys, hidden),
        "v": draw.floats(b, keys, hidden),
        "bias": draw.floats(3 * hidden) if draw.flag() else None,
        "mask": None if past else key_mask(draw, b, s, keys),
        "scores": draw.floats(1, HEADS, s, past + keys) if draw.flag(0.3) else None,
    }
    if past:
        inputs |= {name: draw.floats(b, HEADS, past, depth) for name in ("past_k", "past_v")}
    outputs = ["y", "k2", "v2"] if past else ["y"]
    attributes = {"num_heads": HEADS, "unidirectional": causal, "scale": draw.pick(0.0, 0.2)}
    return Parts(inputs, {**attributes}, outputs=outputs)


def rotations(draw: Draw, depth: int) -> Operands:
    phase = np.arange(16)[:, None] / 10.0 ** np.arange(depth // 2)
    return {"cos": np.cos(phase).astype(draw.dtype), "sin": np.sin(phase).astype(draw.dtype)}


@recipe("GroupQueryAttention")
def group_query_attention(draw: Draw) -> Parts:
    b, groups, depth, heads = draw.size(1, 3), 2, draw.pick(16, 32), draw.pick(2, 4)
    is_prompt = draw.flag()
    s, past = (draw.size(2), 0) if is_prompt else (1, draw.size())
    ends = draw.integers(0, past + 1, b) if past else np.full(b, s - 1, np.int32)
    ends[0] = past + s - 1
    packed, rotary = draw.flag(0.3), draw.pick(0, 1)
    inputs: Operands = {"q": draw.floats(b, s, (heads + 2 * groups if packed else heads) * depth)}
    inputs |= {name: None if packed else draw.floats(b, s, groups * depth) for name in ("k", "v")}
    inputs |= {name: draw.floats(b, groups, past, depth) if past else None for name in ("past_k", "past_v")}
    inputs |= {"ends": ends, "total": np.array(past + s, np.int32)}
    inputs |= rotations(draw, depth) if rotary else {}
    attributes: dict[str, object] = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": rotary}
    attributes |= {"rotary_interleaved": draw.pick(0, 1)} if rotary else {}
    attributes |= draw.pick({}, {"softcap": 0.5}, {"local_window_size": 2}, {"scale": 0.2})
    return Parts(inputs, attributes, outputs=["y", "present_k", "present_v"])


@recipe("RotaryEmbedding")
def rotary_embedding(draw: Draw) -> Parts:
    b, s, depth = draw.size(1, 3), draw.size(), draw.pick(8, 16)
    x = draw.floats(b, s, HEADS * depth) if draw.flag() else draw.floats(b, HEADS, s, depth)
    first = np.array([draw.size(0, 9)], np.int64)
    positions = first if draw.flag() else draw.integers(0, 16, b, s, dtype=np.int64)
    return Parts({"x": x, "positions": positions, **rotations(draw, depth)}, {"interleaved": draw.pick(0, 1)})


@recipe("QAttention")
def quantised_attention(draw: Draw) -> Parts:
    b, s, width, hidden, per_column = draw.size(1, 3), draw.size(), draw.size(2), HEADS * draw.size(), draw.flag()
    weights = draw.pick(I8, U8) if draw.dtype == U8 else I8
    past = draw.pick(0, 2)
    scale, zero = np.full(3 * hidden, 0.01, np.float32), np.full(3 * hidden, draw.zero(weights))
    inputs: Operands = {
        "x": draw.all_of(b, s, width),
        "w": draw.weights(width, 3 * hidden, dtype=weights),
        "bias": draw.floats(3 * hidden),
        "x_scale": np.array(0.02, np.float32),
        "w_scale": scale if per_column else scale[0],
        "mask": draw.integers(1, s + 1, b) if not past else None,
        "x_zero": draw.zero(),
        "w_zero": zero if per_column else zero[0],
    }
    inputs |= {name: np.asarray(inputs[name]) for name in ("w_scale", "w_zero")}
    if past:
        inputs["past"] = draw.floats(2, b, HEADS, past, hidden // HEADS)
    attributes = {"num_heads": HEADS, "unidirectional": draw.pick(0, 1)}
    return Parts(
        inputs,
        {**attributes},
        outputs=["y", "present"] if past else ["y"],
        constants=["w", "w_scale", "w_zero"],
    )


@recipe("MatMulNBits")
def matmul_n_bits(draw: Draw) -> Parts:
    bits, size, k, n = draw.pick(4, 8), draw.pick(16, 32), draw.size(16, 70), draw.size()
    count = -(-k // size)
    inputs: Operands = {
        "a": draw.floats(*draw.shape(1, 2), k),
        "b": draw.integers(0, 256, n, count, size * bits // 8, dtype=np.uint8),
        "scales": draw.floats(n, count, scale=0.1),
        "zeros": draw.integers(0, 256, n, -(-count * bits // 8), dtype=np.uint8) if draw.flag() else None,
    }
    if draw.flag(0.3):
        inputs |= {"groups": None, "bias": draw.floats(n)}
    return Parts(inputs, {"K": k, "N": n, "bits": bits, "block_size": size}, constants=but(inputs, "a"))


EXPERTS, WIDTH = 4, 6


@recipe("MoE")
def experts(draw: Draw) -> Parts:
    hidden, is_gated, tokens = draw.size(2), draw.flag(0.3), draw.size()
    entering = 2 * WIDTH if is_gated else WIDTH
    inputs: Operands = {
        "x": draw.floats(tokens, hidden),
        "router": draw.floats(tokens, EXPERTS),
        "w1": draw.floats(EXPERTS, entering, hidden),
        "b1": draw.floats(EXPERTS, entering) if draw.flag() else None,
        "w2": draw.floats(EXPERTS, hidden, WIDTH),
        "b2": draw.floats(EXPERTS, hidden) if draw.flag() else None,
    }
    attributes: dict[str, object] = {"k": draw.size(1, EXPERTS), "normalize_routing_weights": draw.pick(0, 1)}
    attributes["activation_type"] = "swiglu" if is_gated else draw.pick("relu", "gelu", "silu", "identity")
    attributes |= {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0} if is_gated else {}
    return Parts(inputs, attributes)


@recipe("QMoE")
def quantised_experts(draw: Draw) -> Parts:
    bits, block, width, hidden, tokens = *draw.pick((4, 0), (8, 0), (4, 32)), 32, 64, draw.size()

    def scales(rows: int, columns: int) -> np.ndarray:
        shape = (EXPERTS, rows, columns // block) if block else (EXPERTS, rows)
        return np.abs(draw.floats(*shape, scale=0.01))

    inputs: Operands = {
        "x": draw.floats(tokens, hidden),
        "router": draw.floats(tokens, EXPERTS),
        "w1": draw.integers(0, 256, EXPERTS, width, hidden * bits // 8, dtype=np.uint8),
        "s1": scales(width, hidden),
        "b1": None,
        "w2": draw.integers(0, 256, EXPERTS, hidden, width * bits // 8, dtype=np.uint8),
        "s2": scales(hidden, width),
    }
    attributes: dict[str, object] = {"activation_type": draw.pick("silu", "relu", "gelu"), "expert_weight_bits": bits}
    # ONNX Runtime scales weights to a sum of 1 whatever the attribute says, on a CPU alone.
    attributes |= {"k": draw.size(1, 3), "normalize_routing_weights": 1}
    attributes |= {"block_size": block} if block else {}
    return Parts(inputs, attributes, constants=but(inputs, "x", "router"))


@recipe("DynamicQuantizeLSTM")
def quantised_lstm(draw: Draw) -> Parts:
    length, batch, features, hidden = draw.size(), draw.size(1, 3), draw.size(2), draw.size(2)
    direction = draw.pick("forward", "reverse", "bidirectional")
    count = 2 if direction == "bidirectional" else 1
    given: Operands = {
        "x": draw.floats(length, batch, features),
        "w": draw.weights(count, features, 4 * hidden, dtype=I8),
        "r": draw.weights(count, hidden, 4 * hidden, dtype=I8),
        "b": draw.floats(count, 8 * hidden),
        "lens": None,
        "h": draw.floats(count, batch, hidden) if draw.flag() else None,
        "c": None,
        "p": None,
    }
    given |= {f"{name}_scale": np.full(count, 0.005, np.float32) for name in "wr"}
    given |= {f"{name}_zero": np.zeros(count, np.int8) for name in "wr"}
    names = ("x", "w", "r", "b", "lens", "h", "c", "p", "w_scale", "w_zero", "r_scale", "r_zero")
    # ONNX Runtime rounds each operand of a product to 8 bits: to 1/64 of sums of about 1.
    return Parts(
        ordered(given, *names),
        {"hidden_size": hidden, "direction": direction},
        outputs=["y", "yh", "yc"],
        constants=["w", "r", "w_scale", "w_zero", "r_scale", "r_zero"],
        tolerance=1 / 16,
    )
