"""Linear attention of com.microsoft: the recurrence, the gates that feed it and the convolution before it."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.precision import softplus, widened
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.frontend.operators.attention.linear_attention import HEADS, read_states
from onnxc.compiler.frontend.operators.nn.causal_conv import convolved_with_state
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import floordiv, product
from onnxc.compiler.ir.module import Value


@operator("LinearAttention", since=(1,), domain=MICROSOFT)
def linear_attention(node: Node, ir: Builder) -> tuple[Value, Value]:
    """query: T[B, L, Hq * K], key: T[B, L, Hk * K], value: T[B, L, G * V], past_state: S[B, G, K, V], decay, beta

    ->  output: T[B, L, max(Hq, G) * V], present_state: S[B, G, K, V]. As the standard's, but that G may be a multiple
    of the heads of queries, and those of keys: each is then repeated for as many states in a row.
    """
    if node.int("state_window", 0):
        node.unsupported("state_window is set; export the model with the last state alone")
    query, key = node.inputs("query", "key")
    heads, groups = node.int("q_num_heads"), node.int("kv_num_heads")
    if query.rank != 3 or key.rank != 3:
        message = f"query is {query.type} and key {key.type}, not of 3 axes"
        node.fail("linear-attention-shape", message, rule="ONNX Runtime LinearAttention")
    if heads < 1 or groups < 1:
        message = f"q_num_heads and kv_num_heads are {heads} and {groups}"
        node.fail(HEADS, message, rule="ONNX Runtime LinearAttention")
    width = floordiv(query.shape[2], heads)
    shared = floordiv(key.shape[2], width) if width != 0 else groups
    if not isinstance(shared, int):
        ir.require_equal(key.shape[2], width * groups, "key has not as many heads as there are states", HEADS)
        shared = groups
    key = _repeated(key, shared, groups, node, ir)
    if heads < groups:
        query, heads = _repeated(query, heads, groups, node, ir), groups
    return read_states(query, key, heads, node, ir)


def _repeated(x: Value, heads: int, groups: int, node: Node, ir: Builder) -> Value:
    """T[B, L, heads * K] -> T[B, L, groups * K]: each head as often as groups share it"""
    if heads == groups:
        return x
    if heads < 1 or groups % heads:
        node.fail(HEADS, f"{groups} states cannot share {heads} heads", rule="ONNX Runtime LinearAttention")
    batch, length, hidden = x.shape
    width, times = floordiv(hidden, heads), groups // heads
    apart = ir.reshape(x, (batch, length, heads, width))
    return ir.reshape(
        ir.broadcast(apart, (0, 1, 2, 4), (batch, length, heads, times, width)), (batch, length, groups * width)
    )


@operator("LinearAttentionGate", since=(1,), domain=MICROSOFT)
def linear_attention_gate(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """a, b: T[..., H], dt_bias, decay_scale: f32[H]  ->  decay_scale * softplus(a + dt_bias), sigmoid(b): T[..., H]

    Computed in f32.
    """
    a, b = node.input("a"), node.optional("b")
    if a.rank == 0:
        node.fail("linear-attention-shape", "a is a scalar", rule="ONNX Runtime LinearAttentionGate")
    bias, scale = (
        of_shape(x, a.shape[-1:], name, node, ir, HEADS)
        for name, x in zip(("dt_bias", "decay_scale"), node.inputs("dt_bias", "decay_scale"), strict=True)
    )
    decay = ir.cast(ir.mul(softplus(ir.add(widened(a, ir), bias), ir), scale), a.dtype)
    if not node.wants(1):
        return decay, None
    if b is None:
        node.fail("missing-input", "beta is wanted, and b is left out", rule="ONNX Runtime LinearAttentionGate, b")
    return decay, ir.cast(ir.sigmoid(widened(of_shape(b, a.shape, "b", node, ir, HEADS), ir)), a.dtype)


@operator("CausalConvWithState", since=(1,), domain=MICROSOFT)
def causal_conv_with_state(node: Node, ir: Builder) -> tuple[Value, Value]:
    """input: T[B, C, L], weight: T[C, 1, k], bias: T[C], past_state: T[B, C, (k - 1) * dilation]

    ->  as input, as past_state. With channels_last: T[B, L, C...] and T[B, (k - 1) * dilation, C...], of any number of
    axes of channels.
    """
    _expect_plain_states(node)
    dilation = node.int("dilation", 1)
    if dilation < 1:
        message = f"dilation is {dilation}, not positive"
        node.fail("attribute-range", message, rule="ONNX Runtime CausalConvWithState, dilation")
    x, past = node.input("input"), node.optional("past_state")
    if not node.flag("channels_last", False):
        return convolved_with_state(x, past, dilation, node, ir)
    if x.rank < 3 or (past is not None and past.rank != x.rank):
        message = f"the input has {x.rank} axes, not 3 or more, or past_state has another number"
        node.fail("causal-conv-rank", message, rule="ONNX Runtime CausalConvWithState, channels_last")
    turned = None if past is None else _channels_first(past, ir)
    y, state = convolved_with_state(_channels_first(x, ir), turned, dilation, node, ir)
    return ir.with_shape(_channels_last(y, x, ir), x.shape), _channels_last(state, x, ir)


def _expect_plain_states(node: Node) -> None:
    if node.int("ndim", 1) != 1:
        node.unsupported(f"ndim is {node.int('ndim')}, and ONNX Runtime has this operator for 1 axis alone")
    if node.int("state_window", 0):
        node.unsupported("state_window is set; export the model with the last state alone")
    for name, default in (
        ("state_update_capacity", 0),
        ("state_channels_last", -1),
        ("state_length", 0),
        ("input_channel_offset", 0),
        ("input_channels", 0),
    ):
        if node.int(name, default) != default:
            node.unsupported(f"{name} is set, which ONNX Runtime has for one kind of device")


def _channels_first(x: Value, ir: Builder) -> Value:
    """T[B, L, C...] -> T[B, C, L]"""
    flat = ir.reshape(x, (*x.shape[:2], product(x.shape[2:])))
    return ir.transpose(flat, (0, 2, 1))


def _channels_last(y: Value, x: Value, ir: Builder) -> Value:
    """T[B, C, L] -> T[B, L, C...], with the channels of `x`"""
    batch, _, length = y.shape
    return ir.reshape(ir.transpose(y, (0, 2, 1)), (batch, length, *x.shape[2:]))
