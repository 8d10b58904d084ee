"""Functions of one byte as tables of 256: what exporters write between two roundings to bytes.

Networks that are quantised round to bytes behind each operator. A sigmoid times what it is of, between roundings, takes
5 ns an element on one core of Zen 1, and 1 ns to be looked up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnxc.compiler.ir.dtypes import I8, I64, U8
from onnxc.compiler.ir.makers import constant_of, made_by, splat_of
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.rewriter import Rewriter, rewrite, rule

BYTES = (I8, U8)

LEAST_COST = 24
"""The simple instructions for an element from which a table is worth its look-ups: an exponential and two roundings."""

MOST_VALUES = 64
"""How many values are looked at for a function."""


def recognize_byte_functions(module: Module) -> Module:
    """Makes tables of costly functions of one byte that give bytes."""
    return rewrite(module, [tabulate])


@rule("cast")
def tabulate(op: Op, build: Rewriter) -> Value | None:
    """f(x) = [f(0), ..., f(255)][x], for x and f(x) of 8 bits"""
    if op.dtype() not in BYTES:
        return None
    source = _Sources().of(op.result)
    if source is None or source == op.result or _cost(op.result, source) < LEAST_COST:
        return None
    table = _Table(source, build).of(op.result)
    if constant_of(table) is None:
        return None
    unsigned = source if source.dtype == U8 else build.bitcast(source, U8)
    return build.gather(table, build.cast(unsigned, I64), 0)


def _elements(value: Value) -> Sequence[Value]:
    """The values whose elements alone, and constants, decide the element of a value at the same index."""
    op = value.op
    if op is None:
        return ()
    if _is_table(op):
        return (op.operands[1],)
    is_pointwise = PRIMITIVES[op.name].kind == "pointwise"
    return tuple(operand for operand in op.operands if splat_of(operand) is None) if is_pointwise else ()


def _is_table(op: Op) -> bool:
    """Whether an op looks up bytes, all of which there are, in a constant."""
    if op.name != "gather" or op.operands[0].shape != (256,) or constant_of(op.operands[0]) is None:
        return False
    index = made_by(op.operands[1], "cast")
    return index is not None and index.operands[0].dtype == U8


@dataclass
class _Sources:
    """What bytes values are functions of, as far as they were looked at."""

    known: dict[Value, Value | None] = field(default_factory=dict)

    def of(self, value: Value) -> Value | None:
        """The bytes that each element of `value` is a function of, itself where there are no others; None without."""
        if value not in self.known and len(self.known) < MOST_VALUES:
            self.known[value] = None
            self.known[value] = self._source(value)
        return self.known.get(value)

    def _source(self, value: Value) -> Value | None:
        sources = {self.of(each) for each in _elements(value)}
        (source,) = sources if len(sources) == 1 else (None,)
        if source is not None and source.shape == value.shape:
            return source
        return value if value.dtype in BYTES else None


def _cost(value: Value, source: Value) -> int:
    """The simple instructions for an element of `value`; what looks up a table already had the cost of one."""
    return sum(LEAST_COST if _is_table(op) else PRIMITIVES[op.name].cost or 0 for op in _between(value, source))


def _between(value: Value, source: Value) -> Iterator[Op]:
    """The ops that make `value` of `source`."""
    pending, seen = [value], {source}
    while pending:
        each = pending.pop()
        if each not in seen and each.op is not None:
            seen.add(each)
            yield each.op
            pending += _elements(each)


class _Table:
    """Values at every byte, each of 256 elements; the builder carries out what is done to so few."""

    def __init__(self, source: Value, build: Rewriter) -> None:
        every = np.arange(256, dtype=np.uint8).view(source.dtype.numpy)
        self._build, self._at_bytes = build, {source: build.constant(every)}

    def of(self, value: Value) -> Value:
        """`value` at every byte."""
        if value not in self._at_bytes:
            self._at_bytes[value] = self._computed(value)
        return self._at_bytes[value]

    def _computed(self, value: Value) -> Value:
        splat = splat_of(value)
        if splat is not None:
            return self._build.constant(np.full(256, splat, value.dtype.numpy))
        assert value.op is not None, value
        op, varying = value.op, _elements(value)
        operands = [self.of(each) if each in varying or not _is_table(op) else each for each in op.operands]
        return self._build.op(op.name, operands, op.attributes)[0]
