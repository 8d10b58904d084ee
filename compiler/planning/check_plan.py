"""The proof that a plan is sound: no two values that live at once overlap, for any legal size.

An offset is 0 or the end of another slot: walking from slot to slot, each as large as the value in it that is provably
the largest, must end exactly at the end of the arena. Slots are then disjoint, and within one, lifetimes must be.
"""

from onnxc.compiler.ir.dims import Bounds, Dim, at_least
from onnxc.compiler.planning.kernel_plan import KernelPlan, Lifetime, PlanBody, Segment
from onnxc.compiler.planning.place_buffers import aligned


def check_plan(plan: KernelPlan) -> None:
    """Raises AssertionError, with the buffers, where disjointness cannot be proved term by term."""
    _check_body(plan.body, plan.function.symbols)


def _check_body(body: PlanBody, bounds: Bounds) -> None:
    for step in body.steps:
        if isinstance(step, Segment):
            check_segment(step, bounds)
        else:
            for inner in step.bodies:
                _check_body(inner, bounds)


def check_segment(segment: Segment, bounds: Bounds) -> None:
    """Raises AssertionError where two live buffers of the arena may overlap, or one may pass its end."""
    slots: dict[Dim, list[Lifetime]] = {}
    for life in segment.lifetimes:
        slots.setdefault(life.offset, []).append(life)
    offset: Dim = 0
    for _ in slots:
        assert offset in slots, f"no buffer starts at {offset}, where the one before ends"
        offset = offset + aligned(_largest(slots[offset], bounds))
    assert offset == segment.arena_bytes, f"the slots end at {offset}, the arena at {segment.arena_bytes}"
    for lives in slots.values():
        for index, life in enumerate(lives):
            for other in lives[:index]:
                assert life.first > other.last or other.first > life.last, f"{life} and {other} overlap"


def _largest(lives: list[Lifetime], bounds: Bounds) -> Dim:
    """The size that is at least every other, whatever the symbols are."""
    for life in lives:
        if all(at_least(life.size_bytes, other.size_bytes, bounds) for other in lives):
            return life.size_bytes
    raise AssertionError(f"no buffer at {lives[0].offset} is provably the largest")
