"""Where data and sizes meet: integers of a tensor become symbols, relations between sizes are checked."""

from collections.abc import Sequence

from onnxc.compiler.ir.module import Attributes, Block
from onnxc.compiler.ir.primitive import Primitive, TypeRuleError, define, no_axes, tensors
from onnxc.compiler.ir.types import TensorType, Type

RELATIONS = ("equal", "broadcast", "at_least")


def _bind_sizes(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """i64[n] -> nothing; element i is from here on the symbol `symbols[i]`.

    Where `at_most` is given, the size `at_most[i]` in place of the symbol gives the same results, by more work. Where
    `enough` is given, so does `enough[i]` in place of any larger number.
    """
    (value,) = tensors(operands, 1)
    symbols = attributes.get("symbols")
    if not isinstance(symbols, tuple) or not all(isinstance(symbol, str) for symbol in symbols):
        raise TypeRuleError(f"symbols is {symbols}, not a tuple of names")
    if not isinstance(value, TensorType) or value.dtype.name != "i64" or value.shape != (len(symbols),):
        raise TypeRuleError(f"takes i64[{len(symbols)}], got {value}")
    return ()


def _guard(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """Nothing -> nothing; an InputError of `message` where `left` `relation` `right` does not hold.

    `broadcast` holds where the sizes are equal or one of them is 1.
    """
    tensors(operands, 0)
    if attributes.get("relation") not in RELATIONS:
        raise TypeRuleError(f"relation is {attributes.get('relation')}, not one of {', '.join(RELATIONS)}")
    return ()


define(Primitive("bind_sizes", "shape", _bind_sizes, no_axes, structural=True, kernel=None, binds="symbols"))
define(Primitive("guard", "shape", _guard, no_axes, effects=True, structural=True, kernel=None))
