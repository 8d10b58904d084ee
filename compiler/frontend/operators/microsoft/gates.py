"""Gates and mixtures of streams of com.microsoft, in f32 but where ONNX Runtime rounds in between."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.precision import widened
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, only_element
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value

PARAMETER = "normalization-parameter"


def _rule(node: Node) -> str:
    return f"ONNX Runtime {node.operator}"


def _apart(x: Value, count: Dim, width: Dim, name: str, node: Node, ir: Builder) -> Value:
    """T[..., count * width] -> T[..., count, width]"""
    message = f"the last axis of {name} is not {count} times {width}"
    ir.require_equal(x.shape[-1], count * width, message, PARAMETER)
    return ir.reshape(ir.with_shape(x, (*x.shape[:-1], count * width)), (*x.shape[:-1], count, width))


def _expect_rank(x: Value, least: int, name: str, node: Node) -> None:
    if x.rank < least:
        node.fail(PARAMETER, f"{name} is {x.type}, of fewer than {least} axes", rule=_rule(node))


@operator("ScaledSiLU", since=(1,), domain=MICROSOFT)
def scaled_silu(node: Node, ir: Builder) -> Value:
    """X: T[...], scale: one element, else alpha  ->  z * sigmoid(z), where z = X * scale

    z and its sigmoid are rounded to T.
    """
    x, scale = node.input("X"), node.optional("scale")
    factor: Value | float = node.float("alpha")
    if scale is not None:
        factor = ir.cast(only_element(scale, "scale", node, ir), F32)
    z = ir.cast(ir.mul(widened(x, ir), factor), x.dtype)
    gate = ir.cast(ir.sigmoid(widened(z, ir)), x.dtype)
    return ir.mul(z, gate)


@operator("GatedAdd", since=(1,), domain=MICROSOFT)
def gated_add(node: Node, ir: Builder) -> Value:
    """X, Y: T[..., C], gate: T[..., 1]  ->  X + Y * gate, the product rounded to T"""
    if node.optional("gate_weight") is not None:
        node.unsupported("gate_weight is given, which ONNX Runtime has for one kind of device")
    x, y, gate = node.inputs("X", "Y", "gate")
    _expect_rank(x, 1, "X", node)
    y = of_shape(y, x.shape, "Y", node, ir, PARAMETER)
    gate = of_shape(gate, (*x.shape[:-1], 1), "gate", node, ir, PARAMETER)
    return ir.add(x, ir.mul(y, gate))


@operator("GatedRMSNorm", since=(1,), domain=MICROSOFT)
def gated_rms_norm(node: Node, ir: Builder) -> Value:
    """X, gate: T[..., H * C], scale: T[C]  ->  X / sqrt(mean(X^2) + epsilon) * scale * activation(gate), as X

    The mean is that of C elements in a row.
    """
    x, scale, gate = node.inputs("X", "scale", "gate")
    _expect_rank(x, 1, "X", node)
    scale = of_shape(scale, (None,), "scale", node, ir, PARAMETER)
    gate = of_shape(gate, x.shape, "gate", node, ir, PARAMETER)
    width = scale.shape[0]
    apart = _apart(widened(x, ir), floordiv(x.shape[-1], width), width, "X", node, ir)
    normed = ir.rms_norm(apart, widened(scale, ir), x.rank, node.float("epsilon"))
    opened = ir.sigmoid(widened(gate, ir))
    if node.choice("activation", ("silu", "swish", "sigmoid")) != "sigmoid":
        opened = ir.mul(opened, widened(gate, ir))
    return ir.cast(ir.mul(ir.reshape(normed, x.shape), opened), x.dtype)


@operator("BranchwiseRMSNorm", since=(1,), domain=MICROSOFT)
def branchwise_rms_norm(node: Node, ir: Builder) -> Value:
    """X: T[..., C, H], or T[..., C * H] with num_branches C, scale: M[C * H], M[C, H] or M[H]

    ->  X / sqrt(mean of H squares + epsilon) * scale, as X
    """
    x = node.input("X")
    grouped = _branches(x, "X", node, ir)
    count, width = grouped.shape[-2:]
    ones = ir.full((width,), 1, F32)
    normed = ir.rms_norm(widened(grouped, ir), ones, grouped.rank - 1, node.float("epsilon"))
    scale = node.optional("scale")
    if scale is not None:
        normed = ir.mul(normed, ir.cast(_branch_scale(scale, count, width, node, ir), F32))
    return ir.cast(ir.reshape(normed, x.shape), x.dtype)


def _branch_scale(scale: Value, count: Dim, width: Dim, node: Node, ir: Builder) -> Value:
    if scale.rank == 2:
        return of_shape(scale, (count, width), "scale", node, ir, PARAMETER)
    if scale.rank == 1 and scale.shape[0] == width:
        return scale
    return ir.reshape(of_shape(scale, (count * width,), "scale", node, ir, PARAMETER), (count, width))


def _branches(x: Value, name: str, node: Node, ir: Builder) -> Value:
    """T[..., C, H], which is given so, or as T[..., C * H] with num_branches"""
    count = node.int("num_branches")
    if count == 0:
        _expect_rank(x, 2, name, node)
        return x
    _expect_rank(x, 1, name, node)
    if count < 0:
        node.fail("attribute-range", f"num_branches is {count}", rule=f"{_rule(node)}, num_branches")
    return _apart(x, count, floordiv(x.shape[-1], count), name, node, ir)


# Hyper connections


@operator("HyperConnectionPreMix", since=(1,), domain=MICROSOFT)
def hyper_connection_pre_mix(node: Node, ir: Builder) -> Value:
    """streams: T[..., C, H] or T[..., C * H], pre_mix: M[..., C], M[..., C, 1] or as streams

    ->  T[..., H]: reduction_scale * the sum of streams * pre_mix over C
    """
    given = node.input("streams")
    streams = _branches(given, "streams", node, ir)
    mixed = ir.mul(
        ir.cast(streams, F32), ir.cast(_branch_gate(node.input("pre_mix"), streams, "pre_mix", node, ir), F32)
    )
    total = ir.reduce(mixed, "sum", (streams.rank - 2,))
    return ir.cast(ir.mul(total, node.float("reduction_scale")), given.dtype)


@operator("HyperConnectionPostMix", since=(1,), domain=MICROSOFT)
def hyper_connection_post_mix(node: Node, ir: Builder) -> Value:
    """streams: T[..., C, H] or T[..., C * H], block_output: T[..., H], post_mix: M[..., C] or M[..., C, 1 | H]

    ->  as streams: stream_mix' streams + post_mix * block_output, where stream_mix: M[..., C, C] is 1 if left out
    """
    given = node.input("streams")
    streams = _branches(given, "streams", node, ir)
    outer, (count, width) = streams.shape[:-2], streams.shape[-2:]
    block = of_shape(node.input("block_output"), (*outer, width), "block_output", node, ir, PARAMETER)
    gate = ir.cast(_branch_gate(node.input("post_mix"), streams, "post_mix", node, ir), F32)
    total, mix = ir.cast(streams, F32), node.optional("stream_mix")
    if mix is not None:
        mix = of_shape(mix, (*outer, count, count), "stream_mix", node, ir, PARAMETER)
        order = (*range(len(outer)), len(outer) + 1, len(outer))
        total = ir.matmul(ir.transpose(ir.cast(mix, F32), order), total, F32)
    total = ir.add(total, ir.mul(gate, ir.unsqueeze(ir.cast(block, F32), (len(outer),))))
    return ir.cast(ir.reshape(total, given.shape), given.dtype)


def _branch_gate(gate: Value, streams: Value, name: str, node: Node, ir: Builder) -> Value:
    """M[..., C, 1 | H]"""
    outer, (count, width) = streams.shape[:-2], streams.shape[-2:]
    if gate.rank == streams.rank:
        wanted = 1 if gate.shape[-1] == 1 else width
        return of_shape(gate, (*outer, count, wanted), name, node, ir, PARAMETER)
    if gate.rank == streams.rank - 1 and gate.shape[-1] != count and gate.shape[-1] == count * width:
        return _apart(gate, count, width, name, node, ir)
    return ir.unsqueeze(of_shape(gate, (*outer, count), name, node, ir, PARAMETER), (streams.rank - 1,))


@operator("EngramGate", since=(1,), domain=MICROSOFT)
def engram_gate(node: Node, ir: Builder) -> tuple[Value, Value | None]:
    """key, query: T[B, S, C, H], value: T[B, S, H], scales: T[C, H]  ->  gate * value: T[B, S, C, H], and that normed

    gate = sigmoid(sign(d) * sqrt(max(|d|, 1e-6))), d = key' query' / sqrt(H), both divided by the roots of the means
    of their squares and scaled.
    """
    key, query, value = node.inputs("key", "query", "value")
    if key.rank != 4:
        node.fail(PARAMETER, f"key is {key.type}, not of 4 axes", rule=_rule(node))
    batch, length, _, width = key.shape
    query = of_shape(query, key.shape, "query", node, ir, PARAMETER)
    value = of_shape(value, (batch, length, width), "value", node, ir, PARAMETER)
    normed = [_scaled_norm(x, f"{name}_norm_scale", node, ir) for name, x in (("key", key), ("query", query))]
    total = ir.reduce(ir.mul(normed[0], normed[1]), "sum", (3,), keepdims=True)
    dot = ir.div(total, ir.sqrt(ir.cast(ir.size(width), F32)))
    root = ir.mul(ir.sign(dot), ir.sqrt(ir.max(ir.abs(dot), 1e-6)))
    wide = ir.broadcast(widened(value, ir), (0, 1, 3), key.shape)
    gated = ir.mul(ir.broadcast_to(ir.sigmoid(root), key.shape), wide)
    if not node.wants(1):
        return ir.cast(gated, key.dtype), None
    return ir.cast(gated, key.dtype), ir.cast(_scaled_norm(gated, "conv_norm_scale", node, ir), key.dtype)


def _scaled_norm(x: Value, name: str, node: Node, ir: Builder) -> Value:
    """f32[B, S, C, H]"""
    scale = of_shape(node.input(name), x.shape[2:], name, node, ir, PARAMETER)
    ones = ir.full(x.shape[3:], 1, F32)
    return ir.mul(ir.rms_norm(ir.cast(x, F32), ones, 3, node.float("epsilon")), ir.cast(scale, F32))
