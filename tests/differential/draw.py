"""Random choices for one case: shapes, axes, values of every element type, attributes that the schema has."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from onnx.defs import OpSchema

from tests.differential.kinds import DTYPES, dtype_of

Choice = TypeVar("Choice")
Shape = tuple[int, ...]

TEXTS = ("", "a", "b", "abc", "Hello", "x y", "1.5", "ünï", "日本", "A-B", "the", "-3")
FLOAT_KINDS = ("float", "double", "float16", "bfloat16")


@dataclass(frozen=True)
class Parameter:
    """An input whose elements say how, such as axes or a shape: more often an initializer than others."""

    value: object


@dataclass(frozen=True)
class Constant:
    """An input that must be an initializer for the model to be legal or of known types."""

    value: object


@dataclass(frozen=True)
class Parts:
    """What a recipe makes: values of the inputs (None is absent), attributes, and types of the outputs.

    outputs: how many, or the name of each, "" being one left out. kinds: types of outputs that the schema does not
    tell. input_kinds: types of inputs that their values do not tell. captured: inputs of the model that only subgraphs
    use. accumulates: errors are relative to the largest element, not to each. precision: a float type in which some of
    it is computed. draws: only types and shapes are determined.
    """

    inputs: Sequence[object]
    attributes: dict[str, object] = field(default_factory=dict)
    outputs: int | Sequence[str] = 1
    kinds: dict[int, str] = field(default_factory=dict)
    input_kinds: dict[int, str] = field(default_factory=dict)
    captured: dict[str, np.ndarray] = field(default_factory=dict)
    accumulates: bool = False
    precision: str = ""
    draws: bool = False


@dataclass
class Draw:
    """The random choices of one case; `types` binds the type constraints of the schema."""

    rng: np.random.Generator
    schema: OpSchema
    opset: int
    types: dict[str, str]

    # Choices

    def flag(self, probability: float = 0.5) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, options: Sequence[Choice]) -> Choice:
        return options[int(self.rng.integers(len(options)))]

    def int(self, low: int, high: int) -> int:
        """An integer, `high` included."""
        return int(self.rng.integers(low, high + 1))

    def real(self, low: float, high: float) -> float:
        """A number that float32 holds exactly."""
        return float(np.float32(self.rng.uniform(low, high)))

    def sample(self, options: Sequence[Choice], count: int) -> list[Choice]:
        return [options[int(i)] for i in self.rng.permutation(len(options))[:count]]

    # The schema

    @property
    def since(self) -> int:
        return int(self.schema.since_version)

    def has(self, attribute: str) -> bool:
        return attribute in self.schema.attributes

    def takes(self, name: str) -> bool:
        """Whether the schema has an input of this name."""
        return any(formal.name == name for formal in self.schema.inputs)

    def attributes(self, **values: object) -> dict[str, object]:
        """Of `values` those that the schema has, optional ones mostly; None leaves one out."""
        return {
            name: value
            for name, value in values.items()
            if value is not None and self.has(name) and (self.schema.attributes[name].required or self.flag(0.7))
        }

    def exactly(self, **values: object) -> dict[str, object]:
        """Of `values` those that the schema has."""
        return {name: value for name, value in values.items() if value is not None and self.has(name)}

    def dtype(self, kind: str) -> np.dtype:
        """The element type of a constraint, of an element name, or of a type."""
        if kind in self.types:
            return dtype_of(self.types[kind])
        return DTYPES[kind] if kind in DTYPES else dtype_of(kind)

    # Shapes

    def size(self, *, empty: bool = True) -> int:
        return int(
            self.rng.choice([0, 1, 2, 3, 4, 5], p=[0.05 if empty else 0, 0.2, 0.25, 0.25, 0.15, 0.1 if empty else 0.15])
        )

    def shape(self, low: int = 0, high: int = 5, *, empty: bool = True) -> Shape:
        rank = int(self.rng.choice(range(low, high + 1)))
        return tuple(self.size(empty=empty) for _ in range(rank))

    def broadcast(self, count: int, high: int = 5, *, empty: bool = True) -> list[Shape]:
        """Shapes that broadcast to one."""
        full = self.shape(0, high, empty=empty)
        return [self.part_of(full) for _ in range(count)]

    def part_of(self, full: Shape) -> Shape:
        """A shape that broadcasts to `full`."""
        if self.flag(0.4):
            return full
        kept = full[self.int(0, len(full)) :] if self.flag() else full
        return tuple(1 if self.flag(0.3) else size for size in kept)

    def axis(self, rank: int, since: int = 11) -> int:
        """An axis, counted from either end where the version `since` or a newer one allows it."""
        axis = self.int(0, rank - 1)
        return axis - rank if self.since >= since and self.flag() else axis

    def axes(self, rank: int, low: int = 1, since: int = 11) -> list[int]:
        """Some different axes."""
        chosen = self.sample(range(rank), self.int(min(low, rank), rank))
        return [axis - rank if self.since >= since and self.flag() else axis for axis in chosen]

    # Values

    def tensor(
        self, kind: str | np.dtype, shape: Sequence[int], low: float = -10, high: float = 10, *, special: float = 0.0
    ) -> np.ndarray:
        """Elements in [low, high]; with probability `special` some are NaN, infinite, -0.0 or the type's extremes."""
        dtype = kind if isinstance(kind, np.dtype) else self.dtype(kind)
        shape = tuple(shape)
        if dtype.kind == "O":
            texts = np.array(TEXTS, object)
            return np.asarray(texts[self.rng.integers(len(texts), size=shape)], object).reshape(shape)
        if dtype.kind == "b":
            return np.asarray(self.rng.integers(2, size=shape)).astype(bool)
        if dtype.kind == "c":
            parts = self.rng.uniform(low, high, (2, *shape))
            return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
        if "int" in dtype.name:
            return self._integers(dtype, shape, low, high, special)
        drawn = np.asarray(self.rng.uniform(low, high, shape))
        if self.flag(0.3):
            drawn = np.asarray(np.clip(np.round(drawn * 2) / 2, low, high))
        values = np.asarray(drawn, dtype)
        if values.size and self.flag(special):
            extremes = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 65504.0, -3e38]
            if dtype.name.endswith(("e2m1fn", "e8m0fnu", "e2m3fn", "e3m2fn")):
                extremes = [0.5, 1.0, 2.0]
            flat = values.reshape(-1)
            for _ in range(self.int(1, 4)):
                with np.errstate(all="ignore"):
                    flat[self.int(0, flat.size - 1)] = np.array(self.pick(extremes)).astype(dtype)
            values = flat.reshape(shape)
        return values

    def _integers(self, dtype: np.dtype, shape: Shape, low: float, high: float, special: float) -> np.ndarray:
        least, most = integer_range(dtype)
        bounds = max(int(np.ceil(low)), least), min(int(np.floor(high)), most)
        values = np.asarray(self.rng.integers(bounds[0], bounds[1] + 1, shape)).astype(dtype)
        if values.size and self.flag(special):
            flat = values.reshape(-1)
            for _ in range(self.int(1, 4)):
                flat[self.int(0, flat.size - 1)] = np.array(self.pick([least, most, 0, most - 1])).astype(dtype)
            values = flat.reshape(shape)
        return values


def integer_range(dtype: np.dtype) -> tuple[int, int]:
    """The least and the greatest value of an integer type, of ml_dtypes too."""
    name = dtype.name
    bits = int(name.lstrip("uint"))
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def i64(values: object) -> np.ndarray:
    return np.array(values, np.int64)
