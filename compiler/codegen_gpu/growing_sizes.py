"""What grows from call to call in a plan whose CUDA graphs serve more than one call: the table that kernels load.

The host computes grids and the arena for the limits of the sizes that grow. That is enough for all sizes below only if
none of them gets less where a size gets more, which is asked of each. Where it is not so, graphs serve calls of equal
sizes alone.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import field

from onnxc.compiler.codegen_gpu.source.kernel_source import KernelCode
from onnxc.compiler.ir.dim_symbols import depends, never_falls, substitute
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.planning.kernel_plan import (
    Guard,
    GuardStep,
    KernelPlan,
    Launch,
    Release,
    Segment,
    Variant,
    segments_of,
)
from onnxc.compiler.planning.place_buffers import value_bytes
from onnxc.runtime.records import record

__all__ = ["GrowingSizes", "growing_sizes", "growing_symbols", "obstacle"]


@record
class GrowingSizes:
    """The table of a plan: its entries are the guards that growing sizes decide, then sizes. Empty where none grows."""

    guards: Mapping[Guard, int] = field(default_factory=dict)
    sizes: Mapping[Dim, int] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int] | None:
        """How many entries there are, and how many of them are guards; None of an empty table."""
        count = len(self.guards) + len(self.sizes)
        return (count, len(self.guards)) if count else None


def growing_symbols(plan: KernelPlan) -> list[frozenset[str]]:
    """Of each kernel of a plan, by its ordinal: its symbols that grow in one of its launches."""
    growing: list[set[str]] = [set() for _ in plan.kernels]
    for variant in _variants(plan):
        names = zip(plan.kernels[variant.kernel].symbols, variant.sizes, strict=True)
        growing[variant.kernel].update(name for name, size in names if depends(size, plan.growing.keys()))
    return [*map(frozenset, growing)]


def growing_sizes(plan: KernelPlan, codes: Sequence[KernelCode]) -> GrowingSizes:
    """The table of a plan; `codes` are those of its kernels, which load what grows."""
    guards: dict[Guard, None] = {}
    sizes: dict[Dim, None] = {}
    for variant in _variants(plan):
        if _guard_grows(variant.guard, plan.growing.keys()):
            guards.setdefault(variant.guard)
        own = dict(zip(plan.kernels[variant.kernel].symbols, variant.sizes, strict=True))
        for step in codes[variant.kernel].steps:
            for argument in step.arguments:
                if argument.kind == "table":
                    sizes.setdefault(substitute(argument.value, own))
    return GrowingSizes(
        {guard: entry for entry, guard in enumerate(guards)},
        {size: entry for entry, size in enumerate(sizes, len(guards))},
    )


def obstacle(plan: KernelPlan, codes: Sequence[KernelCode]) -> str:
    """Why no graph of a plan can serve calls whose sizes grow; empty where they can."""
    segment = _only_segment(plan)
    if segment is None:
        return "the program is more than one native call"
    growing = plan.growing.keys()
    for value in segment.outputs:
        if depends(value_bytes(value), growing):
            return "the size of an output grows"
    needed = [*(each.size_bytes for each in segment.lifetimes), *map(value_bytes, segment.inputs)]
    for variant in _variants(plan):
        kernel = plan.kernels[variant.kernel]
        own = dict(zip(kernel.symbols, variant.sizes, strict=True))
        offsets = [kernel.schedule.shared_bytes]
        for step in codes[variant.kernel].steps:
            if step.source.cooperative and any(depends(substitute(dim, own), growing) for dim in step.grid):
                return f"the programs of a {kernel.kind} wait for each other, and their number grows"
            offsets += [*step.grid, *(each.value for each in step.arguments if each.kind == "scratch")]
        needed += [substitute(offset, own) for offset in offsets]
    for size in dict.fromkeys(needed):
        if not never_falls(size, growing):
            return f"{size}, for which there must be room, may become less where a size grows"
    return ""


def _only_segment(plan: KernelPlan) -> Segment | None:
    """The segment that a plan is, from its parameters to its results."""
    match [step for step in plan.body.steps if not isinstance(step, GuardStep | Release)]:
        case [Segment() as segment]:
            results, parameters = plan.body.block.results, plan.body.block.parameters
            is_whole = len(segment.outputs) == len(results) and set(segment.outputs) == set(results)
            return segment if is_whole and set(segment.inputs) <= set(parameters) else None
    return None


def _variants(plan: KernelPlan) -> list[Variant]:
    launches: list[Launch] = [launch for segment in segments_of(plan.body.steps) for launch in segment.launches]
    return [variant for launch in launches for variant in launch.variants]


def _guard_grows(guard: Guard, growing: Set[str]) -> bool:
    return any(depends(condition.size, growing) for condition in guard)
