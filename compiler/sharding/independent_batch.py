"""Whether row i of every output is a function of row i of every input: calls of one row may then be joined into one.

It is proved by the axes rules, op after op, from the inputs on. What is not proved is taken to be untrue.
"""

from collections.abc import Iterable, Mapping, Sequence

from onnxc.compiler.ir.dim_symbols import substitute, symbols_of
from onnxc.compiler.ir.dims import Dim, Size, product
from onnxc.compiler.ir.module import Attribute, Function, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.sharding.factors import Factor, factors_of
from onnxc.runtime.records import record

__all__ = ["independent_batch"]


def independent_batch(function: Function) -> str:
    """The symbol that is the first size of every input and output, along which rows are independent; empty if none is.

    A program that draws numbers, folds, sorts or looks beyond a row along the batch has none, nor has one that reads
    the size of the batch as data.
    """
    body = function.body
    symbol = _first_size(body.parameters)
    if not symbol or symbol != _first_size(body.results) or function.defaults:
        return ""
    proof = _Proof(symbol)
    axes: dict[Value, int] = dict.fromkeys(body.parameters, 0)
    for op in body.ops:
        if not proof.extend(axes, op):
            return ""
    return symbol if all(axes.get(value) == 0 for value in body.results) else ""


def _first_size(values: Sequence[Value]) -> str:
    """The symbol that all values have as their first size, and nowhere else."""
    first: set[Dim] = set()
    for value in values:
        if not isinstance(value.type, TensorType) or not value.type.shape:
            return ""
        first.add(value.shape[0])
    names = frozenset().union(*map(symbols_of, first))
    if len(first) != 1 or len(names) != 1 or first != {Size.symbol(*names)}:
        return ""
    (name,) = names
    return "" if any(name in symbols_of(size) for value in values for size in value.shape[1:]) else name


@record
class _Proof:
    """What is followed is, for each value that depends on the batch, the axis that runs along it.

    The size of such an axis is a multiple of the batch: as many elements in order for every row.
    """

    symbol: str

    def extend(self, axes: dict[Value, int], op: Op) -> bool:
        """Notes the axes of the results; whether the rows of the results are independent, as those of the operands."""
        if not any(value in axes for value in op.operands) and not self._mentions(op):
            return True
        for factor in factors_of(op):
            if self._carries(factor, op, axes):
                axes.update(
                    (value, axis) for value, axis in zip(op.results, factor.results, strict=True) if axis is not None
                )
                return True
        return False

    def _carries(self, factor: Factor, op: Op, axes: Mapping[Value, int]) -> bool:
        """Whether the factor runs along the batch in every operand that depends on it, and in every result."""
        if factor.combine or any(axis is None for axis in factor.results):
            return False
        if any(axes.get(value) != axis for value, axis in zip(op.operands, factor.operands, strict=True)):
            return False
        pairs = zip(op.results, factor.results, strict=True)
        return all(self._is_rows(value.shape, axis) for value, axis in pairs) and self._attributes_agree(op, factor)

    def _is_rows(self, shape: Sequence[Dim], axis: int | None) -> bool:
        """Whether the size of this axis alone depends on the batch, and is a multiple of it."""
        others = (size for other, size in enumerate(shape) if other != axis)
        if axis is None or any(self.symbol in symbols_of(size) for size in others):
            return False
        rows = substitute(shape[axis], {self.symbol: 1})
        return shape[axis] == product((Size.symbol(self.symbol), rows))

    def _attributes_agree(self, op: Op, factor: Factor) -> bool:
        """Whether attributes name the batch only as the size of the axis in a shape of the result."""
        for name, attribute in op.attributes.items():
            if name == "shape" and isinstance(attribute, tuple):
                attribute = tuple(size for axis, size in enumerate(attribute) if axis != factor.results[0])
            if self.symbol in _symbols((attribute,)):
                return False
        return True

    def _mentions(self, op: Op) -> bool:
        """Whether the batch is in an attribute or in the type of a result, or the op draws or hides what it does."""
        if op.blocks or PRIMITIVES[op.name].kind == "random":
            return True
        sizes = (value.type.shape or () for value in op.results if isinstance(value.type, TensorType))
        return self.symbol in _symbols((*op.attributes.values(), *sizes))


def _symbols(attributes: Iterable[Attribute]) -> frozenset[str]:
    """The symbols in sizes, wherever they are in the attributes."""
    symbols: frozenset[str] = frozenset()
    for attribute in attributes:
        if isinstance(attribute, Size):
            symbols |= symbols_of(attribute)
        elif isinstance(attribute, tuple):
            symbols |= _symbols(attribute)
    return symbols
