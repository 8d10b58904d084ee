"""A whole graph as text, its seeded weights, inputs at several sizes, and who tells what it should give."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from onnx import ModelProto, numpy_helper, parser

Feed = Mapping[str, object]
Oracle = Literal["onnxruntime", "reference"]
Expected = Callable[[Feed], Sequence[object]]


@dataclass(frozen=True)
class GraphCase:
    """A model and the inputs to try it on.

    `oracle` computes what is expected, or is a function of the inputs in NumPy; `bound` is the largest difference
    allowed, as a part of the largest magnitude.
    """

    model: ModelProto
    feeds: tuple[Feed, ...]
    oracle: Oracle | Expected = "onnxruntime"
    bound: float = 2e-5


def normal(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    """Seeded draws of a magnitude that keeps sums over the last axis but one near 1."""
    rng = np.random.default_rng([seed, *shape])
    fan_in = shape[-2] if len(shape) == 2 else int(np.prod(shape[1:])) or 1
    return np.asarray(rng.standard_normal(shape) / np.sqrt(fan_in if len(shape) > 1 else 1)).astype(dtype)


def integers(high: int, *shape: int, low: int = 0, seed: int = 0, dtype: object = np.int64) -> np.ndarray:
    """Seeded integers from `low` up to `high`, which is excluded."""
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def model_of(
    text: str, *, opset: int = 17, ir: int = 10, ml: int = 3, **weights: np.ndarray | Sequence[int]
) -> ModelProto:
    """The model whose graph is `text`, with these initializers: arrays, or shapes to draw."""
    header = f'<ir_version: {ir}, opset_import: ["": {opset}, "ai.onnx.ml": {ml}, "local": 1]>'
    model = parser.parse_model(f"{header}\n{text}")
    for number, (name, value) in enumerate(weights.items()):
        array = value if isinstance(value, np.ndarray) else normal(*value, seed=number + 1)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model
