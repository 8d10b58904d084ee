"""Random choices for one case, and what a recipe makes of them: operands and attributes of one node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from tests.support.signed_weights import END, LEAST

Choice = TypeVar("Choice")
Operands = dict[str, np.ndarray | None]


@dataclass(frozen=True)
class Parts:
    """Operands by name (None is left out), and all else that a node has.

    constants: the operands that are initializers. free: those whose sizes may be symbols. steps: how far integers may
    lie apart. tolerance: of floats, relative to the largest, where that of their type does not do; 0 is the type's.
    shared: the inputs into whose memory ONNX Runtime must write outputs, by output.
    """

    inputs: Operands
    attributes: dict[str, object] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    constants: Sequence[str] = ()
    free: Sequence[str] = ()
    steps: int = 0
    tolerance: float = 0.0
    opset: int = 18
    shared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Draw:
    """The random choices of one case of an operator whose first type is `dtype`."""

    rng: np.random.Generator
    operator: str
    dtype: np.dtype[np.generic]

    def size(self, low: int = 1, high: int = 6) -> int:
        """A size from `low` to `high`."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, least: int = 1, most: int = 4) -> tuple[int, ...]:
        """Sizes of a rank from `least` to `most`."""
        return tuple(self.size() for _ in range(self.size(least, most)))

    def flag(self, chance: float = 0.5) -> bool:
        """True this often."""
        return bool(self.rng.random() < chance)

    def pick(self, *options: Choice) -> Choice:
        """One of them."""
        return options[int(self.rng.integers(len(options)))]

    def floats(self, *shape: int, scale: float = 1.0, dtype: np.dtype[np.generic] | None = None) -> np.ndarray:
        """Normally distributed numbers, of the type of the case if that is one of floats."""
        own = self.dtype if self.dtype.kind == "f" else np.dtype(np.float32)
        return np.asarray(self.rng.standard_normal(shape) * scale).astype(dtype or own)

    def values(self, *shape: int) -> np.ndarray:
        """Numbers of the type of the case, whatever it is."""
        if self.dtype.kind == "f":
            return self.floats(*shape)
        return np.asarray(self.rng.integers(0, 2 if self.dtype.kind == "b" else 100, shape)).astype(self.dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: type = np.int32) -> np.ndarray:
        """Integers from `low` to below `high`."""
        return np.asarray(self.rng.integers(low, high, shape)).astype(dtype)

    def all_of(self, *shape: int, dtype: np.dtype[np.generic] | None = None) -> np.ndarray:
        """Integers of the whole range of a type, which is that of the case if none is given."""
        limits = np.iinfo(dtype or self.dtype)
        return np.asarray(self.rng.integers(limits.min, limits.max + 1, shape)).astype(limits.dtype)

    def weights(self, *shape: int, dtype: np.dtype[np.generic]) -> np.ndarray:
        """As `all_of`, for the second operand of a product."""
        if dtype == np.int8:
            return self.integers(LEAST, END, *shape, dtype=np.int8)
        return self.all_of(*shape, dtype=dtype)

    def scale(self) -> np.ndarray:
        """A scale that is a power of two, so that nothing lies between two quantised values by rounding alone."""
        return np.array(2.0 ** self.size(-3, 1), np.float32)

    def zero(self, dtype: np.dtype[np.generic] | None = None) -> np.ndarray:
        """A zero point near the middle of a type of 8 bits."""
        kind = dtype or self.dtype
        return np.array(self.size(-20, 20) + (128 if kind.kind == "u" else 0)).astype(kind)


Recipe = Callable[[Draw], Parts]
RECIPES: dict[str, Recipe] = {}


def recipe(*operators: str) -> Callable[[Recipe], Recipe]:
    """The decorator of a function that draws the parts of nodes of these operators."""

    def register(function: Recipe) -> Recipe:
        RECIPES.update(dict.fromkeys(operators, function))
        return function

    return register
