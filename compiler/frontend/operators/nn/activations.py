"""Activation functions: pointwise formulas, computed in f32 for 16-bit floats and rounded once.

X: T[...]  ->  Y: T[...]

Source: https://onnx.ai/onnx/operators/
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.open_ranks.common_rank import ElementLowering, at_common_rank
from onnxc.compiler.frontend.operator_helpers.precision import in_wide, real_type, softplus, widened
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

Formula = Callable[[Value, Node, Builder], Value]


def _leaky_relu(x: Value, node: Node, ir: Builder) -> Value:
    """x, or alpha * x below 0"""
    return ir.select(ir.less(x, 0), ir.mul(x, node.float("alpha")), x)


def _elu(x: Value, node: Node, ir: Builder) -> Value:
    """x, or alpha * (exp(x) - 1) below 0"""
    return ir.select(ir.less(x, 0), ir.mul(ir.sub(ir.exp(x), 1), node.float("alpha")), x)


def _selu(x: Value, node: Node, ir: Builder) -> Value:
    """gamma * x above 0, else gamma * alpha * (exp(x) - 1)"""
    alpha, gamma = node.float("alpha"), node.float("gamma")
    return ir.mul(ir.select(ir.less(0, x), x, ir.mul(ir.sub(ir.exp(x), 1), alpha)), gamma)


def _celu(x: Value, node: Node, ir: Builder) -> Value:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))"""
    alpha = node.float("alpha")
    bent = ir.mul(ir.sub(ir.exp(ir.div(x, alpha)), 1), alpha)
    return ir.add(ir.max(x, 0), ir.min(bent, 0))


def _thresholded_relu(x: Value, node: Node, ir: Builder) -> Value:
    """x above alpha, else 0"""
    return ir.select(ir.greater(x, node.float("alpha")), x, 0)


def _hard_sigmoid(x: Value, node: Node, ir: Builder) -> Value:
    """max(0, min(1, alpha * x + beta))"""
    return ir.clamp(ir.add(ir.mul(x, node.float("alpha")), node.float("beta")), 0, 1)


def _hard_swish(x: Value, node: Node, ir: Builder) -> Value:
    """x * max(0, min(1, x / 6 + 1 / 2))"""
    return ir.mul(x, ir.clamp(ir.add(ir.mul(x, 1 / 6), 0.5), 0, 1))


def _softplus(x: Value, node: Node, ir: Builder) -> Value:
    """log(exp(x) + 1)"""
    return softplus(x, ir)


def _mish(x: Value, node: Node, ir: Builder) -> Value:
    """x * tanh(softplus(x))"""
    return ir.mul(x, ir.tanh(softplus(x, ir)))


def _softsign(x: Value, node: Node, ir: Builder) -> Value:
    """x / (1 + |x|)"""
    return ir.div(x, ir.add(ir.abs(x), 1))


def _swish(x: Value, node: Node, ir: Builder) -> Value:
    """x * sigmoid(alpha * x)"""
    alpha = node.float("alpha")
    return ir.mul(x, ir.sigmoid(x if alpha == 1 else ir.mul(x, alpha)))


# operator: formula, versions
ROWS: dict[str, tuple[Formula, Sequence[int]]] = {
    "Celu": (_celu, (12, 28)),
    "Elu": (_elu, (1, 6, 22)),
    "HardSigmoid": (_hard_sigmoid, (1, 6, 22)),
    "HardSwish": (_hard_swish, (14, 22)),
    "LeakyRelu": (_leaky_relu, (1, 6, 16)),
    "Mish": (_mish, (18, 22)),
    "Relu": (lambda x, node, ir: ir.relu(x), (1, 6, 13, 14)),
    "Selu": (_selu, (1, 6, 22)),
    "Sigmoid": (lambda x, node, ir: ir.sigmoid(x), (1, 6, 13)),
    "Softplus": (_softplus, (1, 22)),
    "Softsign": (_softsign, (1, 22)),
    "Swish": (_swish, (24,)),
    "ThresholdedRelu": (_thresholded_relu, (10, 22)),
}


def _lowering(formula: Formula) -> ElementLowering:
    def lower(node: Node, ir: Builder) -> Value:
        (x,) = node.variadic()
        return in_wide(lambda wide: formula(wide, node, ir), x, ir)

    return lower


for _name, (_formula, _since) in ROWS.items():
    operator(_name, since=_since)(at_common_rank(_lowering(_formula)))


@operator("SwiGLU", since=(28,))
def swiglu(node: Node, ir: Builder) -> Value:
    """A: T[...], B: T[...] of the same shape  ->  A * sigmoid(alpha * A) * B

    Source: https://onnx.ai/onnx/operators/onnx__SwiGLU.html
    """
    gate, linear = node.inputs("A", "B")
    if gate.rank != linear.rank:
        node.fail("shapes-differ", f"the ranks differ: {gate.rank} and {linear.rank}", rule="ONNX SwiGLU")
    shape = [
        ir.require_equal(left, right, f"axis {axis} of A and B differs", "shapes-differ")
        for axis, (left, right) in enumerate(zip(gate.shape, linear.shape, strict=True))
    ]
    gate, linear = ir.with_shape(gate, shape), ir.with_shape(linear, shape)
    activated = _swish(widened(gate, ir), node, ir)
    return ir.cast(ir.mul(activated, widened(linear, ir)), gate.dtype)


@operator("Gelu", since=(20,))
@at_common_rank
def gelu(node: Node, ir: Builder) -> Value:
    """X: T[...]  ->  X / 2 * (1 + erf(X / sqrt(2))), or its approximation by tanh

    Source: https://onnx.ai/onnx/operators/onnx__Gelu.html
    """
    return ir.gelu(node.input("X"), node.choice("approximate", ("none", "tanh")))


@operator("Shrink", since=(9,))
@at_common_rank
def shrink(node: Node, ir: Builder) -> Value:
    """input: T[...]  ->  x + bias below -lambd, x - bias above lambd, else 0; integers are computed as floats

    Source: https://onnx.ai/onnx/operators/onnx__Shrink.html
    """
    x = node.input("input")
    wide = ir.cast(x, real_type(x.dtype))
    threshold, bias = node.float("lambd"), node.float("bias")
    lower, upper = ir.less(wide, -threshold), ir.greater(wide, threshold)
    shrunk = ir.select(lower, ir.add(wide, bias), ir.select(upper, ir.sub(wide, bias), 0))
    return ir.cast(shrunk, x.dtype)
