"""LSTM: a recurrent layer with a cell state behind an input, an output and a forget gate."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.recurrent_cells import (
    ByWeights,
    Cell,
    Direction,
    Kind,
    both_biases,
    lower_recurrent,
    of_floats,
)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value

# The order of the gates in W, R and B, and of the peepholes in P.
INPUT, OUTPUT, FORGET, CELL = range(4)


@operator("LSTM", since=(1, 7, 14, 22))
def lstm(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """X, W, R, B, sequence_lens, initial_h, initial_c, P  ->  Y, Y_h, Y_c (shapes: recurrent_cells.py)

    `clip` bounds the arguments of the gates, not that of h: the text says "the input of activations", and the runtimes
    that exporters write for leave the cell state as it is. With `input_forget` the forget gate is 1 - the input gate.
    Source: https://onnx.ai/onnx/operators/onnx__LSTM.html
    """
    return lower_lstm(node, of_floats, ir)


def lower_lstm(node: Node, by_weights: ByWeights, ir: Builder) -> tuple[Value | None, ...]:
    """Y, Y_h and Y_c, where inputs and states are multiplied by weights so."""
    cell = _cell(by_weights, is_coupled=node.flag("input_forget"))
    kind = Kind(4, ("initial_h", "initial_c"), ("Sigmoid", "Tanh", "Tanh"), cell, both_biases, by_weights)
    return lower_recurrent(kind, node, ir)


def _cell(by_weights: ByWeights, *, is_coupled: bool) -> Cell:
    def step(direction: Direction, projected: Value, states: Sequence[Value], ir: Builder) -> tuple[Value, ...]:
        """it, ft = f(... + P Ct-1); Ct = ft Ct-1 + it g(...); ot = f(... + Po Ct); Ht = ot h(Ct)"""
        hidden, cell = states
        total = ir.add(projected, by_weights("R", direction, hidden, ir))

        def gate(index: int, seen: Value) -> Value:
            x = direction.gates(total, index, 1, ir)
            if direction.peepholes is not None:
                x = ir.add(x, ir.mul(direction.gates(direction.peepholes, index, 1, ir), seen))
            return direction.activate(0, x, ir)

        enters = gate(INPUT, cell)
        stays = ir.sub(1, enters) if is_coupled else gate(FORGET, cell)
        candidate = direction.activate(1, direction.gates(total, CELL, 1, ir), ir)
        after = ir.add(ir.mul(stays, cell), ir.mul(enters, candidate))
        return ir.mul(gate(OUTPUT, after), direction.activations[2](after, ir)), after

    return step
