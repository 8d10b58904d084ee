"""The table of independent computations, and what they see of a case."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto, helper
from onnx.defs import OpSchema

from tests.differential.kinds import DTYPES_BY_NUMBER


@dataclass(frozen=True)
class Rounded:
    """Numbers whose nearest integers are the result; a half may go either way, as it is hardly ever exact."""

    exact: np.ndarray

    def settled(self, given: np.ndarray) -> np.ndarray:
        """`given` where it is a nearest integer, else the nearest one."""
        slack = 0.5 + 1e-3 + 1e-5 * np.abs(self.exact)
        is_nearest = np.abs(given.astype(np.float64) - self.exact) <= slack
        return np.where(is_nearest, given.astype(np.float64), np.rint(self.exact)).astype(given.dtype)


@dataclass(frozen=True)
class Given:
    """The node, its schema, and the values of its inputs in order, None where one is absent."""

    node: NodeProto
    schema: OpSchema
    inputs: Sequence[object]
    captured: dict[str, np.ndarray]

    @property
    def since(self) -> int:
        return int(self.schema.since_version)

    def array(self, place: int) -> np.ndarray:
        value = self.inputs[place]
        assert isinstance(value, np.ndarray), value
        return value

    def wide(self, place: int) -> np.ndarray:
        """The input in f64, or as it is where it is no number that f64 holds."""
        array = self.array(place)
        return array if array.dtype.kind in "biuOc" else array.astype(np.float64)

    def optional(self, place: int) -> np.ndarray | None:
        value = self.inputs[place] if place < len(self.inputs) else None
        return value if isinstance(value, np.ndarray) else None

    def given_ints(self, place: int) -> list[int]:
        """The integers of an input that may be left out."""
        value = self.optional(place)
        return [] if value is None else [int(v) for v in value]

    def has(self, name: str) -> bool:
        return any(attribute.name == name for attribute in self.node.attribute)

    def attribute(self, name: str, default: object = None) -> object:
        """The attribute, its default in the schema, or `default`."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                value = helper.get_attribute_value(attribute)
                return as_text(value)
        schema = self.schema.attributes.get(name)
        if schema is not None and schema.default_value.name:
            return as_text(onnx.helper.get_attribute_value(schema.default_value))
        return default

    def number(self, name: str, default: float = 0) -> float:
        value = self.attribute(name, default)
        assert isinstance(value, (int, float)), value
        return value

    def int(self, name: str, default: int = 0) -> int:
        return int(self.number(name, default))

    def ints(self, name: str, default: Sequence[int] = ()) -> list[int]:
        value = self.attribute(name, list(default))
        assert isinstance(value, (list, tuple)), value
        return [int(v) for v in value]

    def floats(self, name: str) -> np.ndarray:
        return np.array(self.attribute(name, []), np.float64)

    def text(self, name: str, default: str = "") -> str:
        return str(self.attribute(name, default))

    def dtype(self, name: str) -> np.dtype:
        return DTYPES_BY_NUMBER[self.int(name)]


def as_text(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [as_text(element) for element in value]
    return value


# The outputs in order, one for each that the schema has; None where this file does not say.
Computed = Callable[[Given], list[object]]
COMPUTED: dict[tuple[str, str], Computed] = {}


def computes(*names: str, domain: str = "") -> Callable[[Computed], Computed]:
    """Registers the decorated function for these operators."""

    def register(function: Computed) -> Computed:
        for name in names:
            assert (domain, name) not in COMPUTED, name
            COMPUTED[domain, name] = function
        return function

    return register
