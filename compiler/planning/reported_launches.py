"""What reports of a plan say of its launches, for any target: their work, as texts and at typical sizes.

JSON values throughout. A size that only a call decides is a text in the names of the symbols, beside its number at
typical values of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import (
    GuardStep,
    Kernel,
    KernelPlan,
    Launch,
    Loop,
    OpStep,
    PlanStep,
    Region,
    Routine,
    Segment,
    Variant,
    regions_of,
    walk_regions,
)
from onnxc.compiler.planning.kernel_work import KernelWork, work_of
from onnxc.compiler.planning.typical_sizes import TypicalSizes
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = [
    "ReportedLaunch",
    "amount",
    "host_ops",
    "reported_launches",
    "total_arena_bytes",
    "variant_ordinals",
]


@record
class ReportedLaunch:
    """A launch of a plan, the variant that typical calls take, and the sizes of its kernel in those of the program.

    works: of all variants, in the sizes of the program.
    """

    launch: Launch
    in_loop: bool
    variant: Variant
    kernel: Kernel
    own: Mapping[str, Dim]
    works: tuple[KernelWork, ...]

    def json(self, sizes: TypicalSizes) -> dict[str, JsonValue]:
        """What it computes, reads and writes."""
        kernel, work = self.kernel, self.works[self.launch.variants.index(self.variant)]
        return {
            "kind": kernel.kind,
            "node": str(self.launch.location or ""),
            "nodes": [str(node) for node in self.launch.nodes],
            "operators": list(dict.fromkeys(node.operator for node in self.launch.nodes)),
            "ops": ", ".join(dict.fromkeys(op.name for op in kernel.block.ops if op.name != "constant")),
            "algorithm": getattr(kernel.schedule, "algorithm", ""),
            "schedule": str(kernel.schedule),
            "read_bytes": sizes.json(work.read_bytes),
            "written_bytes": sizes.json(work.written_bytes),
            "flops": sizes.json(work.flops),
            "typical_bytes": sizes.typical(work.read_bytes) + sizes.typical(work.written_bytes),
            "typical_flops": sizes.typical(work.flops),
            "in_loop": self.in_loop,
        }


def reported_launches(plan: KernelPlan, sizes: TypicalSizes) -> Iterator[ReportedLaunch]:
    """The launches of a plan in order."""

    @cache
    def work(ordinal: int, sizes: tuple[Dim, ...], in_place: bool) -> KernelWork:
        kernel = plan.kernels[ordinal]
        return work_of(kernel, in_place=in_place).at(dict(zip(kernel.symbols, sizes, strict=True)))

    for segment, in_loop in _segments(plan.body.steps):
        for launch in segment.launches:
            variant = next(each for each in launch.variants if sizes.serves(each.guard))
            kernel = plan.kernels[variant.kernel]
            own = dict(zip(kernel.symbols, variant.sizes, strict=True))
            works = tuple(work(each.kernel, each.sizes, launch.is_in_place) for each in launch.variants)
            yield ReportedLaunch(launch, in_loop, variant, kernel, own, works)


def variant_ordinals(plan: KernelPlan) -> Mapping[int, int]:
    """For each launch, by its id, the ordinal of its first variant among those of all launches in order.

    A profile knows by it what ran: the entries of a report and of their steps, counted through, are in the same order.
    """
    ordinals: dict[int, int] = {}
    first = 0
    for segment, _ in _segments(plan.body.steps):
        for launch in segment.launches:
            ordinals.setdefault(id(launch), first)
            first += len(launch.variants)
    return ordinals


def total_arena_bytes(plan: KernelPlan, sizes: TypicalSizes) -> JsonValue:
    """The largest arena of a segment."""
    return sizes.json(
        max((segment.arena_bytes for segment, _ in _segments(plan.body.steps)), key=sizes.typical, default=0)
    )


def _segments(steps: Iterable[PlanStep], in_loop: bool = False) -> Iterator[tuple[Segment, bool]]:
    """The segments among steps and those within, and whether a loop repeats them."""
    for step in steps:
        if isinstance(step, Segment):
            yield step, in_loop
        elif isinstance(step, Routine):
            yield from _segments(step.steps, in_loop)
        for inner in regions_of(step):
            yield from _segments(inner.steps, in_loop or isinstance(step, Loop))


def host_ops(region: Region) -> Iterator[Op]:
    """The ops over data that run on the host, none of which a routine holds; comparing sizes is none."""
    steps = (step for inner in walk_regions(region) for step in inner.steps)
    return (step.op for step in steps if isinstance(step, OpStep) and not isinstance(step, GuardStep))


def amount(entry: Mapping[str, JsonValue], name: str) -> int | float:
    """A number of a report."""
    value = entry[name]
    assert isinstance(value, int | float), (name, value)
    return value
