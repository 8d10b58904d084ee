"""Where the devices of one call meet: each brings what it has, the last one combines, and each gets its result.

The devices are threads of one process; an `Exchanges` of another kind takes the place of the rendezvous where they are
processes (runtime/ranks/). Results do not depend on who comes last: what is combined is in the order of the
group. A device that fails, or does not come within a time limit, ends the call for all; nobody waits for ever.

Who brings something waits for nobody, and asks for its result later. All devices begin the same exchanges in the same
order: of those that wait, whoever is least far has what it waits for, so that not all can wait for one another. What a
device has brought it does not write to any more.
"""

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from onnxc.runtime.device_value import DeviceValue
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.host.values import HostValue
from onnxc.runtime.records import record

__all__ = [
    "DeviceStopped", "Exchanges", "Rendezvous", "Sendable", "begin_meeting", "device_of_thread", "group_of", "meet",
    "receive", "send",
]  # fmt: skip

Arrays = Sequence[np.ndarray]
Combine = Callable[[Arrays, Mapping[str, object]], tuple[np.ndarray, ...]]

# What one device sends to another; arrays on devices only within a process.
Sendable = HostValue | DeviceValue


class Exchanges(Protocol):
    """What brings the devices of one call together."""

    def bring(
        self, device: int, name: str, operand: np.ndarray, attributes: Mapping[str, object], combine: Combine
    ) -> Callable[[], np.ndarray]:
        """Brings `operand` for `device`, and waits for nobody; gives what waits for the result.

        That is the result of `combine` on the operands of its group; it is asked for once.
        """

    def send(self, device: int, target: int, key: Hashable, value: Sendable) -> None:
        """Gives a value of `device`, which nobody writes to any more, to `target`; waits for nobody."""

    def receive(self, device: int, source: int, key: Hashable) -> Sendable:
        """What `source` sends to `device` by this key."""


class DeviceStopped(DeviceError):
    """What a device raises that goes on no further because another one has failed."""

    def __init__(self) -> None:
        super().__init__("another device has failed", code="device-stopped")


@dataclass
class _Meeting:
    """One exchange of one group: what came so far, by device, and what goes back once all are there."""

    name: str
    came: dict[int, np.ndarray] = field(default_factory=dict)
    results: Mapping[int, np.ndarray] | None = None


