"""When each segment of a pipeline is at work on each part of a call: devices take parts in order, segments within.

It is the order of the engines (runtime/devices/pipeline_engine.py): forward only, which is all that is left of 1F1B in
inference.
Sending takes nothing of the sender's time; who receives waits for what is sent.
"""

from collections.abc import Mapping, Sequence

from onnxc.runtime.records import record

__all__ = ["Sent", "Turn", "turns"]


@record
class Sent:
    """A value that goes from segment `source` to `target`, where it is `seconds` after it was made."""

    source: int
    target: int
    seconds: float


@record
class Turn:
    """A segment at work on a part of the call, in seconds from its start."""

    segment: int
    part: int
    start: float
    end: float


def turns(
    devices: Sequence[Sequence[int]], seconds: Sequence[Sequence[float]], sent: Sequence[Sequence[Sent]]
) -> tuple[Turn, ...]:
    """The turns of a call.

    devices: of each segment. seconds, sent: for each part what each segment takes, and what goes between them.
    """
    free: dict[int, float] = {}
    made = []
    for part, (taken, arrivals) in enumerate(zip(seconds, sent, strict=True)):
        ends: dict[int, float] = {}
        for segment, members in enumerate(devices):
            start = max(_arrived(segment, arrivals, ends), *(free.get(device, 0.0) for device in members))
            ends[segment] = start + taken[segment]
            free |= dict.fromkeys(members, ends[segment])
            made.append(Turn(segment, part, start, ends[segment]))
    return tuple(made)


def _arrived(segment: int, sent: Sequence[Sent], ends: Mapping[int, float]) -> float:
    """When all that a segment reads is there."""
    return max((ends[each.source] + each.seconds for each in sent if each.target == segment), default=0.0)
