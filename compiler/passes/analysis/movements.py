"""Values behind reshapes and transposes, and in front of them; the first of such movements comes first."""

from collections.abc import Iterable, Sequence

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Op, Value


def moved(value: Value, movements: Iterable[Op], build: Builder) -> Value:
    """A value as what `movements` begin with, moved by them."""
    for movement in movements:
        (value,) = build.op(movement.name, [value], movement.attributes)
    return value


def moved_back(value: Value, movements: Sequence[Op], build: Builder) -> Value:
    """A value as what `movements` end with, in the order and shape of what they begin with."""
    for movement in reversed(movements):
        if movement.name == "reshape":
            value = build.with_shape(value, movement.operands[0].shape)
        else:
            order = movement.ints("permutation")
            value = build.transpose(value, [order.index(axis) for axis in range(len(order))])
    return value
