"""Events of one call, and the Chrome trace of them: the JSON that chrome://tracing and Perfetto read."""

from collections.abc import Iterable

from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["Event", "chrome_trace"]


@record
class Event:
    """What one thread did, in microseconds since the call began.

    kind: "launch" is a whole launch as its caller saw it, "chunk" a part that a thread had, "host" a step on the host.
    thread: 0 is the caller. launch: its ordinal in the report, -1 for a step on the host.
    """

    kind: str
    name: str
    thread: int
    start_us: float
    length_us: float
    launch: int


def chrome_trace(events: Iterable[Event], model: str) -> dict[str, JsonValue]:
    """The trace as a JSON object. Launches are on a line of their own above the chunks of the caller."""
    listed = list(events)
    # 0 is the line of launches and host steps; threads follow.
    lines = {0: "launches"} | {event.thread + 1: thread_name(event.thread) for event in listed}
    names: list[JsonValue] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": line, "args": {"name": name}}
        for line, name in sorted(lines.items())
    ]
    process: JsonValue = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": f"onnxc {model}"}}
    return {"displayTimeUnit": "ns", "traceEvents": [process, *names, *map(_traced, listed)]}


def thread_name(thread: int) -> str:
    """What people call it."""
    return f"helper {thread}" if thread else "caller"


def _traced(event: Event) -> dict[str, JsonValue]:
    return {
        "ph": "X",
        "cat": event.kind,
        "name": event.name,
        "pid": 1,
        "tid": event.thread + 1 if event.kind == "chunk" else 0,
        "ts": event.start_us,
        "dur": event.length_us,
        "args": {"launch": event.launch},
    }
