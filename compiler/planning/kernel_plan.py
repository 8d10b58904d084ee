"""The kernel plan: kernels, launches and buffers, and the steps that a program, a loop body and a branch are made of.

A kernel is a block of ordinary IR with its inputs as parameters, and its schedule; equal ones are one kernel. A launch
is an ordered tuple of variants, of which a call takes the first whose guard holds. Nothing is decided after this; the
plan does not know the number of threads.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeVar

import numpy as np

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim, sum_of
from onnxc.compiler.ir.module import Block, Function, Op, Value
from onnxc.compiler.ir.op_facts import bound_symbols
from onnxc.compiler.ir.primitive import AnchorKind
from onnxc.compiler.ir.printer import ValueNames, print_block
from onnxc.compiler.planning.layouts import Layout
from onnxc.compiler.planning.schedules import Schedule
from onnxc.runtime.records import record

KernelKind = Literal["pointwise"] | AnchorKind

Residency = Literal["host", "device"]


S = TypeVar("S", bound=Schedule)


@record
class Weight:
    """A constant as a kernel wants to read it: in a layout, None for row-major."""

    constant: int
    layout: Layout | None = None

    def __str__(self) -> str:
        return f"constant {self.constant}" + (f" in {self.layout}" if self.layout is not None else "")


@record(eq=False)
class Kernel:
    """A block to compile, and how. Symbols in its sizes are arguments, in the order of `symbols`.

    loads: those of the symbols that it loads from the memory of the device. It is launched for the most that these may
    be.
    """

    kind: KernelKind
    block: Block
    symbols: tuple[str, ...]
    schedule: Schedule
    loads: tuple[str, ...] = ()

    def scheduled(self, kind: type[S]) -> S:
        """The schedule, which is of this class."""
        assert isinstance(self.schedule, kind), self.schedule
        return self.schedule

    def __str__(self) -> str:
        symbols = (f"{name} loaded" if name in self.loads else name for name in self.symbols)
        return f"{self.kind} ({', '.join(symbols)}) {{{self.schedule}}}\n{print_block(self.block)}"


@record
class Buffer:
    """Where a launch reads or writes: input, output or slot of the arena `index` of the segment, or a weight."""

    kind: Literal["input", "output", "weight", "slot"]
    index: int

    def __str__(self) -> str:
        return f"{self.kind} {self.index}"


@record
class SizeRange:
    """The condition that a size is from `low` to `high`, or at least `low`."""

    size: Dim
    low: int
    high: int | None = None

    def holds(self, symbols: Mapping[str, int]) -> bool:
        """Whether the size is in the range where its symbols are these."""
        value = evaluate(self.size, symbols)
        return self.low <= value and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.size} = {self.low}"
        return f"{self.size} >= {self.low}" if self.high is None else f"{self.size} in {self.low}..{self.high}"


Guard = tuple[SizeRange, ...]
"""Conditions that must all hold; the empty one always does."""


@record
class Variant:
    """A kernel for the calls in which `guard` holds, in the sizes of the program; `sizes` are the kernel's symbols."""

    guard: Guard
    kernel: int
    sizes: tuple[Dim, ...]