class Rendezvous:
    """The exchanges of one call of `count` devices; each has to come within `seconds` of the first of its group."""

    def __init__(self, count: int, seconds: float) -> None:
        self.seconds = seconds
        self._changed = threading.Condition()
        self._meetings: dict[tuple[int, tuple[int, ...]], _Meeting] = {}
        self._rounds = [0] * count
        self._sent: dict[tuple[int, int, Hashable], Sendable] = {}
        self._failed = False

    def fail(self) -> None:
        """Ends all exchanges: whoever waits, or comes, raises DeviceStopped."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()

    def bring(
        self, device: int, name: str, operand: np.ndarray, attributes: Mapping[str, object], combine: Combine
    ) -> Callable[[], np.ndarray]:
        """Brings `operand` for `device`; gives what waits for the result. Who comes last combines."""
        group = group_of(device, attributes)
        meeting = self._come(device, group, name, operand)
        if len(meeting.came) == len(group) and self._is_last(meeting, device):
            results = combine([meeting.came[member] for member in group], attributes)
            with self._changed:
                meeting.results = dict(zip(group, results, strict=True))
                self._changed.notify_all()
        return lambda: self._result(meeting, group, device)

    def send(self, device: int, target: int, key: Hashable, value: Sendable) -> None:
        """Leaves a value, which nobody writes to any more, for `target`; waits for nobody."""
        with self._changed:
            self._sent[device, target, key] = value
            self._changed.notify_all()

    def receive(self, device: int, source: int, key: Hashable) -> Sendable:
        """What `source` sends to `device` by this key."""
        sent = source, device, key
        with self._changed:
            self._changed.wait_for(lambda: sent in self._sent or self._failed, self.seconds)
            if sent in self._sent:
                return self._sent.pop(sent)
            if self._failed:
                raise DeviceStopped
        message = f"device {source} did not send what device {device} waits for within {self.seconds:g} s"
        raise DeviceError(message, code="device-stalled")

    def _come(self, device: int, group: tuple[int, ...], name: str, operand: np.ndarray) -> _Meeting:
        with self._changed:
            key = self._rounds[device], group
            self._rounds[device] += 1
            meeting = self._meetings.setdefault(key, _Meeting(name))
            if meeting.name != name:
                message = f"device {device} comes to {name}, others of its group to {meeting.name}"
                raise DeviceError(message, code="collectives-differ")
            meeting.came[device] = operand
            if len(meeting.came) == len(group):
                del self._meetings[key]
            return meeting

    def _is_last(self, meeting: _Meeting, device: int) -> bool:
        return list(meeting.came)[-1] == device

    def _result(self, meeting: _Meeting, group: tuple[int, ...], device: int) -> np.ndarray:
        with self._changed:
            self._changed.wait_for(lambda: meeting.results is not None or self._failed, self.seconds)
            if meeting.results is not None:
                return meeting.results[device]
            if self._failed:
                raise DeviceStopped
            # Where all came, the last one has not done combining.
            late = [member for member in group if member not in meeting.came] or list(meeting.came)[-1:]
            absent = ", ".join(map(str, late))
            message = f"device {absent} did not come to {meeting.name} within {self.seconds:g} s"
            raise DeviceError(message, code="device-stalled")


def _has_others(attributes: Mapping[str, object]) -> bool:
    """Whether groups are of more than one device."""
    groups = attributes.get("groups", ())
    return isinstance(groups, tuple) and any(len(group) > 1 for group in groups)


def group_of(device: int, attributes: Mapping[str, object]) -> tuple[int, ...]:
    """The devices of the group that a device is in, in the order in which they are combined."""
    groups = attributes["groups"]
    assert isinstance(groups, tuple), attributes
    match: tuple[int, ...] = next(group for group in groups if device in group)
    return match


@record
class _Member:
    exchanges: Exchanges
    device: int


_thread = threading.local()


@contextmanager
def device_of_thread(exchanges: Exchanges, device: int) -> Iterator[None]:
    """Within it this thread is one of the devices that meet."""
    _thread.member = _Member(exchanges, device)
    try:
        yield
    finally:
        del _thread.member


def meet(name: str, operands: Arrays, attributes: Mapping[str, object], combine: Combine) -> tuple[np.ndarray, ...]:
    """The results of a collective: for operands of all devices those of all, for one that of this thread's device.

    Raises DeviceError where devices fail, or where this thread is none.
    """
    if len(operands) != 1 or not _has_others(attributes):
        return combine(operands, attributes)
    return (begin_meeting(name, operands[0], attributes, combine)(),)


def begin_meeting(
    name: str, operand: np.ndarray, attributes: Mapping[str, object], combine: Combine
) -> Callable[[], np.ndarray]:
    """Begins a collective to which this thread's device brings `operand`; gives what waits for its result.

    Both raise DeviceError where devices fail, the first where this thread is none.
    """
    if not _has_others(attributes):
        (result,) = combine([operand], attributes)
        return lambda: result
    member = _member(name)
    return member.exchanges.bring(member.device, name, operand, attributes, combine)


def send(target: int, key: Hashable, value: Sendable) -> None:
    """Leaves a value for another device."""
    member = _member("send")
    member.exchanges.send(member.device, target, key, value)


def receive(source: int, key: Hashable) -> Sendable:
    """What another device sends to this thread's by this key. Raises DeviceError where devices fail."""
    member = _member("receive")
    return member.exchanges.receive(member.device, source, key)


def _member(name: str) -> _Member:
    member: _Member | None = getattr(_thread, "member", None)
    if member is None:
        raise DeviceError(f"{name} is an exchange between devices, and only one runs", code="collective-alone")
    return member
