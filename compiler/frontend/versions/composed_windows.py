"""Windows of signals by older operators: sums of cosines over one period, in f64 until the last cast."""

from collections.abc import Sequence
from math import pi

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.compiler.frontend.versions.upward import Adapter

__all__ = ["blackman_window", "hamming_window", "hann_window"]


def _window(factors: Sequence[float]) -> Adapter:
    """What composes factors[0] + factors[1] cos(t) + factors[2] cos(2t) ..., where t makes one turn."""

    def adapt(change: Change) -> None:
        at = Steps(change)

        def constant(value: float) -> str:
            return change.tensor(np.array(value, np.float64), "constant")

        size = at("Cast", change.input(0), to=TensorProto.DOUBLE)
        is_periodic = change.integer("periodic", 1)
        period = size if is_periodic else at("Max", at("Sub", size, constant(1)), constant(1))
        steps = at("Range", constant(0), size, constant(1))
        turn = at("Div", at("Mul", steps, constant(2 * pi)), period)
        # The constant comes last: in this order the middle of a window is 1, which a cast to integers must not miss.
        waves = [
            at("Mul", at("Cos", at("Mul", turn, constant(harmonic))), constant(factor))
            for harmonic, factor in enumerate(factors[1:], start=1)
        ]
        total = waves[0]
        for wave in waves[1:]:
            total = at("Add", total, wave)
        element = change.integer("output_datatype", TensorProto.FLOAT)
        at.become("Cast", at("Add", total, constant(factors[0])), to=element)

    return adapt


hann_window = _window((0.5, -0.5))
hamming_window = _window((25 / 46, 25 / 46 - 1))
blackman_window = _window((0.42, -0.5, 0.08))
