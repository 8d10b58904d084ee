"""RNN, GRU and LSTM, one sequence and one step at a time, by the equations of their texts."""

from collections.abc import Callable

import numpy as np

from tests.differential.independent.registry import Given, computes

Function = Callable[[np.ndarray, float, float], np.ndarray]

ACTIVATIONS: dict[str, Function] = {
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Softplus": lambda x, a, b: np.logaddexp(x, 0),
    "LeakyRelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "ThresholdedRelu": lambda x, a, b: np.where(x >= a, x, 0),
    "Elu": lambda x, a, b: np.where(x >= 0, x, a * (np.exp(x) - 1)),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Affine": lambda x, a, b: a * x + b,
}
WITH_ALPHA = ("LeakyRelu", "ThresholdedRelu", "Elu", "HardSigmoid", "ScaledTanh", "Affine")
WITH_BETA = ("HardSigmoid", "ScaledTanh", "Affine")
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def activations(g: Given, directions: int) -> list[Callable[[np.ndarray], np.ndarray]]:
    """The functions of all directions, with the parameters that they take from the lists in turn."""
    given = g.attribute("activations")
    names = [str(n) for n in given] if given else DEFAULTS[g.node.op_type] * directions
    alphas, betas = list(g.floats("activation_alpha")), list(g.floats("activation_beta"))
    found = []
    for name in names:
        alpha = float(alphas.pop(0)) if name in WITH_ALPHA and alphas else 1.0
        beta = float(betas.pop(0)) if name in WITH_BETA and betas else 0.0
        found.append(lambda x, f=ACTIVATIONS[name], a=alpha, b=beta: f(x, a, b))
    return found


@computes("RNN", "GRU", "LSTM")
def recurrent(g: Given) -> list[object]:
    name = g.node.op_type
    direction = g.text("direction", "forward")
    batch_first = g.int("layout", 0) == 1
    x = g.wide(0).swapaxes(0, 1) if batch_first else g.wide(0)
    w, r, b, lengths = g.wide(1), g.wide(2), g.optional(3), g.optional(4)
    directions, hidden = w.shape[0], r.shape[2]
    states = [g.optional(5), g.optional(6) if name == "LSTM" else None]
    states = [s if s is None or not batch_first else s.swapaxes(0, 1) for s in states]
    peepholes = g.optional(7) if name == "LSTM" else None
    functions = activations(g, directions)
    width = len(functions) // directions
    y = np.zeros((x.shape[0], directions, x.shape[1], hidden))
    last = np.zeros((2, directions, x.shape[1], hidden))
    for d in range(directions):
        parameters = {
            "W": w[d],
            "R": r[d],
            "B": np.zeros(2 * w.shape[1]) if b is None else b[d].astype(np.float64),
            "P": np.zeros(3 * hidden) if peepholes is None else peepholes[d].astype(np.float64),
        }
        for n in range(x.shape[1]):
            length = x.shape[0] if lengths is None else int(lengths[n])
            state = [np.zeros(hidden) if s is None else s[d, n].astype(np.float64) for s in states]
            order = range(length)
            for t in reversed(order) if direction == "reverse" or d == 1 else order:
                state = step(g, x[t, n], state, parameters, functions[d * width : (d + 1) * width])
                y[t, d, n] = state[0]
            last[:, d, n] = state if length else 0
    if batch_first:
        y, last = y.transpose(2, 0, 1, 3), last.swapaxes(1, 2)
    return [y, last[0], last[1]][: 3 if name == "LSTM" else 2]


def step(
    g: Given, x: np.ndarray, state: list[np.ndarray], p: dict[str, np.ndarray], functions: list[Callable]
) -> list[np.ndarray]:
    h, c = state
    bound = g.number("clip") if g.has("clip") else np.inf
    f = [lambda v, own=own: own(np.clip(v, -bound, bound)) for own in functions]
    count = p["W"].shape[0]
    wb, rb = p["B"][:count], p["B"][count:]
    size = h.size
    gates = [slice(k * size, (k + 1) * size) for k in range(count // size)]
    if g.node.op_type == "RNN":
        return [f[0](p["W"] @ x + p["R"] @ h + wb + rb), c]
    if g.node.op_type == "GRU":
        z, reset = (f[0](p["W"][k] @ x + p["R"][k] @ h + wb[k] + rb[k]) for k in gates[:2])
        k = gates[2]
        inner = reset * (p["R"][k] @ h + rb[k]) if g.int("linear_before_reset", 0) else p["R"][k] @ (reset * h) + rb[k]
        new = f[1](p["W"][k] @ x + inner + wb[k])
        return [(1 - z) * new + z * h, c]
    i, o, forget, cell = (p["W"][k] @ x + p["R"][k] @ h + wb[k] + rb[k] for k in gates)
    pi, po, pf = (p["P"][k * size : (k + 1) * size] for k in range(3))
    enters = f[0](i + pi * c)
    stays = 1 - enters if g.int("input_forget", 0) else f[0](forget + pf * c)
    new = stays * c + enters * f[1](cell)
    return [f[0](o + po * new) * functions[2](new), new]
