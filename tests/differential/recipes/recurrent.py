"""RNN, GRU and LSTM, with their directions, layouts, activations and sequence lengths."""

import numpy as np

from tests.differential.draw import Draw, Parameter, Parts
from tests.differential.recipes.registry import recipe

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STAGES = {"RNN": 1, "GRU": 2, "LSTM": 3}
# Those without parameters, and those with alpha, or alpha and beta.
PLAIN = ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")
WITH_PARAMETERS = ("LeakyRelu", "ThresholdedRelu", "Elu", "HardSigmoid", "ScaledTanh", "Affine")


@recipe("RNN", "GRU", "LSTM")
def recurrent(d: Draw) -> Parts:
    name = d.schema.name
    gates, directions = GATES[name], 1
    named: dict[str, object] = {}
    direction = d.pick(["forward", "reverse", "bidirectional"])
    if direction != "forward" or d.flag(0.3):
        named["direction"] = direction
    directions = 2 if direction == "bidirectional" else 1
    length, batch, width, hidden = d.int(1, 4), d.int(1, 3), d.int(1, 3), d.int(1, 3)
    if d.flag(0.8) or d.since < 14:
        named["hidden_size"] = hidden
    is_batch_first = d.has("layout") and d.flag(0.3)
    if is_batch_first:
        named["layout"] = 1
    count = STAGES[name] * directions
    if d.flag(0.35):
        named["activations"] = [d.pick(PLAIN) for _ in range(count)]
    elif d.flag(0.15):
        named["activations"] = [d.pick(WITH_PARAMETERS) for _ in range(count)]
        named["activation_alpha"] = [0.5] * count
        named["activation_beta"] = [0.25] * count
    if d.flag(0.3):
        named["clip"] = d.real(0.3, 2)
    named |= d.attributes(linear_before_reset=d.int(0, 1)) if d.flag(0.6) else {}
    if d.flag(0.2):
        named |= d.exactly(input_forget=1)
    if d.has("output_sequence"):
        named["output_sequence"] = 1

    def weights(*shape: int) -> Parameter:
        return Parameter(d.tensor("T", shape, -1, 1))

    x_shape = (batch, length, width) if is_batch_first else (length, batch, width)
    state = (batch, directions, hidden) if is_batch_first else (directions, batch, hidden)
    inputs: list[object] = [
        d.tensor("T", x_shape, -2, 2), weights(directions, gates * hidden, width),
        weights(directions, gates * hidden, hidden),
        weights(directions, 2 * gates * hidden) if d.flag() else None,
        Parameter(np.array([d.int(1, length) for _ in range(batch)], np.int32)) if d.flag(0.4) else None,
        d.tensor("T", state, -1, 1) if d.flag(0.4) else None,
    ]  # fmt: skip
    if name == "LSTM":
        inputs += [
            d.tensor("T", state, -1, 1) if d.flag(0.4) else None,
            weights(directions, 3 * hidden) if d.flag(0.4) else None,
        ]
    while inputs[-1] is None:
        inputs.pop()
    all_outputs = len(d.schema.outputs)
    outputs = [f"out{i}" if i < d.schema.min_output or d.flag(0.7) else "" for i in range(all_outputs)]
    if not any(outputs):
        outputs[0] = "out0"
    while outputs[-1] == "":
        outputs.pop()
    return Parts(inputs, named, outputs, accumulates=True)
