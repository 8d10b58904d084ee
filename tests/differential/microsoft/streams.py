"""Recipes: linear attention, gates and mixtures of streams, rotations by three positions, weights of 4-bit floats."""

import numpy as np

from tests.differential.microsoft.attention import rotations
from tests.differential.microsoft.draw import Draw, Operands, Parts, recipe


@recipe("MatMulBnb4")
def matmul_bnb4(draw: Draw) -> Parts:
    n, k, size = draw.size(1, 9), draw.size(1, 40), draw.pick(16, 32)
    inputs: Operands = {
        "a": draw.floats(*draw.shape(1, 2), k),
        "b": draw.integers(0, 256, -(-n * k // 2), dtype=np.uint8),
        "absmax": np.abs(draw.floats(-(-n * k // size))),
    }
    # ONNX Runtime's kernel takes B to be transposed whatever transB is.
    attributes = {"K": k, "N": n, "block_size": size, "quant_type": draw.pick(0, 1)}
    return Parts(inputs, {**attributes}, constants=["b", "absmax"] if draw.flag(0.7) else [], free=["a"])


@recipe("LinearAttention")
def linear_attention(draw: Draw) -> Parts:
    rule = draw.pick("linear", "gated", "delta", "gated_delta")
    q, k, groups = draw.pick((2, 2, 2), (4, 2, 2), (1, 1, 2), (2, 1, 4), (2, 2, 4))
    b, length, width, depth = draw.size(1, 3), draw.size(), draw.size(), draw.size()
    inputs: Operands = {
        "q": draw.floats(b, length, q * width),
        "k": draw.floats(b, length, k * width, scale=0.3),
        "v": draw.floats(b, length, groups * depth),
        "past": draw.floats(b, groups, width, depth) if draw.flag() else None,
        "decay": -np.abs(draw.floats(b, length, groups * draw.pick(1, width))) if "gated" in rule else None,
        "beta": np.abs(draw.floats(b, length, draw.pick(1, groups))) if "delta" in rule else None,
    }
    attributes = {"q_num_heads": q, "kv_num_heads": groups, "update_rule": rule, "scale": draw.pick(0.0, 0.3)}
    return Parts(inputs, {**attributes}, outputs=["y", "present"])


@recipe("LinearAttentionGate")
def linear_attention_gate(draw: Draw) -> Parts:
    shape, wants_rate = (draw.size(), draw.size(), draw.size()), draw.flag()
    inputs: Operands = {
        "a": draw.floats(*shape, scale=4),
        "bias": draw.floats(shape[-1], dtype=np.dtype(np.float32)),
        "scale": -np.abs(draw.floats(shape[-1], dtype=np.dtype(np.float32))),
        "b": draw.floats(*shape, scale=3) if wants_rate else None,
    }
    return Parts(inputs, outputs=["decay", "beta"] if wants_rate else ["decay"])


@recipe("CausalConvWithState")
def causal_conv(draw: Draw) -> Parts:
    b, channels, length, taps = draw.size(1, 3), draw.pick(2, 4, 6), draw.size(), draw.size(1, 5)
    dilation, is_last = draw.pick(1, 1, 2, 3), draw.flag(0.3)
    held = (taps - 1) * dilation
    apart = (channels // 2, 2) if is_last and draw.flag() else (channels,)
    inputs: Operands = {
        "x": draw.floats(b, length, *apart) if is_last else draw.floats(b, channels, length),
        "w": draw.floats(channels, 1, taps),
        "bias": draw.floats(channels) if draw.flag() else None,
        "past": None,
    }
    if draw.flag():
        inputs["past"] = draw.floats(b, held, *apart) if is_last else draw.floats(b, channels, held)
    attributes = {"activation": draw.pick("none", "silu", "swish"), "dilation": dilation, "channels_last": int(is_last)}
    return Parts(inputs, {**attributes}, outputs=["y", "present"])


@recipe("MRotaryEmbedding")
def m_rotary_embedding(draw: Draw) -> Parts:
    b, s, heads, depth = draw.size(1, 3), draw.size(), 2, draw.pick(12, 16)
    turned = draw.pick(depth, 8)
    sections = draw.pick((turned // 2 - 4, 2, 2), (turned // 2, 0, 0), (turned // 2 - 3, 2, 1))
    x = draw.floats(b, s, heads * depth) if draw.flag() else draw.floats(b, heads, s, depth)
    inputs: Operands = {"x": x, "positions": draw.integers(0, 16, 3, b, s, dtype=np.int64), **rotations(draw, turned)}
    attributes: dict[str, object] = {"mrope_section": list(sections), "mrope_layout": draw.pick(0, 1)}
    attributes |= {"interleaved": draw.pick(0, 1), "num_heads": heads}
    attributes |= {"rotary_embedding_dim": turned} if turned != depth else {}
    return Parts(inputs, attributes)


# Gates


@recipe("ScaledSiLU")
def scaled_silu(draw: Draw) -> Parts:
    inputs: Operands = {"x": draw.floats(*draw.shape(), scale=3)}
    if draw.flag():
        return Parts({**inputs, "scale": np.asarray(draw.floats(1)[0])}, free=["x"])
    return Parts(inputs, {"alpha": draw.pick(1.0, 1.702, -2.0)}, free=["x"])


@recipe("GatedAdd")
def gated_add(draw: Draw) -> Parts:
    shape = draw.shape(2, 3)
    return Parts({"x": draw.floats(*shape), "other": draw.floats(*shape), "gate": draw.floats(*shape[:-1], 1)})


@recipe("GatedRMSNorm")
def gated_rms_norm(draw: Draw) -> Parts:
    width = draw.size(2)
    shape = (*draw.shape(1, 2), width * draw.size(1, 3))
    inputs: Operands = {"x": draw.floats(*shape), "scale": draw.floats(width), "gate": draw.floats(*shape, scale=2)}
    return Parts(inputs, {"activation": draw.pick("silu", "swish", "sigmoid"), "epsilon": draw.pick(1e-5, 1e-2)})


def streams(draw: Draw, outer: tuple[int, ...], count: int, width: int) -> tuple[np.ndarray, dict[str, object]]:
    """Streams with their axes apart, or as one."""
    if draw.flag():
        return draw.floats(*outer, count, width), {}
    return draw.floats(*outer, count * width), {"num_branches": count}


@recipe("BranchwiseRMSNorm")
def branchwise_rms_norm(draw: Draw) -> Parts:
    count, width = draw.size(2, 4), draw.size(2)
    x, attributes = streams(draw, draw.shape(1, 2), count, width)
    shape = draw.pick((count * width,), (count, width), (width,), None)
    return Parts({"x": x, "scale": None if shape is None else draw.floats(*shape)}, attributes)


@recipe("HyperConnectionPreMix")
def pre_mix(draw: Draw) -> Parts:
    outer, count, width = draw.shape(1, 2), draw.size(2, 4), draw.size(2)
    x, attributes = streams(draw, outer, count, width)
    gate = draw.floats(*outer, *draw.pick((count,), (count, 1), (count, width)))
    return Parts({"x": x, "gate": gate}, {**attributes, "reduction_scale": draw.pick(1.0, 0.5)})


@recipe("HyperConnectionPostMix")
def post_mix(draw: Draw) -> Parts:
    outer, count, width = draw.shape(1, 2), draw.size(2, 4), draw.size(2)
    x, attributes = streams(draw, outer, count, width)
    inputs: Operands = {
        "x": x,
        "block": draw.floats(*outer, width),
        "gate": draw.floats(*outer, *draw.pick((count,), (count, 1), (count, width))),
        "mix": draw.floats(*outer, count, count) if draw.flag() else None,
    }
    return Parts(inputs, attributes)


@recipe("EngramGate")
def engram_gate(draw: Draw) -> Parts:
    b, s, count, width, is_normed = draw.size(1, 3), draw.size(), draw.size(1, 4), draw.size(2), draw.flag()
    inputs: Operands = {
        "key": draw.floats(b, s, count, width),
        "query": draw.floats(b, s, count, width),
        "value": draw.floats(b, s, width),
        "key_scale": draw.floats(count, width),
        "query_scale": draw.floats(count, width),
        "last_scale": draw.floats(count, width) if is_normed else None,
    }
    return Parts(inputs, outputs=["y", "normed"] if is_normed else ["y"])
