"""How an artifact is a pipeline: which devices run which of its segments, and what goes from one to another.

The artifact is its first segment; the others are artifacts within it. Each has a program whose inputs are those of the
whole, then what it receives, then those that runtime/devices/division.py tells of; its results are what it sends, then
outputs of the whole.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from onnxc.runtime.devices.division import MOST_DEVICES
from onnxc.runtime.program import JsonValue, Program
from onnxc.runtime.records import record
from onnxc.runtime.values import as_array

if TYPE_CHECKING:
    from onnxc.runtime.host.values import HostValue

__all__ = ["Pipeline", "Role", "Split", "Transfer", "decode_pipeline"]


@record
class Role:
    """What a segment is for: its devices, by the ordinals of their mesh, and what becomes of its results.

    sent: how many go to other segments; outputs: which output of the whole each result behind these is.
    """

    devices: tuple[int, ...]
    sent: int
    outputs: tuple[int, ...]


@record
class Transfer:
    """A result of segment `source` that is the next parameter of segment `target`.

    pairs: for each device of the target, from which device it comes to it.
    """

    source: int
    result: int
    target: int
    pairs: tuple[tuple[int, int], ...]


@record
class Split:
    """How calls go through in parts: the axis of each input and output that is split, and the most parts.

    least: how many elements a part must have.
    """

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    most: int
    least: int

    def parts(self, values: Sequence["HostValue"]) -> list[tuple["HostValue", ...]]:
        """The inputs of each part; parts differ by one element at most."""
        index, axis = next((index, axis) for index, axis in enumerate(self.inputs) if axis is not None)
        size = as_array(values[index]).shape[axis]
        ends = self.ends(size)
        return [
            tuple(
                value if axis is None else _slice(as_array(value), axis, start, end)
                for value, axis in zip(values, self.inputs, strict=True)
            )
            for start, end in itertools.pairwise(ends)
        ]

    def ends(self, size: int) -> list[int]:
        """Where parts of so many elements begin and end."""
        count = max(min(self.most, size // self.least), 1)
        return [size * k // count for k in range(count + 1)]

    def joined(self, output: int, parts: Sequence["HostValue"]) -> "HostValue":
        """An output of the whole; one that is not split is the same in every part."""
        axis = self.outputs[output]
        return parts[0] if axis is None or len(parts) == 1 else np.concatenate(list(map(as_array, parts)), axis)


@record
class Pipeline:
    """The segments in their order, what they send each other, and how calls go through in parts, if they do.

    inputs: how many inputs the whole has.
    """

    inputs: int
    roles: tuple[Role, ...]
    transfers: tuple[Transfer, ...]
    split: Split | None

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return max(device for role in self.roles for device in role.devices) + 1

    def received(self, segment: int) -> list[Transfer]:
        """What a segment gets from others, in the order of its parameters."""
        return [transfer for transfer in self.transfers if transfer.target == segment]

    def encode(self) -> JsonValue:
        """What a file says of it."""
        split = None if self.split is None else asdict(self.split)
        roles, transfers = list(map(asdict, self.roles)), list(map(asdict, self.transfers))
        return {"inputs": self.inputs, "roles": roles, "transfers": transfers, "split": split}

    def expect_programs(self, programs: Sequence[Program]) -> None:
        """Raises ValueError where programs, without the inputs of their devices, have others than they would."""
        for ordinal, (role, program) in enumerate(zip(self.roles, programs, strict=True)):
            if len(program.outputs) != role.sent + len(role.outputs):
                raise ValueError(f"segment {ordinal} has {len(program.outputs)} outputs")
            received = self.received(ordinal)
            given = [parameter.dtype for parameter in programs[0].inputs[: self.inputs]]
            given += [programs[each.source].outputs[each.result].dtype for each in received]
            if [parameter.dtype for parameter in program.inputs] != given:
                raise ValueError(f"segment {ordinal} does not take what it receives")


def decode_pipeline(value: JsonValue) -> Pipeline:
    """What a file says of the segments; ValueError where it does not fit together."""
    said = _fields(value, "inputs", "roles", "transfers", "split")
    roles = tuple(map(_role, _list(said["roles"])))
    made = Pipeline(
        _count(said["inputs"]),
        roles,
        tuple(_transfer(each, roles) for each in _list(said["transfers"])),
        None if said["split"] is None else _split(said["split"]),
    )
    outputs = sorted(output for role in roles for output in role.outputs)
    if not roles or outputs != list(range(len(outputs))):
        raise ValueError(f"the segments make the outputs {outputs}")
    split = made.split
    if split is not None and (len(split.inputs), len(split.outputs)) != (made.inputs, len(outputs)):
        raise ValueError("parts are of other inputs and outputs")
    return made


def _role(value: JsonValue) -> Role:
    said = _fields(value, "devices", "sent", "outputs")
    devices, outputs = (tuple(map(_count, _list(said[name]))) for name in ("devices", "outputs"))
    if not devices or len(set(devices)) != len(devices) or max(devices) >= MOST_DEVICES:
        raise ValueError(f"devices are {devices}")
    return Role(devices, _count(said["sent"]), outputs)


def _transfer(value: JsonValue, roles: Sequence[Role]) -> Transfer:
    said = _fields(value, "source", "result", "target", "pairs")
    source, result, target = (_count(said[name]) for name in ("source", "result", "target"))
    pairs = tuple((_count(first), _count(second)) for first, second in map(_list, _list(said["pairs"])))
    if not source < target < len(roles) or result >= roles[source].sent:
        raise ValueError(f"a transfer goes from result {result} of segment {source} to segment {target}")
    senders, receivers = {first for first, _ in pairs}, [second for _, second in pairs]
    if not senders <= set(roles[source].devices) or sorted(receivers) != sorted(roles[target].devices):
        raise ValueError(f"a transfer goes from device to device by {pairs}")
    return Transfer(source, result, target, pairs)


def _split(value: JsonValue) -> Split:
    said = _fields(value, "inputs", "outputs", "most", "least")
    inputs, outputs = (
        tuple(None if axis is None else _count(axis) for axis in _list(said[name])) for name in ("inputs", "outputs")
    )
    most, least = _count(said["most"]), _count(said["least"])
    if most < 1 or least < 1 or all(axis is None for axis in inputs):
        raise ValueError("no input is split into parts")
    return Split(inputs, outputs, most, least)


def _fields(value: JsonValue, *names: str) -> Mapping[str, JsonValue]:
    if not isinstance(value, Mapping) or value.keys() != set(names):
        raise ValueError(f"it is no object of {', '.join(names)}")
    return value


def _list(value: JsonValue) -> Sequence[JsonValue]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is no list")
    return value


def _count(value: JsonValue) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _slice(value: np.ndarray, axis: int, start: int, end: int) -> np.ndarray:
    return np.ascontiguousarray(value[(slice(None),) * axis + (slice(start, end),)])
