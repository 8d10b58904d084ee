"""Part of the builder: constants, sizes as tensors, what is known of them, and what must hold between sizes."""

import math
from collections.abc import Sequence

import numpy as np

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.building.core import OpBuilder
from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, Size, at_least, length_of, terms_of
from onnxc.compiler.ir.dtypes import I64, DType
from onnxc.compiler.ir.known_elements import known_elements
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.ir.types import TensorType

Number = int | float | bool
Operand = Value | Number
"""An operand of a pointwise op; a number becomes a constant of the type of the others."""

# Eight sums of two have a product of 256 terms. An estimate: shapes that exporters write stay formulas.
_MOST_TERMS = 256

GuardKey = tuple[str, Dim, Dim]
"""The relation and the sizes of a guard."""


class SizeBuilder(OpBuilder):
    """Makes constants, sizes and guards. A guard that the block has already is not made again."""

    def __init__(self, symbols: SymbolTable | None = None, location: Location | None = None) -> None:
        super().__init__(symbols, location)
        self._guarded: set[GuardKey] = set()

    def constant(self, value: np.ndarray) -> Value:
        """A constant tensor; the array must not change afterwards."""
        return self._one("constant", value=value)

    def scalar(self, value: Number, dtype: DType) -> Value:
        """A constant of rank 0."""
        return self.constant(np.array(value).astype(dtype.numpy))

    def iota(self, shape: Sequence[Dim], axis: int, dtype: DType) -> Value:
        """Each element is its coordinate along `axis`."""
        return self._one("iota", shape=tuple(shape), axis=axis, dtype=dtype)

    def random_bits(self, shape: Sequence[Dim], seed: int) -> Value:
        """u32[shape]: bits that (seed, element index) decides."""
        return self._one("random_bits", shape=tuple(shape), seed=seed)

    def sizes(self, dims: Sequence[Dim], dtype: DType = I64) -> Value:
        """dtype[len(dims)]: the sizes as a tensor."""
        elements = np.empty(len(dims), object)
        elements[:] = dims
        return self._known_value(elements, TensorType(dtype, (len(dims),)))

    def size(self, dim: Dim, dtype: DType = I64) -> Value:
        """dtype[]: one size as a tensor of rank 0."""
        return self._known_value(np.array(dim, object), TensorType(dtype, ()))

    def short(self, dims: Sequence[Dim], hint: str) -> tuple[Dim, ...]:
        """The sizes; where their product would have very many terms, each formula as a symbol of its own."""
        if math.prod(len(terms_of(dim)) for dim in dims) <= _MOST_TERMS:
            return tuple(dims)
        formulas = [dim for dim in dims if length_of(dim) > 1]
        names = tuple(self.symbols.fresh(f"{hint}{index}") for index in range(len(formulas)))
        self.op("bind_sizes", [self.sizes(formulas)], {"symbols": names})
        bound = iter(names)
        return tuple(Size.symbol(next(bound)) if length_of(dim) > 1 else dim for dim in dims)

    def known(self, value: Value) -> tuple[Dim, ...] | None:
        """The elements of an integer tensor of rank 0 or 1 where they are known in sizes."""
        elements = known_elements(value)
        return None if elements is None or elements.ndim > 1 else tuple(elements.flat)

    def known_array(self, value: Value) -> np.ndarray | None:
        """The elements of a constant."""
        op = value.op
        return op.array() if op is not None and op.name == "constant" else None

    # What must hold at the call

    def guard(self, left: Dim, right: Dim, relation: str, message: str) -> None:
        """At the call: an InputError with `message` unless `left` `relation` `right` (equal, broadcast, at_least)."""
        key = (relation, left, right)
        if key not in self._guarded:
            self._guarded.add(key)
            self.add_guard(left, right, relation, message)

    def adopt(self, nested: "SizeBuilder") -> None:
        """Takes over the ops of a builder that is nested in this one; a guard that is there already is left out."""
        self.ops += [op for op in nested.ops if op.name != "guard" or _guard_key(op) not in self._guarded]
        self._guarded |= nested._guarded

    def add_guard(self, left: Dim, right: Dim, relation: str, message: str) -> None:
        """As `guard`, whether or not there is one like it."""
        self.op("guard", (), {"left": left, "right": right, "relation": relation, "message": message})

    def require_equal(self, left: Dim, right: Dim, message: str, code: str = "sizes-differ") -> Dim:
        """One of two sizes that must be equal, the more definite; guarded where that is not decided.

        Raises ModelError where they cannot be equal.
        """
        if left == right:
            return left
        if (isinstance(left, int) and isinstance(right, int)) or at_least(left, right + 1) or at_least(right, left + 1):
            self.fail(code, f"{message}: {left} and {right}")
        self.guard(left, right, "equal", f"{message}: {left} and {right}")
        if isinstance(left, int) or isinstance(right, int):
            return left if isinstance(left, int) else right
        return right if len(symbols_of(right)) < len(symbols_of(left)) else left


def _guard_key(op: Op) -> GuardKey:
    return op.text("relation"), op.dim("left"), op.dim("right")
