"""MoE and QMoE of com.microsoft: each token goes through the few experts that a router weighs most.

All experts compute all tokens, and the weights of those that a token does not go to are 0: the sum is the same, the
work is that of all experts.
"""

from collections.abc import Callable

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.linear_quantization import granular
from onnxc.compiler.frontend.operator_helpers.precision import widened
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.frontend.operators.microsoft.block_quantized import unpacked
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv, product
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

CODE = "expert-shape"
SEPARATE, INTERLEAVED, JOINED = range(3)

ACTIVATIONS: dict[str, Callable[[Value, Builder], Value]] = {
    "gelu": lambda x, ir: ir.gelu(x, "tanh"),
    "identity": lambda x, ir: x,
    "relu": lambda x, ir: ir.relu(x),
    "silu": lambda x, ir: ir.mul(x, ir.sigmoid(x)),
}

# The weights f32[E, O, I] of layer 1, 2 or 3 of the node.
_WeightsOf = Callable[[int, Node, Builder], Value | None]


@record
class _Layer:
    """weights: f32[E, O, I], bias: f32[E, O] or None"""

    weights: Value
    bias: Value | None

    def of(self, x: Value, equation: str, ir: Builder) -> Value:
        """f32[E, T, O] of f32[T, I] or f32[E, T, I]"""
        y = ir.dot(x, self.weights, equation)
        return y if self.bias is None else ir.add(y, ir.unsqueeze(self.bias, (1,)))


@operator("MoE", since=(1,), domain=MICROSOFT)
def mixture_of_experts(node: Node, ir: Builder) -> Value:
    """input: T[..., H], router_probs: T[tokens, E], fc1: T[E, F, H], fc2: T[E, H, F], fc3: T[E, F, H]?  ->  T[..., H]

    The sum, over the k experts that the router weighs most, of weight * fc2(activation(fc1(x)) * fc3(x)). The weights
    are a softmax of router_probs over all experts; with normalize_routing_weights those of a token sum to 1.
    """
    return _mixed(node, _plain, ir)


@operator("QMoE", since=(1,), domain=MICROSOFT)
def quantized_mixture_of_experts(node: Node, ir: Builder) -> Value:
    """As MoE, of weights u8[E, O, I * bits / 8], scales T[E, O] or T[E, O, blocks], and zero points of u8, packed too

    The zero point is 2^(bits - 1) where none is given.
    """
    if node.string("quant_type") != "int" or node.int("weights_prepacked") == 1:
        node.unsupported("the weights are no plain integers; quantise them with quant_type int and do not pack them")
    if node.optional("router_weights") is not None:
        node.unsupported("router_weights are given; let router_probs weigh the experts")
    return _mixed(node, _dequantized, ir)


def _mixed(node: Node, weights_of: _WeightsOf, ir: Builder) -> Value:
    if node.flag("use_sparse_mixer"):
        node.unsupported("use_sparse_mixer is set; route by a softmax")
    x, hidden = node.input("input"), node.input("input").shape[-1]
    tokens = product(x.shape[:-1])
    rows = ir.reshape(widened(x, ir), (tokens, hidden))
    routing = _routing(tokens, node, ir)
    experts = routing.shape[1]
    entering = _entering(rows, experts, node, weights_of, ir)
    last = _layer(2, (experts, hidden, entering.shape[2]), node, weights_of, ir)
    if last is None:
        node.fail("missing-input", "the weights of fc2 are left out", rule=f"ONNX Runtime {node.operator}, inputs")
    y = last.of(entering, "eti,eoi->eto", ir)
    mixed = ir.reduce(ir.mul(y, ir.unsqueeze(ir.transpose(routing, (1, 0)), (2,))), "sum", (0,))
    return ir.cast(ir.reshape(mixed, x.shape), x.dtype)


def _routing(tokens: Dim, node: Node, ir: Builder) -> Value:
    """f32[tokens, E]: the weight of each expert, 0 for those that a token does not go to"""
    scores = widened(of_shape(node.input("router_probs"), (tokens, None), "router_probs", node, ir, CODE), ir)
    weights, experts = ir.top_k(ir.softmax(scores, 1), node.int("k"), 1)
    if node.flag("normalize_routing_weights"):
        weights = ir.div(weights, ir.reduce(weights, "sum", (1,), keepdims=True))
    return ir.scatter_along(ir.full(scores.shape, 0, scores.dtype), experts, weights, 1, "set")


