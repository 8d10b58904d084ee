"""Streams, events and graphs of a fake device, as lazy as the interface allows.

Nothing runs until something waits for it: whoever forgets to wait, or to order two streams, reads what is not there
yet, or overwrites what is still to be read.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

Work = Callable[[], None]


class NotYet(Exception):
    """What is next on a stream waits for another process."""


LEGACY = 1


@dataclass(eq=False)
class Record:
    """One recording of an event on a stream."""

    stream: "FakeStream"
    is_done: bool = False


@dataclass(eq=False)
class FakeStream:
    """Work in order; while it is captured, `capture` takes what is enqueued."""

    handle: int
    queue: deque[Work | Record] = field(default_factory=deque)
    capture: list[Work] | None = None

    def enqueue(self, work: Work) -> None:
        (self.queue if self.capture is None else self.capture).append(work)

    def record(self) -> Record:
        record = Record(self)
        self.queue.append(record)
        return record

    def wait_for(self, record: Record) -> None:
        self.queue.append(lambda: record.stream.run_until(record))

    def run_until(self, record: Record) -> None:
        while not record.is_done:
            assert self.queue, "an event waits for work that is not there"
            self._step()

    def run(self) -> None:
        while self.queue:
            self._step()

    def _step(self) -> None:
        work = self.queue.popleft()
        if isinstance(work, Record):
            work.is_done = True
            return
        try:
            work()
        except NotYet:
            self.queue.appendleft(work)
            raise


class FakeStreams:
    """The streams of a device by handle; 0, 1 and 2 are the default one."""

    def __init__(self) -> None:
        self._default = FakeStream(LEGACY)
        self._streams: dict[int, FakeStream] = {}
        self._next = 0x5000
        self.events: dict[int, Record | None] = {}
        self.graphs: dict[int, list[Work]] = {}
        self.executables: dict[int, list[Work]] = {}
        # What marks the end of the last launch of each.
        self.running: dict[int, Record] = {}

    def handle(self) -> int:
        self._next += 0x10
        return self._next

    def create(self) -> int:
        handle = self.handle()
        self._streams[handle] = FakeStream(handle)
        return handle

    def find(self, handle: int) -> FakeStream | None:
        return self._default if handle in (0, 1, 2) else self._streams.get(handle)

    def destroy(self, handle: int) -> bool:
        """Its work goes on."""
        stream = self._streams.pop(handle, None)
        if stream is not None:
            stream.run()
        return stream is not None

    def end_captures(self) -> None:
        for stream in self._streams.values():
            stream.capture = None

    def all(self) -> tuple[FakeStream, ...]:
        return self._default, *self._streams.values()

    def run_all(self) -> None:
        for stream in self.all():
            stream.run()

    @property
    def live(self) -> int:
        return len(self._streams)
