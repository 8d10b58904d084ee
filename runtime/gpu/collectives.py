"""Exchanges between GPUs: calls of NCCL on the streams of all devices of a group, made at once.

These streams are of exchanges alone, so that launches that need nothing of one overlap with it. The threads of the
devices meet before anything is enqueued, and the last one enqueues for all: nobody's stream waits for a device that
never came, and errors of one end the others there.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock

import numpy as np

from onnxc.runtime.devices.arriving import Arriving
from onnxc.runtime.dtypes import dtype_name
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.exchange_stream import ExchangeStream
from onnxc.runtime.gpu.nccl import BYTES, Nccl, reduction
from onnxc.runtime.gpu.wanted import on_device
from onnxc.runtime.gpu.workspaces import Call
from onnxc.runtime.host.rendezvous import DeviceStopped, group_of, meet
from onnxc.runtime.program import Host, compile_attributes
from onnxc.runtime.records import record
from onnxc.runtime.steps import RunStep, Slots, Symbols

__all__ = ["NOT_READY", "POLL_SECONDS", "Communicators", "Group", "expect_alike"]

# CUresult: what is on a stream has not all run.
NOT_READY = 600

# No measurement, as there was no GPU: so short that the scheduler decides, and the threads of other devices get on.
POLL_SECONDS = 1e-6

Group = tuple[int, ...]


class Communicators:
    """The communicators of all groups of a program, whose device i is CUDA device i of this process.

    They are made at the first call, and again at the first one after a failure, which ends them all.
    """

    def __init__(self, nccl: Nccl, groups: Iterable[Group], seconds: float) -> None:
        self.nccl, self.seconds = nccl, seconds
        self._groups = [group for group in dict.fromkeys(groups) if len(group) > 1]
        self._made: dict[Hashable, Mapping[int, int]] = {}
        self._is_open, self._lock = False, Lock()

    def open(self) -> None:
        """Has them all there."""
        with self._held():
            if not self._is_open:
                self._connect()

    def member(self, device: Device) -> int:
        """Which device of the program a CUDA device is."""
        return device.properties.ordinal

    def abort(self) -> None:
        """Ends all exchanges, those that run on devices included."""
        with suppress(DeviceError), self._held():
            self._end()

    @contextmanager
    def of_group(self, group: Hashable) -> Iterator[Mapping[int, int]]:
        """Those of a group by the devices of this process in it, which nobody ends meanwhile.

        Raises DeviceStopped where they have ended.
        """
        with self._held():
            if not self._is_open:
                raise DeviceStopped
            yield self._made[group]

    def expect_well(self, device: int) -> None:
        """Raises DeviceError where an exchange of a device has failed, or all have ended."""
        with self._held():
            if not self._is_open:
                raise DeviceStopped
            for made in self._made.values():
                problem = self.nccl.problem(made[device]) if device in made else None
                if problem is not None:
                    raise problem

    def watch(self, device: Device) -> Callable[[int], None]:
        """What waits for a stream of the device, no longer than the time limit, nor for exchanges that have failed."""
        member, query = self.member(device), device.driver.functions["cuStreamQuery"]

        def wait(stream: int) -> None:
            limit = time.monotonic() + self.seconds
            while query(stream) == NOT_READY:
                self.expect_well(member)
                if time.monotonic() > limit:
                    raise DeviceError(self.late(member), code="device-stalled")
                time.sleep(POLL_SECONDS)

        return wait

    def late(self, device: int) -> str:
        """What is to be said where the work of a device has not ended in time."""
        return f"the work of device {device} did not end within {self.seconds:g} s"

    def exchange_step(self, device: Device) -> Callable[[Host], RunStep[Call] | None]:
        """How a step runs that is a collective; None for what is none."""
        member = self.member(device)

        def prepare(step: Host) -> RunStep[Call] | None:
            if step.function not in _COLLECTIVES:
                return None
            attributes = compile_attributes(step.attributes)

            def run(slots: Slots, symbols: Symbols, call: Call) -> None:
                given = attributes(symbols)
                array = on_device(slots[step.inputs[0]], call)
                slots[step.outputs[0]] = Arriving(_begin(step.function, array, given, member, self, call))

            return run

        return prepare

    def _connect(self) -> None:
        self._end()
        for group in self._groups:
            self._made[group] = self._connected(group)
        self._is_open = True

    def _connected(self, group: Group) -> Mapping[int, int]:
        """New communicators of a group, by the devices of this process."""
        return dict(zip(group, self.nccl.connect(group), strict=True))

    def _end(self) -> None:
        self._is_open = False
        for communicator in [each for made in self._made.values() for each in made.values()]:
            self.nccl.functions["ncclCommAbort"](communicator)
        self._made.clear()

    @contextmanager
    def _held(self) -> Iterator[None]:
        """NCCL itself may hang in a call: who waits for that gives up."""
        if not self._lock.acquire(timeout=self.seconds):
            raise DeviceError(f"a call of NCCL did not return within {self.seconds:g} s", code="device-stalled")
        try:
            yield
        finally:
            self._lock.release()


def _begin(
    name: str,
    array: DeviceArray,
    attributes: Mapping[str, object],
    device: int,
    communicators: Communicators,
    call: Call,
) -> Callable[[], DeviceArray]:
    """Enqueues the exchange to which the device brings `array`.

    Gives what makes the call's stream wait for the result, and gives that.
    """
    group, collective = group_of(device, attributes), _COLLECTIVES[name]
    if len(group) == 1:
        return lambda: array
    shape = _result_shape(array.shape, collective, len(group), attributes)
    made = call.new_array(shape, array.dtype, "what other devices send")
    element = reduction(dtype_name(array.dtype), str(attributes["kind"])) if "kind" in attributes else (BYTES, 0)
    size = array.size if "kind" in attributes else array.nbytes
    exchanges = _exchanges_of(call)
    exchanges.follow(call.stream)
    ticket = np.array([array.address, made.address, exchanges.stream, size, *element], np.uint64)

    def enqueue(tickets: Sequence[np.ndarray], attributes: Mapping[str, object]) -> tuple[np.ndarray, ...]:
        with communicators.of_group(group) as members:
            _enqueue(communicators.nccl, name, tickets, tuple(members.values()), len(group))
        return tuple(tickets)

    call.in_flight = True
    meet(name, [ticket], attributes, enqueue)
    event = exchanges.begun(array, made)
    return lambda: exchanges.wait(event, call.stream)


def _exchanges_of(call: Call) -> ExchangeStream:
    """The stream of the exchanges of a call."""
    if call.workspace.exchanges is None:
        call.workspace.exchanges = ExchangeStream(call.device)
    return call.workspace.exchanges


def expect_alike(name: str, tickets: Sequence[np.ndarray]) -> None:
    """Raises DeviceError unless all devices bring as much of one type to an exchange, to be combined in one way."""
    if len({tuple(ticket[_SIZE:].tolist()) for ticket in tickets}) != 1:
        message = f"devices bring {sorted({int(ticket[_SIZE]) for ticket in tickets})} elements to {name}"
        raise DeviceError(message, code="collectives-differ")


def _enqueue(nccl: Nccl, name: str, tickets: Sequence[np.ndarray], members: Sequence[int], count: int) -> None:
    """One group of calls, which NCCL starts as one, of those of `count` devices that are of this process."""
    expect_alike(name, tickets)
    parts = [_part(ticket, communicator) for ticket, communicator in zip(tickets, members, strict=True)]
    if parts[0].size == 0:
        return
    purpose = f"to enqueue {name}"
    with nccl.group(purpose):
        for part in parts:
            for function, *arguments in _COLLECTIVES[name].calls(part, count):
                nccl.call(purpose, str(function), *arguments, part.communicator, part.stream)


@record
class _Part:
    """What one device brings: addresses of what it sends and receives, how many elements it sends, of which type."""

    send: int
    receive: int
    stream: int
    size: int
    type: int
    operation: int
    communicator: int


# Where in a ticket it is told how much a device brings, of which type, to be combined how: behind what is its own.
_SIZE = 3


def _part(ticket: np.ndarray, communicator: int) -> _Part:
    send, receive, stream, size, type, operation = map(int, ticket)
    return _Part(send, receive, stream, size, type, operation, communicator)


FunctionCall = tuple[object, ...]


@record
class _Collective:
    """Calls, by name and arguments, for one of `count` devices; by what the first axis of the result is longer."""

    calls: Callable[[_Part, int], Sequence[FunctionCall]]
    multiplied: Callable[[int, int], int]


def _all_to_all(part: _Part, count: int) -> list[FunctionCall]:
    """Block j goes to device j, and comes from it."""
    block = part.size // count
    sent = [("ncclSend", part.send + peer * block, block, BYTES, peer) for peer in range(count)]
    return [*sent, *(("ncclRecv", part.receive + peer * block, block, BYTES, peer) for peer in range(count))]


_COLLECTIVES: Mapping[str, _Collective] = {
    "all_reduce": _Collective(
        lambda part, count: [("ncclAllReduce", part.send, part.receive, part.size, part.type, part.operation)],
        lambda size, count: size,
    ),
    "reduce_scatter": _Collective(
        lambda part, count: [
            ("ncclReduceScatter", part.send, part.receive, part.size // count, part.type, part.operation)
        ],
        lambda size, count: size // count,
    ),
    "all_gather": _Collective(
        lambda part, count: [("ncclAllGather", part.send, part.receive, part.size, BYTES)],
        lambda size, count: size * count,
    ),
    "all_to_all": _Collective(_all_to_all, lambda size, count: size),
}

_DIVIDING = frozenset(("reduce_scatter", "all_to_all"))


def _result_shape(
    shape: tuple[int, ...], collective: _Collective, count: int, attributes: Mapping[str, object]
) -> tuple[int, ...]:
    """The shape of a result; DeviceError for what the compiler never asks of GPUs."""
    axes = [attributes[name] for name in ("axis", "split_axis", "concat_axis") if name in attributes]
    if not axes:
        return shape
    divides = any(collective is _COLLECTIVES[name] for name in _DIVIDING)
    if any(axis != 0 for axis in axes) or not shape or (divides and shape[0] % count):
        message = f"{count} GPUs exchange {list(shape)} along axes {axes}: blocks of the first axis alone are exchanged"
        raise DeviceError(message, code="unfit-step")
    return (collective.multiplied(shape[0], count), *shape[1:])
