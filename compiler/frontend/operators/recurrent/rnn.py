"""RNN: a recurrent layer of one gate."""

from collections.abc import Sequence

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.recurrent_cells import Direction, Kind, both_biases, lower_recurrent
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value


@operator("RNN", since=(1, 7, 14, 22))
def rnn(node: Node, ir: Builder) -> tuple[Value | None, ...]:
    """X, W, R, B, sequence_lens, initial_h  ->  Y, Y_h (shapes: recurrent.py)

    Source: https://onnx.ai/onnx/operators/onnx__RNN.html
    """
    return lower_recurrent(KIND, node, ir)


def _cell(direction: Direction, projected: Value, states: Sequence[Value], ir: Builder) -> tuple[Value, ...]:
    """Ht = f(Xt W' + Ht-1 R' + Wb + Rb)"""
    total = ir.add(projected, ir.dot(states[0], direction.weights, "bh,gh->bg"))
    return (direction.activate(0, total, ir),)


KIND = Kind(1, ("initial_h",), ("Tanh",), _cell, both_biases)
