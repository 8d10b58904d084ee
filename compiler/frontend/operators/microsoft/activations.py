"""Activations of com.microsoft, with the biases and sums that are fused into them; 16-bit floats are rounded once."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.precision import in_wide, widened
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import floordiv
from onnxc.compiler.ir.module import Value

CODE = "bias-shape"


def with_last_axis_bias(x: Value, name: str, node: Node, ir: Builder) -> Value:
    """x: T[..., C] in its wide type, plus the input `name`: T[C], where it is given"""
    bias, wide = node.optional(name), widened(x, ir)
    if bias is None:
        return wide
    if x.rank == 0:
        node.fail(CODE, f"{name} is added to a scalar", rule=f"ONNX Runtime {node.operator}, {name}")
    return ir.add(wide, widened(of_shape(bias, x.shape[-1:], name, node, ir, CODE), ir))


@operator("Gelu", since=(1,), domain=MICROSOFT)
def gelu(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  X / 2 * (1 + erf(X / sqrt(2)))"""
    return ir.gelu(node.input("X"))


@operator("FastGelu", since=(1,), domain=MICROSOFT)
def fast_gelu(node: Node, ir: Builder) -> Value:
    """X: T[..., C], bias: T[C]?  ->  T[..., C], Gelu of X + bias, approximated by tanh"""
    x = node.input("X")
    return ir.cast(ir.gelu(with_last_axis_bias(x, "bias", node, ir), "tanh"), x.dtype)


@operator("BiasGelu", since=(1,), domain=MICROSOFT)
def bias_gelu(node: Node, ir: Builder) -> Value:
    """A: T[..., C], B: T[C]  ->  T[..., C], Gelu of A + B"""
    a = node.input("A")
    return ir.cast(ir.gelu(with_last_axis_bias(a, "B", node, ir)), a.dtype)


@operator("QuickGelu", since=(1,), domain=MICROSOFT)
def quick_gelu(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  X * sigmoid(alpha * X)"""
    alpha = node.float("alpha")
    return in_wide(lambda x: ir.mul(x, ir.sigmoid(ir.mul(x, alpha))), node.input("X"), ir)


@operator("BiasAdd", since=(1,), domain=MICROSOFT)
def bias_add(node: Node, ir: Builder) -> Value:
    """X: T[N, S, C], bias: T[C], skip: T[N, S, C]  ->  X + bias + skip"""
    x = node.input("X")
    skip = of_shape(node.input("skip"), x.shape, "skip", node, ir, CODE)
    return ir.cast(ir.add(with_last_axis_bias(x, "bias", node, ir), widened(skip, ir)), x.dtype)


@operator("BiasSplitGelu", since=(1,), domain=MICROSOFT)
def bias_split_gelu(node: Node, ir: Builder) -> Value:
    """X: T[N, S, D], bias: T[D]  ->  T[N, S, D/2]: the left half of X + bias times Gelu of the right half"""
    x = node.input("X")
    total = with_last_axis_bias(x, "bias", node, ir)
    half = floordiv(x.shape[-1], 2)
    left, right = (ir.slice_axis(total, x.rank - 1, start, half) for start in (0, half))
    return ir.cast(ir.mul(left, ir.gelu(right)), x.dtype)


@operator("BiasSoftmax", since=(1,), domain=MICROSOFT)
def bias_softmax(node: Node, ir: Builder) -> Value:
    """data: T[...], bias: T[...]  ->  T[...]: softmax over the axes from `axis` on of data + bias

    The leading axes of the bias that are not those of the data are repeated: next to `axis` where is_inner_broadcast
    is set, else before all others.
    """
    data, bias = node.inputs("data", "bias")
    axis = node.axis("axis", rank=data.rank)
    if node.flag("is_inner_broadcast"):
        own = bias.rank - (data.rank - axis)
        bias = ir.unsqueeze(bias, range(own, own + data.rank - bias.rank)) if bias.rank < data.rank else bias
    total, _ = ir.broadcast_together(ir.add(widened(data, ir), widened(bias, ir)), data)
    weights = ir.softmax(total, axis) if axis == data.rank - 1 else _of_rows(total, axis, ir)
    return ir.cast(weights, data.dtype)


def _of_rows(x: Value, axis: int, ir: Builder) -> Value:
    """The softmax over all axes from `axis` on."""
    axes = range(axis, x.rank)
    powers = ir.exp(ir.sub(x, ir.reduce(x, "max", axes, keepdims=True)))
    return ir.div(powers, ir.reduce(powers, "sum", axes, keepdims=True))
