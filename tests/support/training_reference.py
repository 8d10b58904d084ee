"""Two small networks and three optimizers in plain NumPy and f64: what training them must come to."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Weights = dict[str, np.ndarray]
Forward = Callable[[Weights, np.ndarray], tuple[np.ndarray, Callable[[np.ndarray], Weights]]]
"""Logits, and what makes the gradients of the weights of the gradient of the logits."""


def dense(weights: Weights, x: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], Weights]]:
    """x: [N, 5]  ->  tanh(x w1 + b1) w2 + b2: [N, 3]"""
    hidden = np.tanh(x @ weights["w1"] + weights["b1"])

    def backward(d: np.ndarray) -> Weights:
        d_hidden = (d @ weights["w2"].T) * (1 - hidden**2)
        return {"w1": x.T @ d_hidden, "b1": d_hidden.sum(0), "w2": hidden.T @ d, "b2": d.sum(0)}

    return hidden @ weights["w2"] + weights["b2"], backward


def convolutional(weights: Weights, x: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], Weights]]:
    """x: [N, 1, 6, 6]  ->  3 x 3 convolution with padding, ReLU, 2 x 2 maxima, product: [N, 3]"""
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    maps = np.einsum("nchwij,mcij->nmhw", windows, weights["k"]) + weights["c"][:, None, None]
    active = np.maximum(maps, 0)
    tiles = active.reshape(len(x), -1, 3, 2, 3, 2)
    pooled = tiles.max(axis=(3, 5))
    flat = pooled.reshape(len(x), -1)

    def backward(d: np.ndarray) -> Weights:
        d_pooled = (d @ weights["w"].T).reshape(pooled.shape)
        is_first = first_maxima(tiles)
        d_maps = (is_first * d_pooled[:, :, :, None, :, None]).reshape(maps.shape) * (maps > 0)
        d_k = np.einsum("nmhw,nchwij->mcij", d_maps, windows)
        return {"k": d_k, "c": d_maps.sum(axis=(0, 2, 3)), "w": flat.T @ d, "b": d.sum(0)}

    return flat @ weights["w"] + weights["b"], backward


def first_maxima(tiles: np.ndarray) -> np.ndarray:
    """1 at the first maximum of each tile, axes 3 and 5, in row-major order."""
    rows = tiles.transpose(0, 1, 2, 4, 3, 5).reshape(-1, 4)
    one = np.zeros_like(rows)
    one[np.arange(len(rows)), rows.argmax(1)] = 1
    n, m, h, _, w, _ = tiles.shape
    return one.reshape(n, m, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5)


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean loss, and its gradient."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    shares = powers / powers.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(shares[rows, labels]).mean()
    shares[rows, labels] -= 1
    return float(loss), shares / len(labels)


def sgd(weights: Weights, gradients: Weights, states: dict[str, Weights], step: int) -> None:
    for name, gradient in gradients.items():
        weights[name] -= 0.1 * gradient


def momentum(weights: Weights, gradients: Weights, states: dict[str, Weights], step: int) -> None:
    for name, gradient in gradients.items():
        velocity = states.setdefault("velocity", {})
        velocity[name] = 0.9 * velocity.get(name, 0) + gradient
        weights[name] -= 0.05 * velocity[name]


def adam(weights: Weights, gradients: Weights, states: dict[str, Weights], step: int) -> None:
    rate = 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    mean, squares = states.setdefault("mean", {}), states.setdefault("squares", {})
    for name, gradient in gradients.items():
        mean[name] = 0.9 * mean.get(name, 0) + 0.1 * gradient
        squares[name] = 0.999 * squares.get(name, 0) + 0.001 * gradient**2
        weights[name] -= rate * mean[name] / (np.sqrt(squares[name]) + 1e-8)


UPDATES: Mapping[str, tuple[Callable[[Weights, Weights, dict[str, Weights], int], None], float]] = {
    "sgd": (sgd, 0.1),
    "momentum": (momentum, 0.05),
    "adam": (adam, 0.01),
}
"""Each optimizer with the learning rate that it has here."""


def losses(
    forward: Forward, weights: Mapping[str, np.ndarray], batches: list[tuple[np.ndarray, np.ndarray]], optimizer: str
) -> list[float]:
    """The loss of each step, on one batch after the other."""
    now = {name: value.astype(np.float64) for name, value in weights.items()}
    states: dict[str, Weights] = {}
    curve = []
    for step, (x, labels) in enumerate(batches, 1):
        logits, backward = forward(now, x.astype(np.float64))
        loss, d_logits = cross_entropy(logits, labels)
        curve.append(loss)
        UPDATES[optimizer][0](now, backward(d_logits), states, step)
    return curve
