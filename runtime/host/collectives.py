"""Collectives: values exchanged within a group of devices. Operands and results are one value per device.

Where a thread is one device, which has one operand, the others of its group bring theirs to a rendezvous.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np

from onnxc.runtime.host.attributes import integer, integer_pairs, text
from onnxc.runtime.host.elements import F32, narrow
from onnxc.runtime.host.reductions import COMBINE, accumulator
from onnxc.runtime.host.registry import Arrays, Attributes, Meaning, meaning
from onnxc.runtime.host.rendezvous import Combine, begin_meeting, meet
from onnxc.runtime.records import record

ELEMENTS_AT_ONCE = 1 << 14
"""What is widened to f64 for a sum at one time stays in a cache: of 98,304 elements of 2 devices 0.2 ms, 1.2 ms in one
piece; pieces of a quarter took 0.4 ms."""


BEGIN: dict[str, Callable[[np.ndarray, Attributes], Callable[[], np.ndarray]]] = {}
"""For each collective what begins it, with the operand of this thread's device, and gives what waits for the result."""


def collective(name: str) -> Callable[[Meaning], Meaning]:
    """A decorator that registers the meaning of a collective: from the operands of all devices the results of all."""

    def register(combine: Meaning) -> Meaning:
        silenced: Combine = np.errstate(all="ignore")(combine)
        BEGIN[name] = lambda operand, attributes: begin_meeting(name, operand, attributes, silenced)
        return meaning(name)(lambda operands, attributes: meet(name, operands, attributes, silenced))

    return register


@meaning("reshard")
def reshard(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[...]  ->  x: how a value is divided changes none of its elements."""
    return tuple(operands)


@meaning("enter_stage")
def enter_stage(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T  ->  x: which devices hold a value changes none of its elements."""
    return tuple(operands)


@collective("all_reduce")
def all_reduce(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """n × x: T[...]  ->  n × T[...], the elements of all devices combined by kind."""
    return _for_each(_combined(operands, attributes), len(operands))


@collective("all_gather")
def all_gather(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """n × x: T[... d ...]  ->  n × T[... n·d ...], the values of all devices one after the other along axis."""
    return _for_each(np.concatenate(operands, axis=integer(attributes, "axis")), len(operands))


@collective("reduce_scatter")
def reduce_scatter(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """n × x: T[... n·d ...]  ->  n × T[... d ...], of the combined elements each device its block along axis."""
    blocks = _blocks(_combined(operands, attributes), len(operands), integer(attributes, "axis"))
    return tuple(block.copy() for block in blocks)


@collective("all_to_all")
def all_to_all(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """n × x: T[... n·d ...]  ->  n × T[...], device j receives block j of every device.

    The blocks are cut along split_axis and joined along concat_axis.
    """
    split = [_blocks(x, len(operands), integer(attributes, "split_axis")) for x in operands]
    axis = integer(attributes, "concat_axis")
    return tuple(np.concatenate(received, axis=axis) for received in zip(*split, strict=True))


@meaning("permute")
def permute(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """n × x: T[...]  ->  n × T[...] by pairs of (source, destination); zeros where nothing arrives."""
    sources = {destination: source for source, destination in integer_pairs(attributes, "pairs")}
    return tuple(
        operands[sources[device]].copy() if device in sources else np.zeros_like(x) for device, x in enumerate(operands)
    )


def _for_each(x: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """The same for each of `count` devices, in memory of its own."""
    return (x, *(x.copy() for _ in range(count - 1)))


def _combined(operands: Arrays, attributes: Attributes) -> np.ndarray:
    """One operand after the other, so that an element has the same bits in a block as in the whole."""
    kind = text(attributes, "kind")
    if kind == "sum" and len(operands) == 2 and operands[0].dtype == F32:
        # The sum of two in f64, rounded, is their sum in f32: f64 has more than twice the digits and two more.
        return np.asarray(operands[0] + operands[1])
    combined = np.empty(operands[0].shape, operands[0].dtype)
    made, given = combined.reshape(-1), [x.reshape(-1) for x in operands]
    for start in range(0, made.size, ELEMENTS_AT_ONCE):
        part = slice(start, start + ELEMENTS_AT_ONCE)
        made[part] = narrow(reduce(COMBINE[kind], (accumulator(x[part], kind) for x in given)), made.dtype)
    return combined


def _blocks(x: np.ndarray, count: int, axis: int) -> list[np.ndarray]:
    """`x` in `count` blocks of ⌈size / count⌉ along `axis`, the last ones short or empty."""
    size = -(-x.shape[axis] // count)
    return np.split(x, [size * block for block in range(1, count)], axis=axis)


@record
class Parts:
    """A collective as messages: what a device sends to each of its group, in order, and what it makes of theirs."""

    split: Callable[[np.ndarray, int, Attributes], Sequence[np.ndarray]]
    join: Callable[[Arrays, Attributes], np.ndarray]


def _to_each(x: np.ndarray, count: int, attributes: Attributes) -> Sequence[np.ndarray]:
    return [x] * count


def _blocks_along(axis: str) -> Callable[[np.ndarray, int, Attributes], Sequence[np.ndarray]]:
    return lambda x, count, attributes: _blocks(x, count, integer(attributes, axis))


def _joined_along(axis: str) -> Callable[[Arrays, Attributes], np.ndarray]:
    return lambda parts, attributes: np.concatenate(parts, axis=integer(attributes, axis))


PARTS: Mapping[str, Parts] = {
    "all_reduce": Parts(_to_each, _combined),
    "all_gather": Parts(_to_each, _joined_along("axis")),
    "reduce_scatter": Parts(_blocks_along("axis"), _combined),
    "all_to_all": Parts(_blocks_along("split_axis"), _joined_along("concat_axis")),
}
"""The collectives that need not send all to all; their results are those of the meanings, bit for bit."""
