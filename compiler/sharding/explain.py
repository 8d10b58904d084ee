"""Why each value of a program is divided as it is: a chain from value to value, down to what the model states."""

from collections.abc import Iterator

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.sharding.propagate import Propagation
from onnxc.compiler.sharding.report import value_name

__all__ = ["explained"]


def explained(propagation: Propagation) -> Iterator[str]:
    """A line for each value that is divided: how, what it follows by which op, and what the model states at first."""
    for value, why in propagation.why.items():
        if propagation.sharding(value).is_replicated and value in propagation.by:
            continue
        text = f"{value_name(value)}: {propagation.sharding(value)}"
        op = propagation.by.get(value)
        source = _source(propagation, value, op) if op is not None else None
        if op is None or source is None:
            yield f"{text}, for {why}"
        else:
            yield f"{text}, through {why}, as {value_name(source)}; at first {value_name(_first(propagation, source))}"


def _source(propagation: Propagation, value: Value, op: Op) -> Value | None:
    """The value of the op that was divided by the same axes before; None where it came out of or into a body."""
    ordinals = {each: index for index, each in enumerate(propagation.by)}
    axes = set(propagation.sharding(value).axes)
    near = [each for each in (*op.operands, *op.results) if each is not value and each in propagation.why]
    earlier = [each for each in near if ordinals.get(each, -1) < ordinals[value]]
    return next((each for each in earlier if axes & set(propagation.sharding(each).axes)), None)


def _first(propagation: Propagation, value: Value) -> Value:
    """The value whose division is stated, or came through a body, that `value` follows."""
    while value in propagation.by:
        source = _source(propagation, value, propagation.by[value])
        if source is None:
            break
        value = source
    return value
