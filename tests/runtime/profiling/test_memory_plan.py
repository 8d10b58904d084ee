"""Memory over launches, from reports that are made up: offsets, the peak, and what is outside of arenas."""

import pytest

from onnxc.runtime.profiling.memory_plan import Held, MemoryPlan, SlotUse, memory_plan
from onnxc.runtime.program import JsonValue


def launch(node: str, reads: list[str], writes: list[str]) -> JsonValue:
    return {"node": node, "reads": reads, "writes": writes}


def life(slot: int, nbytes: str | None, first: int, last: int) -> JsonValue:
    return {"slot": slot, "bytes": nbytes, "first": first, "last": last}


LAUNCHES: list[JsonValue] = [
    launch("first", ["x", "weight 1"], ["slot 0"]),
    launch("second", ["slot 0", "weight 0"], ["slot 1"]),
    launch("third", ["slot 1", "x"], ["y"]),
]
LIVES: list[JsonValue] = [life(0, "8*s[0]", 0, 1), life(1, "4*s[0]", 1, 2), life(0, "100", 2, 2)]


def plan_of(*segments: JsonValue, sizes: tuple[int, ...] = (10,)) -> MemoryPlan:
    values: JsonValue = {"x": "4*s[0]", "y": "4*s[0]", "value 0": None}
    memory: JsonValue = {"segments": segments, "values": values, "weights": [70, 80, 90]}
    plan = memory_plan({"launches": LAUNCHES, "memory": memory}, sizes, ["x"], ["y"])
    assert plan is not None
    return plan


def segment(lives: list[JsonValue], slots: list[str | None], prefix: str = "") -> JsonValue:
    return {"prefix": prefix, "slots": slots, "lives": lives}


def test_values_lie_at_the_offsets_of_their_slots_and_scratch_memory_has_no_node() -> None:
    plan = plan_of(segment([*LIVES, life(2, "8", 0, 0)], ["16*s[0]", "64", "64"]))
    assert plan.uses == (
        SlotUse("slot 0", "first", 0, 80, 0, 1),
        SlotUse("slot 1", "second", 160, 40, 1, 2),
        SlotUse("slot 0", "", 0, 100, 2, 2),
        SlotUse("slot 2", "", 224, 8, 0, 0),
    )


def test_the_peak_is_where_most_is_in_use_and_the_arena_is_that_of_its_slots() -> None:
    plan = plan_of(segment(LIVES, ["16*s[0]", "64"]))
    assert (plan.launches, plan.arena_bytes, plan.peak_launch, plan.peak_bytes) == (3, 224, 2, 140)
    larger = plan_of(segment(LIVES, ["16*s[0]", "64"]), sizes=(100,))
    assert (larger.peak_launch, larger.peak_bytes) == (1, 1200)


def test_what_is_outside_of_arenas_is_listed_from_its_first_use_to_its_last() -> None:
    held = plan_of().held
    assert held == (
        Held("input", "x", 40, 0, 2),
        Held("output", "y", 40, 2, 2),
        Held("weight", "weight 0", 70, 1, 1),
        Held("weight", "weight 1", 80, 0, 0),
    )


def test_an_arena_of_a_size_that_only_data_decides_is_counted_and_left_out() -> None:
    later = segment([life(0, None, 2, 2)], [None], "segment 1 ")
    plan = plan_of(segment(LIVES[:2], ["80", "64"]), later)
    assert (plan.open_segments, plan.arena_bytes, len(plan.uses)) == (1, 144, 2)


@pytest.mark.parametrize("report", ["", {}, {"launches": LAUNCHES}])
def test_a_report_that_says_nothing_of_memory_gives_none(report: JsonValue) -> None:
    assert memory_plan(report, (), ["x"], ["y"]) is None
