"""Activations that attributes of a fused operator name, with their parameters."""

from collections.abc import Callable, Sequence

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.precision import softplus, widened
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

Formula = Callable[[Builder, Value, Sequence[float]], Value]


def _leaky_relu(ir: Builder, x: Value, parameters: Sequence[float]) -> Value:
    return ir.select(ir.less(x, 0), ir.mul(x, parameters[0]), x)


def _elu(ir: Builder, x: Value, parameters: Sequence[float]) -> Value:
    return ir.select(ir.less(x, 0), ir.mul(ir.sub(ir.exp(x), 1), parameters[0]), x)


def _hard_sigmoid(ir: Builder, x: Value, parameters: Sequence[float]) -> Value:
    return ir.clamp(ir.add(ir.mul(x, parameters[0]), parameters[1]), 0, 1)


def _hard_swish(ir: Builder, x: Value, _parameters: Sequence[float]) -> Value:
    return ir.mul(x, _hard_sigmoid(ir, x, (1 / 6, 0.5)))


def _selu(ir: Builder, x: Value, parameters: Sequence[float]) -> Value:
    return ir.mul(_elu(ir, x, parameters), parameters[1])


# activation: how many parameters it takes, formula
_ROWS: dict[str, tuple[int, Formula]] = {
    "Clip": (2, lambda ir, x, parameters: ir.clamp(x, parameters[0], parameters[1])),
    "Elu": (1, _elu),
    "HardSigmoid": (2, _hard_sigmoid),
    "HardSwish": (0, _hard_swish),
    "LeakyRelu": (1, _leaky_relu),
    "Relu": (0, lambda ir, x, parameters: ir.relu(x)),
    "Selu": (2, _selu),
    "Sigmoid": (0, lambda ir, x, parameters: ir.sigmoid(x)),
    "Softplus": (0, lambda ir, x, parameters: softplus(x, ir)),
    "Softsign": (0, lambda ir, x, parameters: ir.div(x, ir.add(ir.abs(x), 1))),
    "Tanh": (0, lambda ir, x, parameters: ir.tanh(x)),
    "ThresholdedRelu": (1, lambda ir, x, parameters: ir.select(ir.greater(x, parameters[0]), x, 0)),
}


def activated(x: Value, parameters: Sequence[float], node: Node, ir: Builder) -> Value:
    """`x` after the attribute `activation`, if there is one, in the type of `x`; 16-bit floats are rounded once."""
    name = node.string("activation", "")
    if not name:
        return x
    if name not in _ROWS:
        node.unsupported(f"activation {name} is none of {', '.join(_ROWS)}")
    count, formula = _ROWS[name]
    if len(parameters) < count:
        message = f"{name} takes {count} parameters, and {len(parameters)} are given"
        node.fail("attribute-length", message, rule=f"ONNX Runtime {node.operator}, attribute activation")
    return ir.cast(formula(ir, widened(x, ir), parameters), x.dtype)


def named_parameters(node: Node) -> tuple[float, ...]:
    """The attributes activation_alpha, activation_beta and activation_gamma, as far as they are given."""
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return tuple(node.float(name) for name in names if node.has(name))
