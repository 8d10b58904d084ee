"""Transposed convolutions as programs, for the passes that compute their phases."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value

__all__ = ["filters_of", "transposed"]


def filters_of(*shape: int) -> np.ndarray:
    """Drawn filters."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def transposed(
    b: Builder,
    x: Value,
    filters: np.ndarray,
    spread: Sequence[int],
    low: Sequence[Dim],
    high: Sequence[Dim],
    dimensions: str | None = None,
    groups: int = 1,
) -> Value:
    """The convolution of a spread image, with steps of 1."""
    ones = [1] * len(spread)
    w = b.constant(filters)
    return b.convolution(x, w, ones, low, high, ones, groups, input_dilations=spread, dimensions=dimensions)
