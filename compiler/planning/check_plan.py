"""The proof that a plan is sound: what lives at once never overlaps, whatever the sizes; steps find what they read.

An offset is 0 or the end of another slot: walking from slot to slot, each as large as the value in it that is provably
the largest, must end exactly at the end of the arena. Slots are then disjoint, and within one, lifetimes must be.
"""

from collections.abc import Sequence

from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dim_symbols import substitute
from onnxc.compiler.ir.dims import Bounds, Dim, at_least
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.bind_late import check_bind_late
from onnxc.compiler.planning.kernel_plan import (
    Buffer,
    KernelPlan,
    Launch,
    Lifetime,
    Routine,
    Segment,
    walk_regions,
    walk_steps,
)
from onnxc.compiler.planning.layouts import Layout
from onnxc.compiler.planning.loops.views import operand_view, stays
from onnxc.compiler.planning.place_buffers import aligned
from onnxc.compiler.planning.release_values import check_releases
from onnxc.compiler.planning.residency import check_transfers
from onnxc.compiler.planning.routine.check_routine import check_routine


def check_plan(plan: KernelPlan) -> None:
    """Raises AssertionError, with the buffers, where disjointness cannot be proved term by term.

    A launch must also serve every call, use buffers of the arena that are in use, and read its constants in one layout
    for all its variants. A routine must find in its buffers what it has put there. Steps must find what they read: not
    released, and where launches run on a device, on the side where they read it, sizes included.
    """
    for step in walk_steps(plan.body.steps):
        if isinstance(step, Segment):
            check_segment(step, plan.function.symbols)
            for ordinal, launch in enumerate(step.launches):
                _check_launch(plan, step, ordinal, launch)
        if isinstance(step, Routine):
            check_routine(step, plan.kernels)
    for region in walk_regions(plan.body):
        check_releases(region)
        check_bind_late(region)
    check_transfers(plan)


def _check_launch(plan: KernelPlan, segment: Segment, ordinal: int, launch: Launch) -> None:
    assert not launch.general.guard, f"no variant of {launch} serves every call"
    assert all(variant.guard for variant in launch.variants[:-1]), f"a variant of {launch} is never reached"
    for buffer in (*launch.inputs, *launch.outputs):
        assert buffer.kind != "slot" or _lives(segment, buffer, ordinal), (
            f"launch {ordinal} uses {buffer}, which is free"
        )
    for variant in launch.variants:
        kernel = plan.kernels[variant.kernel]
        assert len(kernel.symbols) == len(variant.sizes), (kernel, variant)
        assert len(kernel.block.parameters) == len(launch.inputs), (kernel, launch)
        for parameter, buffer in enumerate(launch.inputs):
            assert _layout(plan, segment, buffer) == kernel.schedule.layout_of(parameter), (kernel, buffer)
        for output, buffer in zip(kernel.block.results, launch.outputs, strict=True):
            written = [p for p, i in zip(kernel.block.parameters, launch.inputs, strict=True) if i == buffer]
            if buffer.kind == "input":
                assert _keeps(output, written), f"launch {ordinal} writes over what it reads in {buffer}"
        sizes = dict(zip(kernel.symbols, variant.sizes, strict=True))
        _check_scratch(segment, ordinal, launch.scratch, substitute(kernel.schedule.scratch_bytes, sizes))


def _layout(plan: KernelPlan, segment: Segment, buffer: Buffer) -> Layout | None:
    """The layout of what is in a buffer: of constants and shares the one that they are packed in."""
    match buffer.kind:
        case "weight":
            return plan.weights[buffer.index].layout
        case "input":
            share = plan.packed_shares.get(segment.inputs[buffer.index])
            return None if share is None else share.layout
    return None


def _keeps(output: Value, written: Sequence[Value]) -> bool:
    """Whether a result that is written into parameters is a concatenation that finds what it has of them in place."""
    op = output.op
    if op is None or op.name != "concatenate":
        return False
    views = [(ordinal, operand_view(operand)) for ordinal, operand in enumerate(op.operands)]
    read = [ordinal for ordinal, view in views if view is not None and view.base in written]
    return bool(read) and all(stays(op, ordinal) for ordinal in read)


def _lives(segment: Segment, buffer: Buffer, ordinal: int) -> bool:
    """Whether a value is in a buffer of the arena while a launch runs."""
    return any(life.slot == buffer.index and life.first <= ordinal <= life.last for life in segment.lifetimes)


def _check_scratch(segment: Segment, ordinal: int, scratch: Buffer | None, needed: Dim) -> None:
    """Scratch memory is a buffer of the arena that nothing else uses while the launch runs."""
    if needed == 0:
        return
    assert scratch is not None, f"launch {ordinal} has no scratch memory for {needed} bytes"
    own = [
        life for life in segment.lifetimes if (life.slot, life.first, life.last) == (scratch.index, ordinal, ordinal)
    ]
    # The largest of what variants need is at least what each of them does, by its form.
    is_enough = any(maximum(life.size_bytes, needed) == life.size_bytes for life in own)
    assert is_enough, f"launch {ordinal} has too little scratch memory"


def check_segment(segment: Segment, bounds: Bounds) -> None:
    """Raises AssertionError where two live buffers of the arena may overlap, or one may be larger than its slot."""
    slots: dict[int, list[Lifetime]] = {}
    for life in segment.lifetimes:
        slots.setdefault(life.slot, []).append(life)
    assert sorted(slots) == [*range(len(segment.slots))], f"lifetimes are in slots {sorted(slots)}"
    for slot, lives in slots.items():
        needed = aligned(_largest(lives, bounds))
        assert needed == segment.slots[slot], f"slot {slot} holds {segment.slots[slot]} bytes, {needed} are needed"
        for index, life in enumerate(lives):
            for other in lives[:index]:
                assert life.first > other.last or other.first > life.last, f"{life} and {other} overlap"


def _largest(lives: list[Lifetime], bounds: Bounds) -> Dim:
    """The size that is at least every other, whatever the symbols are."""
    for life in lives:
        if all(at_least(life.size_bytes, other.size_bytes, bounds) for other in lives):
            return life.size_bytes
    raise AssertionError(f"no buffer of slot {lives[0].slot} is provably the largest")
