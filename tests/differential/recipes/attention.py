"""Attention in its forms, rotary embedding, and the operators with a state."""

from math import prod

import numpy as np
from onnx import GraphProto, TensorProto, helper

from tests.differential.draw import Draw, Parameter, Parts, i64
from tests.differential.kinds import NAMES_TO_NUMBERS
from tests.differential.recipes.registry import recipe


@recipe("Attention")
def attention(d: Draw) -> Parts:
    batch, kv_heads, groups = d.int(1, 2), d.int(1, 2), d.pick([1, 1, 2])
    heads = kv_heads * groups
    length, kv_length, past = d.int(1, 4), d.int(1, 5), d.pick([0, 0, 3])
    width, v_width = d.pick([2, 4]), d.pick([2, 3])
    named: dict[str, object] = {}
    is_flat = d.flag()

    def heads_of(constraint: str, count: int, n: int, size: int) -> np.ndarray:
        return d.tensor(constraint, (batch, n, count * size) if is_flat else (batch, count, n, size), -2, 2)

    if is_flat:
        named |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    inputs: list[object] = [
        heads_of("T1", heads, length, width),
        heads_of("T1", kv_heads, kv_length, width),
        heads_of("T2", kv_heads, kv_length, v_width),
    ]
    total = kv_length + past
    mask = None
    nonpad = None
    if d.flag():
        shape = d.part_of((batch, heads, length, total))
        mask_shape = d.pick(
            [
                (length, total),
                (batch, 1, length, total),
                (1, heads, length, total),
                (batch, heads, length, total),
                (1, length, total),
            ]
        )
        mask = d.tensor("U", mask_shape, -3, 3)
        if mask.dtype.kind == "b":
            mask[..., 0] = True
        assert len(shape) <= 4
    if d.takes("nonpad_kv_seqlen") and not past and d.flag(0.3):
        nonpad = i64([d.int(1, kv_length) for _ in range(batch)])
    cached: list[object] = [None, None]
    if past:
        cached = [
            d.tensor("T1", (batch, kv_heads, past, width), -2, 2),
            d.tensor("T2", (batch, kv_heads, past, v_width), -2, 2),
        ]
    inputs += [mask, *cached, nonpad]
    while inputs[-1] is None:
        inputs.pop()
    named |= d.attributes(scale=d.real(0.2, 1), is_causal=d.int(0, 1)) if d.flag(0.7) else {}
    if d.flag(0.3):
        named["softcap"] = d.real(0.5, 3)
    if d.flag(0.2):
        named["softmax_precision"] = 1
    outputs: list[str] = ["out0", "out1" if past else "", "out2" if past else "", ""]
    if d.flag(0.4):
        outputs[3] = "out3"
        named["qk_matmul_output_mode"] = d.int(0, 3)
    while outputs[-1] == "":
        outputs.pop()
    if d.flag(0.3):
        named |= d.exactly(left_window_size=d.int(0, 3)) if d.flag() else d.exactly(right_window_size=d.int(0, 3))
    precision = "float32" if "softmax_precision" in named else ""
    return Parts(inputs, named, outputs, accumulates=True, precision=precision)


@recipe("LinearAttention")
def linear_attention(d: Draw) -> Parts:
    batch, length, kv_heads = d.int(1, 2), d.int(1, 5), d.int(1, 2)
    heads = kv_heads * d.pick([1, 2])
    width, v_width = d.pick([2, 3]), d.pick([2, 4])
    rule = d.pick(["linear", "gated", "delta", "gated_delta"])
    inputs: list[object] = [
        d.tensor("T", (batch, length, heads * width), -1, 1),
        d.tensor("T", (batch, length, kv_heads * width), -1, 1),
        d.tensor("T", (batch, length, kv_heads * v_width), -1, 1),
        d.tensor("S", (batch, kv_heads, width, v_width), -1, 1) if d.flag() else None,
        d.tensor("T", (batch, length, kv_heads * d.pick([1, width])), -1, 0) if "gated" in rule else None,
        d.tensor("T", (batch, length, d.pick([1, kv_heads])), 0, 1) if "delta" in rule else None,
    ]
    while inputs[-1] is None:
        inputs.pop()
    named = {"q_num_heads": heads, "kv_num_heads": kv_heads, "update_rule": rule} | d.attributes(
        scale=d.real(0.2, 1), chunk_size=d.pick([2, 64])
    )
    named["update_rule"] = rule
    kinds = {} if inputs[3:] and inputs[3] is not None else {1: d.types["T"]}
    return Parts(inputs, named, 2, kinds, accumulates=True)


