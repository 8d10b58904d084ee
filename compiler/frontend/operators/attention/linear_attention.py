"""LinearAttention: a state of key-value products, decayed and corrected token by token, and read by queries."""

from collections.abc import Sequence
from typing import NoReturn

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.broadcasting import expect_spreads
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size, floordiv
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.module import Block, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.records import record

RULE = "ONNX LinearAttention"
SHAPE = "linear-attention-shape"
HEADS = "linear-attention-heads"
# update rule: whether the state decays, whether what it already holds is subtracted
UPDATE_RULES = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}


@record
class _Token:
    """f32 operands of a step: query [B, G, R, K], key [B, G, K], value [B, G, V], decay [B, G, K|1], rate [B, G|1, 1].

    The same with a leading axis are the operands of all steps.
    """

    query: Value
    key: Value
    value: Value
    decay: Value | None
    rate: Value | None

    def values(self) -> tuple[Value, ...]:
        every = (self.query, self.key, self.value, self.decay, self.rate)
        return tuple(value for value in every if value is not None)

    def replaced(self, values: Sequence[Value]) -> "_Token":
        """The same operands, with other values in the order of `values()`."""
        rest = iter(values)
        query, key, value = next(rest), next(rest), next(rest)
        decay = None if self.decay is None else next(rest)
        return _Token(query, key, value, decay, None if self.rate is None else next(rest))


@operator("LinearAttention", since=(27,))
def linear_attention(node: Node, ir: Builder) -> tuple[Value, Value]:
    """query: T[B, L, Hq * K], key: T[B, L, G * K], value: T[B, L, G * V], past_state: S[B, G, K, V], decay, beta

    ->  output: T[B, L, Hq * V], present_state: S[B, G, K, V]. The steps are computed in f32.
    Source: https://onnx.ai/onnx/operators/onnx__LinearAttention.html
    """
    query, key = node.inputs("query", "key")
    return read_states(query, key, node.int("q_num_heads"), node, ir)


def read_states(query: Value, key: Value, heads: int, node: Node, ir: Builder) -> tuple[Value, Value]:
    """What LinearAttention gives for a query of `heads` heads and a key; the other operands are those of the node."""
    tokens = _tokens(query, key, heads, node, ir)
    length, batch, groups, shared, _ = tokens.query.shape
    width = tokens.value.shape[3]
    past = node.optional("past_state")
    state_shape = (batch, groups, tokens.key.shape[3], width)
    state = ir.full(state_shape, 0, F32) if past is None else _as_state(past, state_shape, node, ir)
    if length == 1:
        state, output = _step(tokens.replaced([ir.squeeze(value, [0]) for value in tokens.values()]), state, ir)
        outputs = ir.unsqueeze(output, [0])
    else:
        state, outputs = _steps(tokens, state, ir)
    outputs = ir.mul(outputs, _scale(tokens.key.shape[3], node, ir))
    rows = ir.transpose(outputs, (1, 0, 2, 3, 4))
    packed = ir.reshape(rows, (batch, length, groups * shared * width))
    return ir.cast(packed, query.dtype), ir.cast(state, query.dtype if past is None else past.dtype)


def _fail(node: Node, code: str, message: str) -> NoReturn:
    node.fail(code, message, rule=RULE)


