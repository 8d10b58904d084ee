"""Memory over the launches of a program: where in the arena each value lies and how long, at the sizes of one call.

Launches are counted as in the report. What is outside of arenas, inputs, outputs and weights, is listed apart.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from onnxc.runtime.profiling.report_entries import entries_of, texts_of
from onnxc.runtime.program import JsonValue, compile_sizes
from onnxc.runtime.records import record

__all__ = ["Held", "MemoryPlan", "SlotUse", "memory_plan"]


@record
class SlotUse:
    """A value, or scratch memory, in a slot of an arena, from launch `first` to launch `last`.

    node: the one that made it, as the report has it; empty for scratch memory.
    """

    slot: str
    node: str
    offset: int
    bytes: int
    first: int
    last: int


@record
class Held:
    """What is outside of arenas, from the first launch that uses it to the last; bytes are None where data decides.

    kind: "input", "output", "weight", or "between" for what goes from one native call to the next.
    """

    kind: str
    name: str
    bytes: int | None
    first: int
    last: int


@record
class MemoryPlan:
    """arena_bytes: of the largest arena; peak_bytes: most that is in use in one launch, which is `peak_launch`.

    open_segments: how many arenas have sizes that only data decides; they are left out.
    """

    launches: int
    arena_bytes: int
    peak_bytes: int
    peak_launch: int
    uses: tuple[SlotUse, ...]
    held: tuple[Held, ...]
    open_segments: int = 0


def memory_plan(
    report: JsonValue, symbols: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]
) -> MemoryPlan | None:
    """What a call with these values of the symbols does with memory; None where the report does not say."""
    memory = report.get("memory") if isinstance(report, Mapping) else None
    if not isinstance(memory, Mapping):
        return None
    launches = entries_of(report, "launches")
    segments = entries_of(memory, "segments")
    sizes = _Sizes(memory, symbols)
    known = [segment for segment in segments if sizes.slots(segment) is not None]
    uses = tuple(use for segment in known for use in _uses(segment, launches, sizes))
    in_use = _in_use(uses, len(launches))
    peak = max(range(len(launches)), key=in_use.__getitem__, default=0)
    return MemoryPlan(
        len(launches),
        max((sum(sizes.slots(segment) or ()) for segment in known), default=0),
        in_use[peak] if launches else 0,
        peak,
        uses,
        tuple(_held(report, memory, sizes, inputs, outputs)),
        len(segments) - len(known),
    )


class _Sizes:
    """The sizes of a report as numbers; each text is evaluated once."""

    def __init__(self, memory: Mapping[str, JsonValue], symbols: Sequence[int]) -> None:
        texts = {text for segment in entries_of(memory, "segments") for text in texts_of(segment, "slots")}
        lives = (life for segment in entries_of(memory, "segments") for life in entries_of(segment, "lives"))
        texts |= {str(life["bytes"]) for life in lives if life["bytes"] is not None}
        texts |= {str(text) for text in _object(memory, "values").values() if text is not None}
        listed = sorted(texts)
        self.evaluated: dict[JsonValue, int] = dict(zip(listed, compile_sizes(listed)(symbols), strict=True))

    def slots(self, segment: Mapping[str, JsonValue]) -> list[int] | None:
        """The bytes of each slot of a segment; None where data decides one."""
        slots = segment.get("slots")
        listed = list(slots) if isinstance(slots, list | tuple) else []
        known = [self.evaluated[text] for text in listed if text is not None]
        return known if len(known) == len(listed) else None


def _uses(
    segment: Mapping[str, JsonValue], launches: Sequence[Mapping[str, JsonValue]], sizes: _Sizes
) -> list[SlotUse]:
    offsets = [0, *accumulate(sizes.slots(segment) or ())]
    uses = []
    for life in entries_of(segment, "lives"):
        slot, first, last = (_integer(life, name) for name in ("slot", "first", "last"))
        name, entry = f"{segment.get('prefix')}slot {slot}", launches[first]
        node = str(entry.get("node", "")) if name in texts_of(entry, "writes") else ""
        uses.append(SlotUse(name, node, offsets[slot], sizes.evaluated.get(life["bytes"], 0), first, last))
    return uses


def _in_use(uses: Sequence[SlotUse], launches: int) -> list[int]:
    """The bytes of arenas that hold something, for each launch."""
    changes = [0] * (launches + 1)
    for use in uses:
        changes[use.first] += use.bytes
        changes[use.last + 1] -= use.bytes
    return list(accumulate(changes[:launches]))


def _held(
    report: JsonValue,
    memory: Mapping[str, JsonValue],
    sizes: _Sizes,
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> list[Held]:
    spans: dict[str, tuple[int, int]] = {}
    for launch, entry in enumerate(entries_of(report, "launches")):
        for name in (*texts_of(entry, "reads"), *texts_of(entry, "writes")):
            first, _ = spans.get(name, (launch, launch))
            spans[name] = first, launch
    kinds = dict.fromkeys(outputs, "output") | dict.fromkeys(inputs, "input")
    nbytes: dict[str, JsonValue] = {name: sizes.evaluated.get(text) for name, text in _object(memory, "values").items()}
    weights = memory.get("weights")
    for ordinal, each in enumerate(weights if isinstance(weights, list | tuple) else ()):
        nbytes[f"weight {ordinal}"], kinds[f"weight {ordinal}"] = each, "weight"
    return [
        Held(kinds.get(name, "between"), name, each if isinstance(each, int) else None, *spans[name])
        for name, each in nbytes.items()
        if name in spans
    ]


def _object(entry: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    value = entry.get(name)
    return value if isinstance(value, Mapping) else {}


def _integer(entry: Mapping[str, JsonValue], name: str) -> int:
    value = entry[name]
    assert isinstance(value, int), (name, value)
    return value
