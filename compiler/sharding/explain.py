"""Why each value of a program is divided as it is: a chain from value to value, down to what the model states."""

from collections.abc import Iterator

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.sharding.propagate import Propagation
from onnxc.compiler.sharding.report import value_name

__all__ = ["explained"]


def explained(found: Propagation) -> Iterator[str]:
    """A line for each value that is divided: how, what it follows by which op, and what the model states at first."""
    for value, why in found.why.items():
        if found.sharding(value).is_replicated and value in found.by:
            continue
        text = f"{value_name(value)}: {found.sharding(value)}"
        op = found.by.get(value)
        source = _source(found, value, op) if op is not None else None
        if op is None or source is None:
            yield f"{text}, for {why}"
        else:
            yield f"{text}, through {why}, as {value_name(source)}; at first {value_name(_first(found, source))}"


def _source(found: Propagation, value: Value, op: Op) -> Value | None:
    """The value of the op that was divided by the same axes before; None where it came out of or into a body."""
    ordinals = {each: index for index, each in enumerate(found.by)}
    axes = set(found.sharding(value).axes)
    near = [each for each in (*op.operands, *op.results) if each is not value and each in found.why]
    earlier = [each for each in near if ordinals.get(each, -1) < ordinals[value]]
    return next((each for each in earlier if axes & set(found.sharding(each).axes)), None)


def _first(found: Propagation, value: Value) -> Value:
    """The value whose division is stated, or came through a body, that `value` follows."""
    while value in found.by:
        source = _source(found, value, found.by[value])
        if source is None:
            break
        value = source
    return value