@recipe("CausalConvWithState")
def causal_conv(d: Draw) -> Parts:
    batch, channels, length, kernel = d.int(1, 2), d.int(1, 3), d.int(1, 5), d.int(1, 4)
    inputs: list[object] = [
        d.tensor("T", (batch, channels, length), -2, 2),
        Parameter(d.tensor("T", (channels, 1, kernel), -2, 2)),
        Parameter(d.tensor("T", (channels,), -2, 2)) if d.flag() else None,
        d.tensor("T", (batch, channels, kernel - 1), -2, 2) if d.flag() else None,
    ]
    while inputs[-1] is None:
        inputs.pop()
    return Parts(inputs, d.attributes(activation=d.pick(["none", "silu", "swish"])), 2, accumulates=True)


@recipe("RotaryEmbedding")
def rotary_embedding(d: Draw) -> Parts:
    batch, heads, length, width = d.int(1, 2), d.int(1, 2), d.int(1, 4), d.pick([4, 8])
    is_flat = d.flag()
    partial = d.pick([0, 0, 2, 4])
    rotated = (partial or width) // 2
    x = d.tensor("T", (batch, length, heads * width) if is_flat else (batch, heads, length, width), -2, 2)
    named: dict[str, object] = d.attributes(interleaved=d.int(0, 1))
    if is_flat or d.flag(0.3):
        named["num_heads"] = heads
    if partial:
        named["rotary_embedding_dim"] = partial
        named["num_heads"] = heads
    has_positions = d.flag()
    caches = (8, rotated) if has_positions else (batch, length, rotated)
    inputs: list[object] = [x, Parameter(d.tensor("T", caches, -1, 1)), Parameter(d.tensor("T", caches, -1, 1))]
    if has_positions:
        inputs.append(d.tensor("int64", (batch, length), 0, 7))
    return Parts(inputs, named, accumulates=True)


@recipe("FlexAttention", domain="ai.onnx.preview")
def flex_attention(d: Draw) -> Parts:
    batch, kv_heads = d.int(1, 2), d.int(1, 2)
    heads = kv_heads * d.pick([1, 2])
    length, kv_length, width = d.int(1, 4), d.int(1, 4), d.int(1, 4)
    q = d.tensor("T1", (batch, heads, length, width), -2, 2)
    k = d.tensor("T1", (batch, kv_heads, kv_length, width), -2, 2)
    v = d.tensor("T1", (batch, kv_heads, kv_length, d.int(1, 3)), -2, 2)
    named: dict[str, object] = d.attributes(scale=d.real(0.2, 1))
    number = NAMES_TO_NUMBERS[d.dtype("T1")]
    precision = number if number in (TensorProto.FLOAT, TensorProto.DOUBLE) else TensorProto.FLOAT
    if d.flag(0.3):
        named["softmax_precision"] = precision
    if d.flag(0.4):
        named["score_mod"] = modifier("Tanh", precision)
    if d.flag(0.3):
        named["prob_mod"] = modifier("Sqrt", precision)
    assert prod(q.shape)
    return Parts([q, k, v], named, accumulates=True)


def modifier(operator: str, number: int) -> GraphProto:
    """A graph that changes the scores element by element."""
    value = [helper.make_tensor_value_info(name, number, ["B", "H", "L", "S"]) for name in ("scores", "changed")]
    return helper.make_graph([helper.make_node(operator, ["scores"], ["changed"])], "modifier", value[:1], value[1:])
