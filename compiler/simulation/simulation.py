"""What a simulation tells: times, bytes and memory, for devices that do the same once."""

from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files

from onnxc.runtime.pages.fill_page import fill_page
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["DeviceClass", "Event", "ExchangeTotal", "Memory", "Simulation"]


@record
class Memory:
    """Bytes of a device: its weights, the inputs of a call, and all else of one part of it where that is most."""

    weights: int
    inputs: int
    working: int

    @property
    def total(self) -> int:
        """The most that the device needs at once."""
        return self.weights + self.inputs + self.working


@record
class Event:
    """What a device is at, in seconds from the start of the call."""

    kind: str
    name: str
    part: int
    start: float
    seconds: float


@record
class ExchangeTotal:
    """Exchanges of a call that are alike, `count` of them for each device of `stage`.

    devices: of one group. nbytes: what each device brings. sent_bytes: what it sends in one of them, on average.
    """

    op: str
    stage: int
    devices: int
    algorithm: str
    count: int
    nbytes: int
    sent_bytes: float
    seconds: float


@record
class DeviceClass:
    """Devices that do the same.

    overlapped_seconds: of those in which one exchanges, those in which it computes, too. sent_bytes: what one of them
    sends in a call, on average. The rest of the call it waits for others.
    """

    devices: tuple[int, ...]
    stages: tuple[int, ...]
    computing_seconds: float
    exchanging_seconds: float
    overlapped_seconds: float
    sent_bytes: float
    memory: Memory
    events: tuple[Event, ...]


@record
class Simulation:
    """A call of a model that is divided over devices, by cost alone.

    sizes: of the call. parts: in how many parts it goes through pipeline stages. exchanges: those of one call.
    """

    model: str
    configuration: str
    target: str
    network: str
    sizes: Mapping[str, int]
    parts: int
    seconds: float
    classes: tuple[DeviceClass, ...]
    exchanges: tuple[ExchangeTotal, ...]

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return sum(len(each.devices) for each in self.classes)

    @cached_property
    def shares(self) -> Mapping[str, float]:
        """Of the time of all devices the shares in which they compute, only exchange, and wait for others."""
        whole = self.seconds * self.devices or 1.0
        computing = sum(each.computing_seconds * len(each.devices) for each in self.classes) / whole
        alone = ((each.exchanging_seconds - each.overlapped_seconds) * len(each.devices) for each in self.classes)
        exchanging = sum(alone) / whole
        return {"computing": computing, "exchanging": exchanging, "waiting": max(0.0, 1 - computing - exchanging)}

    @property
    def sent_bytes(self) -> float:
        """What all devices send in a call."""
        return sum(each.sent_bytes * len(each.devices) for each in self.classes)

    @property
    def peak_bytes(self) -> int:
        """The memory of the device that needs most."""
        return max(each.memory.total for each in self.classes)

    def to_json(self) -> dict[str, JsonValue]:
        """As a JSON object."""
        return {
            "model": self.model,
            "configuration": self.configuration,
            "target": self.target,
            "network": self.network,
            "sizes": dict(self.sizes),
            "parts": self.parts,
            "devices": self.devices,
            "seconds": self.seconds,
            "shares": dict(self.shares),
            "sent_bytes": self.sent_bytes,
            "peak_bytes": self.peak_bytes,
            "classes": [_class_json(each) for each in self.classes],
            "exchanges": [dict(vars(each)) for each in self.exchanges],
        }

    def html(self) -> str:
        """A page with tables and a timeline by devices, which needs nothing else."""
        return fill_page((files("onnxc.compiler.simulation") / "page.html").read_text("utf8"), self.to_json())


def _class_json(each: DeviceClass) -> JsonValue:
    memory = {**vars(each.memory), "total": each.memory.total}
    events = [[event.kind, event.name, event.part, event.start, event.seconds] for event in each.events]
    said = {name: value for name, value in vars(each).items() if name not in ("memory", "events", "devices", "stages")}
    return {**said, "devices": list(each.devices), "stages": list(each.stages), "memory": memory, "events": events}
