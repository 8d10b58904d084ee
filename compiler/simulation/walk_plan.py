"""What one device does in the program of a segment: spans of computing and exchanges, and the memory that it takes.

Exchanges are one after the other, in the order in which they are begun. Each overlaps with what the device computes
until a step reads its result, as on devices with an exchange stream of their own.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.planning.kernel_plan import (
    BindMost,
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
    values_read,
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
    """What a device is at without a break, in seconds from the start of the program: steps, or a collective."""

    kind: Literal["compute", "collective"]
    name: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@record
class ProgramCost:
    """seconds: until all is computed and exchanged. peak_bytes: of what is received and made, where it takes most.

    Arenas are included.
    """

    spans: tuple[Span, ...]
    meetings: tuple[Meeting, ...]
    peak_bytes: int
    seconds: float

    @property
    def overlapped_seconds(self) -> float:
        """In which the device computes and exchanges."""
        computing, exchanging = ([s for s in self.spans if s.kind == kind] for kind in ("compute", "collective"))
        total, ordinal = 0.0, 0
        for exchange in exchanging:
            while ordinal < len(computing) and computing[ordinal].end <= exchange.start:
                ordinal += 1
            for span in computing[ordinal:]:
                if span.start >= exchange.end:
                    break
                total += min(span.end, exchange.end) - max(span.start, exchange.start)
        return total


def walk_plan(plan: KernelPlan, received: Sequence[Value], sizes: Sizes, machines: Machines) -> ProgramCost:
    """The cost of a program where its symbols have these sizes. `received` are parameters that other devices send.

    Raises InputError where the sizes contradict each other, UnsupportedError where data decides what there is to do.
    """
    walk = _Walk(plan, sizes, machines)
    walk.hold(received)
    walk.steps(plan.body)
    return ProgramCost(_joined(walk.spans), tuple(walk.meetings), walk.peak, walk.end)


def bytes_of(values: Iterable[Value], sizes: Sizes) -> int:
    """The bytes of the tensors among values."""
    return sum(evaluate(value_bytes(value), sizes) for value in values if has_axes(value))


class _Walk:
    """The spans and exchanges so far, the bytes of each value that is held now, and the most that were.

    now: when the device has computed what it has so far; exchanged: when the last exchange ends. begun: when each
    collective is done whose result nothing has read. late: what is to be released once nothing of it is on its way.
    """

    def __init__(self, plan: KernelPlan, sizes: Sizes, machines: Machines, now: float = 0.0) -> None:
        self.plan, self.sizes, self.machines = plan, sizes, machines
        self.now = self.exchanged = now
        self.begun: dict[Op, float] = {}
        self.spans: list[Span] = []
        self.meetings: list[Meeting] = []
        self.held: dict[Value, int] = {}
        self.late: set[Value] = set()
        self.peak = 0

    def steps(self, region: Region) -> None:
        for step in region.steps:
            self._step(step)

    def hold(self, values: Iterable[Value], more: int = 0) -> None:
        """Values are there from now on; while they are made, `more` bytes are."""
        self.held |= {value: self._bytes((value,)) for value in values}
        self.peak = max(self.peak, sum(self.held.values()) + more)

    @property
    def end(self) -> float:
        """When all is there."""
        return max(self.now, self.exchanged)

    def _step(self, step: PlanStep) -> None:
        self._await(values_read(step))
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
                self._release(step.values)
            case GuardStep():
                self._expect(step.op)
            case Loop():
                raise _undecided(step.op, "how often the loop goes round")
            case BindSizes() | BindMost():
                raise _undecided(step.op, f"the size {', '.join(bound_symbols(step.op))}")

    def _branch(self, step: Branch) -> None:
        """The branch that takes longer; data decides on it. It is taken to overlap with nothing outside."""
        sides = [_Walk(self.plan, self.sizes, self.machines, self.end) for _ in range(2)]
        for side, region in zip(sides, (step.then, step.otherwise), strict=True):
            side.steps(region)
        longer = max(sides, key=lambda side: side.end)
        self.spans += longer.spans
        self.meetings += longer.meetings
        self.now = self.exchanged = longer.end
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
        name = f"{op.name} of {nbytes} bytes, {slowest.algorithm}"
        self.spans.append(Span("collective", name, self.end, self.end + slowest.seconds))
        self.begun[op] = self.exchanged = self.spans[-1].end

    def _await(self, values: Iterable[Value]) -> None:
        """The device waits for those of the values that are on their way; what they were made of may go then."""
        for op in dict.fromkeys(value.op for value in values):
            if op is not None and op in self.begun:
                self.now = max(self.now, self.begun.pop(op))
                self._release(value for value in op.operands if value in self.late)

    def _release(self, values: Iterable[Value]) -> None:
        """Values are there no more; what is on its way is kept until it has arrived."""
        under_way = {operand for op in self.begun for operand in op.operands}
        for value in tuple(values):
            self.late.discard(value)
            if value in under_way:
                self.late.add(value)
            else:
                self.held.pop(value, None)

    def _compute(self, seconds: float) -> None:
        start, self.now = self.now, self.now + seconds
        self.spans.append(Span("compute", "", start, self.now))

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
    """The spans, with steps that follow one another at once as one."""
    joined: list[Span] = []
    count = 0
    for span in spans:
        last = joined[-1] if joined else None
        if span.kind == "compute" and last is not None and last.kind == "compute" and last.end == span.start:
            count += 1
            joined[-1] = Span("compute", f"{count} steps", last.start, span.end)
        else:
            count = 1
            joined.append(replace(span, name="1 step") if span.kind == "compute" else span)
    return tuple(joined)