@record
class Launch:
    """One run of the first variant whose guard holds; the last has none.

    scratch: where in the arena the variant that runs has memory of its own, None where none needs any. location: the
    node that may fail, or makes the result; nodes: all that it came from, the one it was built around first.
    """

    variants: tuple[Variant, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    scratch: Buffer | None = None
    location: Location | None = None
    nodes: tuple[Location, ...] = ()

    @property
    def is_in_place(self) -> bool:
        """Whether it writes into what it reads."""
        return any(buffer in self.inputs for buffer in self.outputs)

    @property
    def general(self) -> Variant:
        """The variant that serves every call."""
        return self.variants[-1]

    def variant_for(self, symbols: Mapping[str, int]) -> Variant:
        """The variant that a call takes in which the symbols of the program are these."""
        return next(variant for variant in self.variants if all(each.holds(symbols) for each in variant.guard))


@record
class Lifetime:
    """A buffer of the arena: the first `size_bytes` of a slot, in use from launch `first` to launch `last`."""

    slot: int
    size_bytes: Dim
    first: int
    last: int


@record
class Segment:
    """Launches in order, as one native call from `inputs` to `outputs`, with an arena.

    slots: the bytes of each slot of the arena, which lie behind each other. A slot that begins behind many others has
    an offset that is a long sum, where all their sizes come from data; so it is never written out.

    counts: symbols that are bound late, and where the integer lies that each of them is, for kernels to load.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    launches: tuple[Launch, ...]
    slots: tuple[Dim, ...] = ()
    lifetimes: tuple[Lifetime, ...] = ()
    counts: tuple[tuple[str, Buffer], ...] = ()

    @property
    def arena_bytes(self) -> Dim:
        """The size of the arena."""
        return sum_of(self.slots)


@record(eq=False)
class HostStep:
    """An op that the host carries out by its meaning."""

    op: Op


@record(eq=False)
class GuardStep:
    """A condition on sizes that a call must meet, else it is refused."""

    op: Op


@record(eq=False)
class BindSizes:
    """Integers in memory become symbols."""

    op: Op


@record(eq=False)
class BindMost:
    """A symbol becomes the most that the integer in memory may be, so that nobody waits for it: a `BindLate` follows.

    room: the bytes that segments before that take for it, and the elements that their kernels count, together.
    """

    op: Op
    symbol: str
    most: Dim
    room: Dim


@record(eq=False)
class BindLate:
    """The integers in memory become the symbols that they are, and values made for the most get their shapes."""

    ops: tuple[Op, ...]
    values: tuple[Value, ...]

    @property
    def counts(self) -> tuple[Value, ...]:
        """The integers."""
        return tuple(operand for op in self.ops for operand in op.operands)


@record(eq=False)
class Branch:
    """One of two regions, by a condition that data decides."""

    op: Op
    then: "Region"
    otherwise: "Region"


@record(eq=False)
class Loop:
    """A region that runs while a condition holds and a limit is not reached; `carried` values go from round to round.

    The rest of the operands are captured; results behind the carried ones are stacked, round by round.
    """

    op: Op
    carried: int
    body: "Region"


@record(eq=False)
class Collective:
    """An exchange between devices; one device alone is a group of its own."""

    op: Op


@record(eq=False)
class Transfer:
    """A copy of a value to where it is not, for a step behind that reads it there; it stays where it was, too."""

    value: Value
    to: Residency


@record(eq=False)
class Release:
    """Values that no later step of the region reads and that are none of its results: their memory is free."""

    values: tuple[Value, ...]


@record
class Carried:
    """How a value gets from one round of a native loop to the next, in buffers of the heap.

    kept: it is what came in. exchanged: the round writes `other`, which changes places with `buffer`. copied: the
    result is copied to `other`, and then these change places. updated: the round writes `buffer`, which from the second
    round on is where the value is that it changes a part of.
    """

    how: Literal["kept", "exchanged", "copied", "updated"]
    buffer: int = 0
    other: int = 0


@record
class LoopBuffers:
    """The buffers of the heap that a native loop uses besides those of its body: one for each stacked result."""

    carried: tuple[Carried, ...]
    stacked: tuple[int, ...]


@record(eq=False)
class Routine:
    """Steps without the host, as one native call from `inputs` to `outputs`, which may be loops and branches.

    `late` are the numbers of the outputs whose sizes only the call finds, `direct` the outputs that segments write to
    where the caller wants them. What else it computes lies in buffers of the heap,
    which grow as a call needs: `buffers` says which value in which of `buffer_count`; values that are never needed at
    one time share one. Buffer 0 is the arena of its segments. `constants` are what it reads as row-major weights,
    `known` the symbols that have a value before it.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    late: tuple[int, ...]
    direct: frozenset[Value]
    steps: "tuple[PlanStep, ...]"
    buffers: Mapping[Value, int]
    loops: Mapping[Loop, LoopBuffers]
    buffer_count: int
    constants: Mapping[Value, int]
    known: frozenset[str]

    @property
    def binds(self) -> tuple[str, ...]:
        """The symbols that later steps may use."""
        return tuple(name for step in self.steps if isinstance(step, OpStep) for name in bound_symbols(step.op))


OpStep = Loop | Branch | GuardStep | BindSizes | HostStep | Collective
PlanStep = Segment | Routine | OpStep | BindMost | BindLate | Transfer | Release


@record(eq=False)
class Region:
    """The steps of one block, in order."""

    block: Block
    steps: tuple[PlanStep, ...]


def regions_of(step: PlanStep) -> tuple[Region, ...]:
    """The regions within a step."""
    match step:
        case Loop():
            return (step.body,)
        case Branch():
            return (step.then, step.otherwise)
    return ()


def walk_regions(region: Region) -> Iterator[Region]:
    """A region and those within its steps, but for what a routine holds."""
    yield region
    for step in region.steps:
        for inner in regions_of(step):
            yield from walk_regions(inner)


def walk_steps(steps: Iterable[PlanStep]) -> Iterator[PlanStep]:
    """All steps and those within, in order."""
    for step in steps:
        yield step
        if isinstance(step, Routine):
            yield from walk_steps(step.steps)
        for inner in regions_of(step):
            yield from walk_steps(inner.steps)


def values_read(step: PlanStep) -> tuple[Value, ...]:
    """What a step reads, in order; giving a value up is not reading it."""
    match step:
        case Segment() | Routine():
            return step.inputs
        case Transfer():
            return (step.value,)
        case BindLate():
            return (*step.counts, *step.values)
        case Release():
            return ()
    return tuple(step.op.operands)


def values_made(step: PlanStep) -> tuple[Value, ...]:
    """What a step makes, in order."""
    match step:
        case Segment() | Routine():
            return step.outputs
        case Transfer() | Release() | BindMost() | BindLate():
            return ()
    return tuple(step.op.results)


def segments_of(steps: Iterable[PlanStep]) -> Iterator[Segment]:
    """All segments among steps and those within, in order."""
    return (step for step in walk_steps(steps) if isinstance(step, Segment))


@record
class PackedShare:
    """What a parameter of a plan is: the share of a constant, by its ordinal among all, in a layout or row-major."""

    ordinal: int
    layout: Layout | None = None

    def __str__(self) -> str:
        return f"share {self.ordinal}" + (f" in {self.layout}" if self.layout is not None else "")


@record(eq=False)
class KernelPlan:
    """All that is decided before code is written.

    residency: where launches run and leave what they make. shares: what the last parameters of the function are, where
    it is the program of one of several devices. growing: symbols that grow from call to call, and the symbol that each
    of them never exceeds.
    """

    name: str
    function: Function
    kernels: tuple[Kernel, ...]
    constants: tuple[np.ndarray, ...]
    weights: tuple[Weight, ...]
    body: Region
    residency: Residency = "host"
    shares: tuple[PackedShare, ...] = ()
    growing: Mapping[str, str] = field(default_factory=dict)

    @property
    def packed_shares(self) -> Mapping[Value, PackedShare]:
        """The parameters that are shares, and what each is."""
        parameters = self.function.body.parameters
        return dict(zip(parameters[len(parameters) - len(self.shares) :], self.shares, strict=True))

    def __str__(self) -> str:
        lines = [f'plan "{self.name}"']
        lines += [f"  weight w{index} = {weight}" for index, weight in enumerate(self.weights)]
        lines += [f"  parameter {share}" for share in self.shares]
        for index, kernel in enumerate(self.kernels):
            first, *others = str(kernel).splitlines()
            lines += [f"  kernel k{index} {first}", *(f"    {line}" for line in others)]
        return "\n".join([*lines, *(f"  {line}" for line in _step_lines(self.body.steps, ValueNames()))])


def _step_lines(steps: Iterable[PlanStep], names: ValueNames) -> list[str]:
    lines: list[str] = []
    for step in steps:
        lines.append(_step_text(step, names))
        match step:
            case Segment():
                lines += [f"  {line}" for launch in step.launches for line in _launch_lines(launch)]
            case Routine():
                lines += [
                    f"  buffer {ordinal}: {_values_text([value], names)}" for value, ordinal in step.buffers.items()
                ]
                lines += [f"  {line}" for line in _step_lines(step.steps, names)]
                lines += [f"  carried {', '.join(each.how for each in loop.carried)}" for loop in step.loops.values()]
        for inner in regions_of(step):
            lines.append(f"  region {_flow_text(inner.block.parameters, inner.block.results, names)}")
            lines += [f"    {line}" for line in _step_lines(inner.steps, names)]
    return lines


def _step_text(step: PlanStep, names: ValueNames) -> str:
    match step:
        case Transfer():
            return f"transfer {_values_text([step.value], names)} to {step.to}"
        case Release():
            return f"release {_values_text(step.values, names)}"
        case GuardStep():
            return f"guard {step.op.dim('left')} {step.op.text('relation')} {step.op.dim('right')}"
        case BindSizes():
            symbols = ", ".join(map(str, _symbols(step.op)))
            return f"bind sizes {symbols} from {_values_text(step.op.operands, names)}"
        case BindMost():
            return f"bind {step.symbol} to {step.most}, the most of {_values_text(step.op.operands, names)}"
        case BindLate():
            symbols = ", ".join(str(symbol) for op in step.ops for symbol in _symbols(op))
            counts, values = (_values_text(each, names) for each in (step.counts, step.values))
            return f"bind late {symbols} from {counts}, shapes of ({values})"
    flow = _flow_text(values_read(step), values_made(step), names)
    match step:
        case Segment():
            return f"segment {flow}, arena {step.arena_bytes} bytes"
        case Routine():
            return f"routine {flow}, {step.buffer_count} buffers"
        case Loop():
            return f"loop {flow}, {step.carried} carried, {len(step.op.results) - step.carried} stacked"
        case Branch():
            return f"branch {flow}"
        case Collective():
            return f"collective {step.op.name} {flow}"
    return f"host {step.op.name} {flow}"


def _flow_text(inputs: Sequence[Value], outputs: Sequence[Value], names: ValueNames) -> str:
    return f"({_values_text(inputs, names)}) -> ({_values_text(outputs, names)})"


def _values_text(values: Sequence[Value], names: ValueNames) -> str:
    return ", ".join("constant" if is_constant(value) else names[value] for value in values)


def is_constant(value: Value) -> bool:
    """Whether a value is known before a call."""
    return value.op is not None and value.op.name == "constant"


def _symbols(op: Op) -> Sequence[object]:
    names = op.attributes["symbols"]
    assert isinstance(names, tuple), names
    return names


def _launch_lines(launch: Launch) -> list[str]:
    """A launch; where it has variants, one line for each."""
    buffers = f"({', '.join(map(str, launch.inputs))}) -> {', '.join(map(str, launch.outputs))}"
    scratch = f", scratch {launch.scratch}" if launch.scratch is not None else ""
    if len(launch.variants) == 1:
        general = launch.general
        return [f"launch k{general.kernel} {buffers}{_sizes_text(general)}{scratch}"]
    return [f"launch {buffers}{scratch}", *(f"  {_variant_text(variant)}" for variant in launch.variants)]


def _variant_text(variant: Variant) -> str:
    when = f"where {' and '.join(map(str, variant.guard))}" if variant.guard else "else"
    return f"{when}: k{variant.kernel}{_sizes_text(variant)}"


def _sizes_text(variant: Variant) -> str:
    return f" sizes ({', '.join(map(str, variant.sizes))})" if variant.sizes else ""
