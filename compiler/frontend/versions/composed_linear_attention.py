"""LinearAttention as a Scan over its tokens, of operands whose heads and widths are known.

The body is of operators whose nodes look alike in every opset that has Scan, so that it needs no adapters of its own.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, GraphProto, NodeProto, TensorProto
from onnxc.compiler.frontend.versions.change import Change, set_attribute
from onnxc.compiler.frontend.versions.steps import Steps

__all__ = ["linear_attention"]

QUERY, KEY, VALUE, PAST, DECAY, RATE = range(6)
TOKENS = 1
"""The axis that is scanned."""


def linear_attention(change: Change) -> None:
    """S = decay S + k ⊗ rate (v - decay S' k), read as scale q' S, token by token, in f32."""
    at, element = Steps(change), change.element(QUERY)
    if not element:
        change.fail(f"the type of its input {change.input(QUERY)} is not known")
    heads, groups = change.integer("q_num_heads"), change.integer("kv_num_heads")
    if groups < 1 or heads < 1 or heads % groups:
        change.fail(f"{heads} query heads cannot share {groups} key heads")
    width, value_width = _width(change, KEY, groups), _width(change, VALUE, groups)
    inputs = {
        "query": _by_heads(at, QUERY, groups, heads // groups, width),
        "key": _by_heads(at, KEY, groups, width, 1),
        "value": _by_heads(at, VALUE, groups, 1, value_width),
    }
    if change.input(DECAY):
        decay = _by_heads(at, DECAY, groups, _width(change, DECAY, groups), 1)
        inputs["decay"] = at("Exp", decay)
    if change.input(RATE):
        inputs["keys"] = _by_heads(at, KEY, groups, 1, width)
        inputs["rate"] = _by_heads(at, RATE, _width(change, RATE, 1), 1, 1)
    state = _state(at, (groups, width, value_width))
    last, read = _scan(at, state, inputs, (groups, heads // groups, value_width))
    at.give(1, at.cast(last, change.element(PAST) if change.input(PAST) else element))
    scale = change.real("scale", 0.0) or 1 / sqrt(width)
    scaled = at("Mul", read, change.tensor(np.array(scale, np.float32), "constant"))
    packed = scaled, at.integers(0, 0, heads * value_width)
    if element == TensorProto.FLOAT:
        at.become("Reshape", *packed)
    else:
        at.become("Cast", at("Reshape", *packed), to=element)


def _width(change: Change, position: int, heads: int) -> int:
    """How many features of an operand each head has."""
    name = change.input(position)
    shape = change.shape(name) or ()
    if len(shape) != 3 or not isinstance(packed := shape[2], int):
        change.fail(f"the width of its input {name} is not known")
    return packed // heads


def _by_heads(at: Steps, position: int, *sizes: int) -> str:
    """An operand in f32, with its features by heads behind the axes of batches and tokens."""
    name = at.change.input(position)
    batch, tokens, _ = at.change.shape(name) or ("", "", "")
    made = at("Reshape", at.cast(name, TensorProto.FLOAT), at.integers(0, 0, *sizes))
    at.declare(made, TensorProto.FLOAT, (batch, tokens, *sizes))
    return made


def _state(at: Steps, sizes: Sequence[int]) -> str:
    """The state before the first token, in f32: that of the past, or zeros."""
    change = at.change
    if change.input(PAST):
        return at.cast(change.input(PAST), TensorProto.FLOAT)
    zero, first = change.tensor(np.array(0, np.float32), "constant"), at.integers(0)
    batch = at("Slice", at("Shape", change.input(QUERY)), first, at.integers(1))
    made = at("Expand", zero, at("Concat", batch, at.integers(*sizes), axis=0))
    at.declare(made, TensorProto.FLOAT, ("", *sizes))
    return made


def _scan(at: Steps, state: str, inputs: Mapping[str, str], sizes: Sequence[int]) -> tuple[str, str]:
    """The state behind the last token, and what was read of it at each, of these sizes behind batches and tokens."""
    change, fresh = at.change, at.change.values.fresh
    names = {name: fresh(f"{change.node.output[0]}/{name}") for name in ("state", *inputs)}
    node = NodeProto(op_type="Scan", input=[state, *inputs.values()])
    node.output.extend(fresh(f"{change.node.output[0]}/{name}") for name in ("last", "read"))
    set_attribute(node, "num_scan_inputs", len(inputs))
    set_attribute(node, "scan_input_axes", [TOKENS] * len(inputs))
    set_attribute(node, "scan_output_axes", [TOKENS])
    node.attribute.add(name="body", type=AttributeProto.GRAPH).g.CopyFrom(_body(change, names))
    change.ahead.append(node)
    last, read = node.output
    at.declare(last, TensorProto.FLOAT, change.shape(state))
    batch, tokens, _ = change.shape(change.input(QUERY)) or ("", "", "")
    at.declare(read, TensorProto.FLOAT, (batch, tokens, *sizes))
    return last, read


def _body(change: Change, names: Mapping[str, str]) -> GraphProto:
    """One token: state, query, key, value, and what else the rule has  ->  the state, and what is read of it."""
    graph = GraphProto(name="token")

    def made(operator: str, *operands: str) -> str:
        result = change.values.fresh(f"{change.node.output[0]}/{operator}")
        graph.node.add(op_type=operator, input=operands, output=[result])
        return result

    state, value = names["state"], names["value"]
    if "decay" in names:
        state = made("Mul", state, names["decay"])
    if "rate" in names:
        value = made("Mul", made("Sub", value, made("MatMul", names["keys"], state)), names["rate"])
    state = made("Add", state, made("Mul", names["key"], value))
    for side, listed in ((graph.input, names.values()), (graph.output, (state, made("MatMul", names["query"], state)))):
        for name in listed:
            side.add(name=name).type.tensor_type.elem_type = TensorProto.FLOAT
    return graph