def _tokens(query: Value, key: Value, heads: int, node: Node, ir: Builder) -> _Token:
    """The operands of all steps, time first, heads apart."""
    value, groups = node.input("value"), node.int("kv_num_heads")
    if groups < 1 or heads < 1 or heads % groups:
        _fail(node, HEADS, f"{heads} query heads cannot share {groups} key heads")
    gates, corrects = UPDATE_RULES[node.choice("update_rule", tuple(UPDATE_RULES))]
    decay, rate = node.optional("decay"), node.optional("beta")
    for name, given, wanted in (("decay", decay, gates), ("beta", rate, corrects)):
        if (given is not None) != wanted:
            _fail(
                node,
                "linear-attention-gates",
                f"update_rule {node.string('update_rule')} {'needs' if wanted else 'does not take'} {name}",
            )
    for operand in (query, key, value, decay, rate):
        if operand is not None and operand.rank != 3:
            _fail(node, SHAPE, f"an operand is {operand.type}, not of rank 3")
    batch, length, _ = query.shape
    batch, key_width, value_width = _sizes_of_state(batch, node)
    query = of_shape(query, (batch, length, _packed(heads, key_width)), "query", node, ir, SHAPE)
    key = of_shape(key, (batch, length, _packed(groups, key_width)), "key", node, ir, SHAPE)
    value = of_shape(value, (batch, length, _packed(groups, value_width)), "value", node, ir, SHAPE)
    decay, rate = (
        None if x is None else of_shape(x, (batch, length, None), name, node, ir, SHAPE)
        for name, x in (("decay", decay), ("beta", rate))
    )
    by_group = _by_heads(query, "query", heads, node, ir)
    length, batch, _, width = by_group.shape
    keys = _by_heads(key, "key", groups, node, ir)
    width = ir.require_equal(width, keys.shape[3], "the widths of query and key differ", SHAPE)
    keys = ir.with_shape(keys, (length, batch, groups, width))
    return _Token(
        ir.reshape(by_group, (length, batch, groups, heads // groups, width)),
        keys,
        _by_heads(value, "value", groups, node, ir),
        None if decay is None else _decay(decay, groups, width, node, ir),
        None if rate is None else _rate(rate, groups, ir),
    )


def _sizes_of_state(batch: Dim, node: Node) -> tuple[Dim, Dim | None, Dim | None]:
    """The batch and the widths of keys and values, as far as past_state has them as integers."""
    past = node.optional("past_state")
    if past is None or past.rank != 4:
        return batch, None, None
    rows, _, *widths = (size if isinstance(size, int) else None for size in past.shape)
    return batch if rows is None else rows, widths[0], widths[1]


def _packed(heads: int, width: Dim | None) -> Dim | None:
    return None if width is None else heads * width


def _decay(decay: Value, groups: int, width: Dim, node: Node, ir: Builder) -> Value:
    """f32[L, B, G, K|1]"""
    by_group = _by_heads(decay, "decay", groups, node, ir)
    expect_spreads(by_group.shape[3], width, "decay has neither one value per head nor one per feature", ir, SHAPE)
    return by_group


def _rate(rate: Value, groups: int, ir: Builder) -> Value:
    """f32[L, B, G|1, 1]"""
    batch, length, heads = rate.shape
    expect_spreads(heads, groups, "beta has neither one value for all heads nor one per head", ir, SHAPE)
    return ir.transpose(ir.reshape(ir.cast(rate, F32), (batch, length, heads, 1)), (1, 0, 2, 3))


def _by_heads(x: Value, name: str, heads: int, node: Node, ir: Builder) -> Value:
    """T[B, L, H * D] -> f32[L, B, H, D]"""
    batch, length, packed = x.shape
    if isinstance(packed, int) and packed % heads:
        _fail(node, SHAPE if name == "decay" else HEADS, f"{packed} features of {name} are not those of {heads} heads")
    apart = ir.reshape(ir.cast(x, F32), (batch, length, heads, floordiv(packed, heads)))
    return ir.transpose(apart, (1, 0, 2, 3))


def _as_state(past: Value, shape: tuple[Dim, ...], node: Node, ir: Builder) -> Value:
    if past.rank != 4:
        _fail(node, SHAPE, f"past_state is {past.type}, not of rank 4")
    for axis, (own, wanted) in enumerate(zip(past.shape, shape, strict=True)):
        ir.require_equal(own, wanted, f"axis {axis} of past_state does not fit", SHAPE)
    return ir.with_shape(ir.cast(past, F32), shape)


def _scale(width: Dim, node: Node, ir: Builder) -> Value:
    """f32[]: the attribute, or 1 / sqrt(K) where that is 0."""
    if node.float("scale") != 0:
        return ir.scalar(node.float("scale"), F32)
    return ir.reciprocal(ir.sqrt(ir.cast(ir.size(width), F32)))


def _step(token: _Token, state: Value, ir: Builder) -> tuple[Value, Value]:
    """The new state f32[B, G, K, V], and what the queries read from it: f32[B, G, R, V]"""
    value = token.value
    if token.decay is not None:
        state = ir.mul(state, ir.unsqueeze(ir.exp(token.decay), [3]))
    if token.rate is not None:
        held = ir.dot(state, token.key, "bgkv,bgk->bgv")
        value = ir.mul(ir.sub(value, held), token.rate)
    state = ir.add(state, ir.mul(ir.unsqueeze(token.key, [3]), ir.unsqueeze(value, [2])))
    return state, ir.dot(token.query, state, "bgrk,bgkv->bgrv")


def _steps(tokens: _Token, state: Value, ir: Builder) -> tuple[Value, Value]:
    """The state after all steps, and what was read in each: f32[L, B, G, R, V]"""
    length, batch, groups, shared, _ = tokens.query.shape
    read = (batch, groups, shared, tokens.value.shape[3])
    symbol = ir.symbols.fresh("tokens")
    last, outputs = ir.while_(
        limit=ir.size(length),
        condition=ir.scalar(True, BOOL),
        carried=(state,),
        captures=tokens.values(),
        body=_body(tokens, state, ir),
        types=(state.type, TensorType(F32, (Size.symbol(symbol), *read))),
        symbol=symbol,
    )
    return last, ir.with_shape(outputs, (length, *read))


def _body(tokens: _Token, state: Value, outer: Builder) -> Block:
    """(step: i64[], state, all operands) -> true, the new state, what is read"""
    ir = outer.nested()
    step, before = ir.parameter("step", TensorType(I64, ())), ir.parameter("state", state.type)
    names = ("query", "key", "value", "decay", "rate")
    captured = [ir.parameter(name, value.type) for name, value in zip(names, tokens.values(), strict=False)]
    token = tokens.replaced([ir.gather(value, step, 0) for value in captured])
    after, output = _step(token, before, ir)
    return ir.block((step, before, *captured), (ir.scalar(True, BOOL), after, output))
