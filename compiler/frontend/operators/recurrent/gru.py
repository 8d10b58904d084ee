"""GRU: a recurrent layer with an update and a reset gate."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.recurrent_cells import Cell, Direction, Kind, both_biases, lower_recurrent
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

# The order of the gates in W, R and B.
UPDATE, RESET, HIDDEN = range(3)


@operator("GRU", since=(1, 3, 7, 14, 22))
def gru(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """X, W, R, B, sequence_lens, initial_h  ->  Y, Y_h (shapes: recurrent.py)

    Source: https://onnx.ai/onnx/operators/onnx__GRU.html
    """
    is_linear_first = node.flag("linear_before_reset", False)
    outer_bias = _bias_of_linear_first if is_linear_first else both_biases
    kind = Kind(3, ("initial_h",), ("Sigmoid", "Tanh"), _cell(is_linear_first=is_linear_first), outer_bias)
    return lower_recurrent(kind, node, ir)


def _bias_of_linear_first(direction: Direction, ir: Builder) -> Value | None:
    """Wb + Rb, but Wb alone for the hidden gate, whose Rb is reset."""
    if direction.input_bias is None or direction.bias is None:
        return None
    gates = direction.gates(direction.bias, UPDATE, 2, ir)
    return ir.add(direction.input_bias, ir.pad(gates, (0,), (direction.hidden,)))


def _cell(*, is_linear_first: bool) -> Cell:
    def step(direction: Direction, projected: Value, states: Sequence[Value], ir: Builder) -> tuple[Value, ...]:
        """zt, rt = f(...); ht = g(Xt Wh' + Wbh + (rt Ht-1) Rh' + Rbh); Ht = (1 - zt) ht + zt Ht-1

        Where the linear part comes first, ht = g(Xt Wh' + Wbh + rt (Ht-1 Rh' + Rbh)).
        """
        (before,) = states
        gates = ir.dot(before, direction.gate_weights(UPDATE, 2, ir), "bh,gh->bg")
        gates = direction.activate(0, ir.add(direction.gates(projected, UPDATE, 2, ir), gates), ir)
        update, reset = (direction.gates(gates, gate, 1, ir) for gate in (UPDATE, RESET))
        weights = direction.gate_weights(HIDDEN, 1, ir)
        if is_linear_first:
            linear = ir.dot(before, weights, "bh,gh->bg")
            if direction.bias is not None:
                linear = ir.add(linear, direction.gates(direction.bias, HIDDEN, 1, ir))
            recurrent = ir.mul(reset, linear)
        else:
            recurrent = ir.dot(ir.mul(reset, before), weights, "bh,gh->bg")
        candidate = direction.activate(1, ir.add(direction.gates(projected, HIDDEN, 1, ir), recurrent), ir)
        return (ir.add(ir.mul(ir.sub(1, update), candidate), ir.mul(update, before)),)

    return step