def _layer(
    ordinal: int, shape: tuple[Dim | None, ...], node: Node, weights_of: _WeightsOf, ir: Builder
) -> _Layer | None:
    name = f"fc{ordinal}_experts_weights"
    weights, bias = weights_of(ordinal, node, ir), node.optional(f"fc{ordinal}_experts_bias")
    if weights is None:
        return None
    weights = of_shape(weights, shape, name, node, ir, CODE)
    if bias is not None:
        bias = widened(of_shape(bias, weights.shape[:2], f"fc{ordinal}_experts_bias", node, ir, CODE), ir)
    return _Layer(weights, bias)


def _plain(ordinal: int, node: Node, ir: Builder) -> Value | None:
    weights = node.optional(f"fc{ordinal}_experts_weights")
    return None if weights is None else widened(weights, ir)


def _dequantized(ordinal: int, node: Node, ir: Builder) -> Value | None:
    """f32[E, O, I]"""
    weights, zeros = node.optional(f"fc{ordinal}_experts_weights"), node.optional(f"fc{ordinal}_zero_points")
    if weights is None:
        return None
    bits = node.int(f"fc{ordinal}_expert_weight_bits", 0) or node.int("expert_weight_bits")
    if bits not in (2, 4, 8):
        node.unsupported(f"expert_weight_bits is {bits}, and elements of 2, 4 and 8 bits are known")
    elements = ir.cast(unpacked(weights, bits, ir), F32)
    scales = widened(node.input(f"fc{ordinal}_scales"), ir)
    # Packed along the blocks of a row, or where there are none along the rows.
    shift = ir.full(scales.shape, 1 << bits - 1, F32)
    if zeros is not None:
        shift = ir.cast(ir.slice(unpacked(zeros, bits, ir), (0,) * scales.rank, scales.shape), F32)
    if scales.rank == 2:
        scales, shift = ir.unsqueeze(scales, (2,)), ir.unsqueeze(shift, (2,))
    block = node.int("block_size", 0)
    if not block:
        return ir.mul(ir.sub(elements, shift), scales)
    factors = [granular(value, elements.shape, 2, block, node, ir) for value in (shift, scales)]
    return ir.mul(ir.sub(elements, factors[0]), factors[1])


def _entering(rows: Value, experts: Dim, node: Node, weights_of: _WeightsOf, ir: Builder) -> Value:
    """f32[E, T, F]: what fc2 is applied to"""
    shape = (experts, None, rows.shape[1])
    first, third = (_layer(ordinal, shape, node, weights_of, ir) for ordinal in (1, 3))
    if first is None:
        node.fail("missing-input", "the weights of fc1 are left out", rule=f"ONNX Runtime {node.operator}, inputs")
    y = first.of(rows, "ti,eoi->eto", ir)
    name = node.choice("activation_type", (*ACTIVATIONS, "swiglu"))
    if name == "swiglu":
        return _swiglu(y, None if third is None else third.of(rows, "ti,eoi->eto", ir), node, ir)
    y = ACTIVATIONS[name](y, ir)
    return y if third is None else ir.mul(y, third.of(rows, "ti,eoi->eto", ir))


def _swiglu(gate: Value, linear: Value | None, node: Node, ir: Builder) -> Value:
    """G * sigmoid(alpha * G) * (L + beta), of halves of fc1 that alternate or follow each other, or of fc1 and fc3"""
    fusion, half = node.int("swiglu_fusion"), floordiv(gate.shape[2], 2)
    if fusion == INTERLEAVED:
        gate, linear = (ir.slice_axis(gate, 2, start, half, 2) for start in (0, 1))
    elif fusion == JOINED:
        gate, linear = (ir.slice_axis(gate, 2, start, half) for start in (0, half))
    if linear is None:
        node.fail("missing-input", "the weights of fc3 are left out", rule=f"ONNX Runtime {node.operator}, inputs")
    if node.flag("swiglu_limit_after_activation", False):
        node.unsupported("swiglu_limit_after_activation is set, which ONNX Runtime has for one kind of device")
    if node.has("swiglu_limit"):
        limit = node.float("swiglu_limit")
        gate, linear = ir.min(gate, limit), ir.clamp(linear, -limit, limit)
    activated = ir.mul(gate, ir.sigmoid(ir.mul(gate, node.float("activation_alpha"))))
    return ir.mul(activated, ir.add(linear, node.float("activation_beta")))
