"""What one device does in the program of a segment: spans of computing and exchanges, and the memory that it takes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.planning.kernel_plan import (
    BindSizes,
    Branch,
    Collective,
    GuardStep,
    HostStep,
    KernelPlan,
    Launch,
    Loop,
    PlanStep,
    Region,
    Release,
    Segment,
)
from onnxc.compiler.planning.place_buffers import value_bytes
from onnxc.compiler.sharding.factors import has_axes
from onnxc.compiler.simulation.network import Exchanged, Network, exchanged
from onnxc.compiler.simulation.roofline import Sizes, kernel_seconds, memory_seconds
from onnxc.compiler.target import Target
from onnxc.runtime.errors import InputError, UnsupportedError, located
from onnxc.runtime.records import record

__all__ = ["Machines", "Meeting", "ProgramCost", "Span", "bytes_of", "walk_plan"]

_HOLDS: Mapping[str, Callable[[int, int], bool]] = {
    "equal": lambda left, right: left == right,
    "broadcast": lambda left, right: left == right or 1 in (left, right),
    "at_least": lambda left, right: left >= right,
}


@record
class Machines:
    """Devices of one kind, and what is between them."""

    target: Target
    network: Network


@record
class Meeting:
    """A collective: each of `devices` devices brings `nbytes`."""

    op: str
    devices: int
    nbytes: int
    made: Exchanged


@record
class Span:
    """What a device is at without a break: steps one behind the other, or a collective."""

    kind: Literal["compute", "collective"]
    name: str
    seconds: float


@record
class ProgramCost:
    """peak_bytes: of what is received and made, arenas included, where it takes most."""

    spans: tuple[Span, ...]
    meetings: tuple[Meeting, ...]
    peak_bytes: int

    @property
    def seconds(self) -> float:
        return sum(span.seconds for span in self.spans)


def walk_plan(plan: KernelPlan, received: Sequence[Value], sizes: Sizes, machines: Machines) -> ProgramCost:
    """The cost of a program where its symbols have these sizes. `received` are parameters that other devices send.

    Raises InputError where the sizes contradict each other, UnsupportedError where data decides what there is to do.
    """
    walk = _Walk(plan, sizes, machines)
    walk.hold(received)
    walk.steps(plan.body)
    return ProgramCost(_joined(walk.spans), tuple(walk.meetings), walk.peak)


def bytes_of(values: Iterable[Value], sizes: Sizes) -> int:
    """The bytes of the tensors among values."""
    return sum(evaluate(value_bytes(value), sizes) for value in values if has_axes(value))


class _Walk:
    """The spans and exchanges so far, the bytes of each value that is held now, and the most that were."""

    def __init__(self, plan: KernelPlan, sizes: Sizes, machines: Machines) -> None:
        self.plan, self.sizes, self.machines = plan, sizes, machines
        self.spans: list[Span] = []
        self.meetings: list[Meeting] = []
        self.held: dict[Value, int] = {}
        self.peak = 0

    def steps(self, region: Region) -> None:
        for step in region.steps:
            self._step(step)

    def hold(self, values: Iterable[Value], more: int = 0) -> None:
        """Values are there from now on; while they are made, `more` bytes are."""
        self.held |= {value: self._bytes((value,)) for value in values}
        self.peak = max(self.peak, sum(self.held.values()) + more)

    def _step(self, step: PlanStep) -> None:
        match step:
            case Segment():
                for launch in step.launches:
                    self._compute(self._launch_seconds(launch))
                self.hold(step.outputs, self._evaluated(step.arena_bytes))
            case Collective():
                self._collective(step.op)
                self.hold(step.op.results)
            case HostStep():
                nbytes = self._bytes((*step.op.operands, *step.op.results))
                self._compute(memory_seconds(nbytes, self.machines.target))
                self.hold(step.op.results)
            case Branch():
                self._branch(step)
            case Release():
                for value in step.values:
                    self.held.pop(value, None)
            case GuardStep():
                self._expect(step.op)
            case Loop():
                raise _undecided(step.op, "how often the loop goes round")
            case BindSizes():
                raise _undecided(step.op, f"the size {', '.join(bound_symbols(step.op))}")

    def _branch(self, step: Branch) -> None:
        """The branch that takes longer; data decides on it."""
        sides = [_Walk(self.plan, self.sizes, self.machines) for _ in range(2)]
        for side, region in zip(sides, (step.then, step.otherwise), strict=True):
            side.steps(region)
        longer = max(sides, key=lambda side: sum(span.seconds for span in side.spans))
        self.spans += longer.spans
        self.meetings += longer.meetings
        self.hold(step.op.results, max(side.peak for side in sides))

    def _launch_seconds(self, launch: Launch) -> float:
        variant = launch.variant_for(self.sizes)
        kernel = self.plan.kernels[variant.kernel]
        own = dict(zip(kernel.symbols, map(self._evaluated, variant.sizes), strict=True))
        return kernel_seconds(kernel, own, self.machines.target, in_place=launch.is_in_place)

    def _collective(self, op: Op) -> None:
        """All groups meet at once; the slowest one is what counts, for they meet again."""
        nbytes = self._bytes(op.operands)
        made = [(len(group), exchanged(op.name, nbytes, group, self.machines.network)) for group in _groups(op)]
        count, slowest = max(made, key=lambda each: each[1].seconds)
        meeting = Meeting(op.name, count, nbytes, slowest)
        self.meetings.append(meeting)
        self.spans.append(Span("collective", f"{op.name} of {nbytes} bytes, {slowest.algorithm}", slowest.seconds))

    def _compute(self, seconds: float) -> None:
        self.spans.append(Span("compute", "", seconds))

    def _evaluated(self, size: Dim) -> int:
        return evaluate(size, self.sizes)

    def _bytes(self, values: Iterable[Value]) -> int:
        return bytes_of(values, self.sizes)

    def _expect(self, op: Op) -> None:
        left, right = (self._evaluated(op.dim(side)) for side in ("left", "right"))
        if not _HOLDS[op.text("relation")](left, right):
            message = f"a call of these sizes is refused: {op.text('message')}, {left} and {right}"
            raise located(InputError(message, code="simulated-sizes"), op.location)


def _groups(op: Op) -> Iterator[tuple[int, ...]]:
    """The devices of each group of a collective."""
    groups = op.attributes["groups"]
    assert isinstance(groups, tuple), op
    for group in groups:
        assert isinstance(group, tuple), op
        yield tuple(device for device in group if isinstance(device, int))


def _undecided(op: Op, what: str) -> UnsupportedError:
    message = f"only data decides {what}, and a simulation has none"
    return located(UnsupportedError(message, code="unsupported-simulation"), op.location)


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The spans, with steps that follow one another as one."""
    joined: list[Span] = []
    count = 0
    for span in spans:
        if span.kind == "compute" and joined and joined[-1].kind == "compute":
            count += 1
            joined[-1] = Span("compute", f"{count} steps", joined[-1].seconds + span.seconds)
        else:
            count = 1
            joined.append(Span("compute", "1 step", span.seconds) if span.kind == "compute" else span)
    return tuple(joined)
