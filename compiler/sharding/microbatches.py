"""Whether a call may go through in parts: an axis of the inputs along which every element is computed by itself.

The proof is that of divided programs. Each op has to have a factor whose axes are those that the batch is on, and which
is not reduced; then computing parts and joining them equals computing the whole, for parts of any size.
"""

from collections.abc import Iterator, Mapping

from onnxc.compiler.ir.dim_symbols import substitute, symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.module import Function, Op, Value
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.sharding.factors import factors_of, has_axes
from onnxc.runtime.records import record

__all__ = ["Batch", "NoBatch", "find_batch"]


@record
class Batch:
    """A size that calls may be parted by: the axis that it is on, for each input and output that has one.

    least: how many elements a part must have.
    """

    symbol: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    least: int


@record
class NoBatch:
    """Why calls go through as a whole."""

    reason: str


def find_batch(function: Function) -> Batch | NoBatch:
    """The first size of the inputs, first axes before others, that calls may be parted by."""
    problem = NoBatch("no axis of an input has a size that only a call knows")
    for symbol in dict.fromkeys(_candidates(function)):
        proof = _proof(function, symbol)
        if isinstance(proof, Batch):
            return proof
        problem = proof
    return problem


def _candidates(function: Function) -> Iterator[str]:
    shapes = [parameter.shape for parameter in function.body.parameters if has_axes(parameter)]
    for axis in range(max(map(len, shapes), default=0)):
        yield from (
            name
            for shape in shapes
            if axis < len(shape)
            for name in symbols_of(shape[axis])
            if shape[axis] == Size.symbol(name)
        )


def _proof(function: Function, symbol: str) -> Batch | NoBatch:
    body = function.body
    marks: dict[Value, int] = {}
    for parameter in body.parameters:
        if symbol in type_symbols(parameter.type):
            axes = [axis for axis, size in enumerate(_shape(parameter)) if size == Size.symbol(symbol)]
            if not axes or not _is_on(parameter, axes[0], symbol):
                return NoBatch(f'the input "{parameter.producer.name}" cannot be parted along {symbol}')
            marks[parameter] = axes[0]
    for op in body.ops:
        if symbol not in op.symbols and marks.keys().isdisjoint(op.operands):
            continue
        made = _marked_results(op, marks, symbol)
        if made is None:
            return NoBatch(f"{op.name}{f' at {op.location}' if op.location else ''} may mix what is along {symbol}")
        marks |= made
    outputs = tuple(marks.get(result) for result in body.results)
    if all(axis is None for axis in outputs):
        return NoBatch(f"no output has {symbol}")
    least, _ = function.symbols.get(symbol, (0, None))
    return Batch(symbol, tuple(marks.get(parameter) for parameter in body.parameters), outputs, max(least, 1))


def _marked_results(op: Op, marks: Mapping[Value, int], symbol: str) -> Mapping[Value, int] | None:
    """The axis of each result that the batch is on; None where it is not proven that there is one."""
    said = [value for name, value in op.attributes.items() if name != "shape"]
    if any(symbol in symbols_of(part) for value in said for part in _sizes(value)):
        return None
    wanted = tuple(marks.get(operand) for operand in op.operands)
    for factor in factors_of(op):
        axes = dict(zip(op.results, factor.results, strict=True))
        if not factor.combine and factor.operands == wanted:
            made = {value: axis for value, axis in axes.items() if axis is not None and _is_on(value, axis, symbol)}
            if len(made) == len(op.results):
                return made
    return None


def _is_on(value: Value, axis: int, symbol: str) -> bool:
    """Whether an axis has as many elements for each one of the batch, and no other axis knows of it."""
    shape = _shape(value)
    each = substitute(shape[axis], {symbol: 1})
    others = (size for other, size in enumerate(shape) if other != axis)
    is_multiple = symbol not in symbols_of(each) and each * Size.symbol(symbol) == shape[axis]
    return is_multiple and not any(symbol in symbols_of(size) for size in others)


def _shape(value: Value) -> tuple[Dim, ...]:
    return value.shape if has_axes(value) else ()


def _sizes(value: object) -> Iterator[Dim]:
    """The sizes in an attribute."""
    if isinstance(value, Size):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _sizes(part)
