"""The activation functions of RNN, GRU and LSTM, by the names and with the parameters that these operators give them.

Source: https://onnx.ai/onnx/operators/onnx__LSTM.html
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.frontend.operator import Node
from onnxc.compiler.frontend.operator_helpers.precision import softplus
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

Formula = Callable[[Value, float, float, Builder], Value]


@record
class Row:
    """A function of (x, alpha, beta), with the defaults of those of the two that it has."""

    formula: Formula
    alpha: float | None = None
    beta: float | None = None


@record
class Activation:
    """A function with its parameters."""

    formula: Formula
    alpha: float
    beta: float

    def __call__(self, x: Value, ir: Builder) -> Value:
        return self.formula(x, self.alpha, self.beta, ir)


def _affine(x: Value, alpha: float, beta: float, ir: Builder) -> Value:
    """alpha * x + beta"""
    return ir.add(ir.mul(x, alpha), beta)


def _softplus(x: Value, alpha: float, beta: float, ir: Builder) -> Value:
    """log(1 + exp(x))"""
    return softplus(x, ir)


FUNCTIONS: dict[str, Row] = {
    "Affine": Row(_affine, 1.0, 0.0),
    "Elu": Row(lambda x, a, b, ir: ir.select(ir.less(x, 0), ir.mul(ir.sub(ir.exp(x), 1), a), x), 1.0),
    "HardSigmoid": Row(lambda x, a, b, ir: ir.clamp(_affine(x, a, b, ir), 0, 1), 0.2, 0.5),
    "LeakyRelu": Row(lambda x, a, b, ir: ir.select(ir.less(x, 0), ir.mul(x, a), x), 0.01),
    "Relu": Row(lambda x, a, b, ir: ir.relu(x)),
    "ScaledTanh": Row(lambda x, a, b, ir: ir.mul(ir.tanh(ir.mul(x, b)), a), 1.0, 1.0),
    "Sigmoid": Row(lambda x, a, b, ir: ir.sigmoid(x)),
    "Softplus": Row(_softplus),
    "Softsign": Row(lambda x, a, b, ir: ir.div(x, ir.add(ir.abs(x), 1))),
    "Tanh": Row(lambda x, a, b, ir: ir.tanh(x)),
    "ThresholdedRelu": Row(lambda x, a, b, ir: ir.select(ir.less(x, a), 0, x), 1.0),
}
BY_LOWER_NAME = {name.lower(): row for name, row in FUNCTIONS.items()}


def read_activations(node: Node, defaults: Sequence[str], directions: int) -> tuple[tuple[Activation, ...], ...]:
    """The functions of each direction. Parameters are handed out in order to those functions that take them.

    Names beyond those needed are left aside: the schema of RNN itself gives two as the default of one direction.
    """
    needed = len(defaults) * directions
    names = node.strings("activations", list(defaults) * directions)[:needed]
    if len(names) != needed:
        message = f"activations names {len(names)} functions, expected {needed}"
        node.fail("activation-count", message, rule=f"ONNX {node.operator}, attribute activations")
    alphas, betas = (iter(node.floats(f"activation_{name}", ())) for name in ("alpha", "beta"))
    activations = []
    for name in names:
        row = BY_LOWER_NAME.get(name.lower())
        if row is None:
            message = f"activation {name!r} is none of {', '.join(FUNCTIONS)}"
            node.fail("activation-name", message, rule=f"ONNX {node.operator}, attribute activations")
        alpha = 0.0 if row.alpha is None else next(alphas, row.alpha)
        beta = 0.0 if row.beta is None else next(betas, row.beta)
        activations.append(Activation(row.formula, alpha, beta))
    width = len(defaults)
    return tuple(tuple(activations[start : start + width]) for start in range(0, len(activations), width))
