"""The kernel plan: kernels, launches and buffers of each segment, and the steps between segments.

A kernel is a block of ordinary IR with its inputs as parameters; equal blocks are one kernel. What is not native
stays an op, in a step of its own. The plan does not know the number of threads.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Block, Function, Op, Value
from onnxc.compiler.ir.primitive import AnchorKind
from onnxc.compiler.ir.printer import print_block

KernelKind = Literal["pointwise"] | AnchorKind


@dataclass(frozen=True)
class Weight:
    """A constant as a target wants to read it: plain row-major, or in a layout that its code generator defines."""

    constant: int
    layout: tuple[str | int, ...] = ()


@dataclass(frozen=True, eq=False)
class Kernel:
    """A block to compile. Symbols in its sizes are arguments, in the order of `symbols`; `schedule` is data."""

    kind: KernelKind
    block: Block
    symbols: tuple[str, ...]
    schedule: Mapping[str, int | str]

    def __str__(self) -> str:
        schedule = ", ".join(f"{name} = {value}" for name, value in self.schedule.items())
        return f"{self.kind} ({', '.join(self.symbols)}) {{{schedule}}}\n{print_block(self.block)}"


@dataclass(frozen=True)
class Buffer:
    """Where a launch reads or writes: input or output `index` of the segment, a weight, or the arena at `offset`."""

    place: Literal["input", "output", "weight", "arena"]
    index: int = 0
    offset: Dim = 0

    def __str__(self) -> str:
        return f"arena @ {self.offset}" if self.place == "arena" else f"{self.place} {self.index}"


@dataclass(frozen=True)
class Launch:
    """One run of a kernel; `sizes` are the values of its symbols."""

    kernel: int
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    sizes: tuple[Dim, ...]
    location: Location | None = None


@dataclass(frozen=True)
class Segment:
    """Launches in order, as one native call from `inputs` to `outputs`, with an arena of `arena_bytes`.

    `scratch_bytes` behind them are for what kernels need while they run, one after another.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    launches: tuple[Launch, ...]
    arena_bytes: Dim
    lifetimes: tuple["Lifetime", ...] = ()
    scratch_bytes: Dim = 0


@dataclass(frozen=True)
class Lifetime:
    """A buffer of the arena: `size_bytes` from `offset`, holding a value from launch `first` to launch `last`."""

    offset: Dim
    size_bytes: Dim
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class HostStep:
    """An op that is not native, with the plans of its blocks."""

    op: Op
    bodies: tuple["PlanBody", ...] = ()


PlanStep = Segment | HostStep


@dataclass(frozen=True, eq=False)
class PlanBody:
    """The steps of one block. `constants` are the values that steps read from the weights."""

    block: Block
    steps: tuple[PlanStep, ...]


@dataclass(frozen=True, eq=False)
class KernelPlan:
    """All that is decided before code is written."""

    name: str
    function: Function
    kernels: tuple[Kernel, ...]
    constants: tuple[np.ndarray, ...]
    weights: tuple[Weight, ...]
    body: PlanBody

    def __str__(self) -> str:
        lines = [f'plan "{self.name}"']
        lines += [f"  weight w{i} = constant {w.constant} {list(w.layout) or ''}" for i, w in enumerate(self.weights)]
        for index, kernel in enumerate(self.kernels):
            lines += [
                f"  kernel k{index} {line}" if n == 0 else f"    {line}"
                for n, line in enumerate(str(kernel).splitlines())
            ]
        return "\n".join([*lines, *(f"  {line}" for line in _body_lines(self.body))])


def _body_lines(body: PlanBody) -> list[str]:
    lines: list[str] = []
    for step in body.steps:
        if isinstance(step, Segment):
            lines.append(f"segment, arena {step.arena_bytes} bytes")
            lines += [f"  {launch_text(launch)}" for launch in step.launches]
        else:
            lines.append(f"host {step.op.name}")
            for inner in step.bodies:
                lines += [f"  {line}" for line in _body_lines(inner)]
    return lines


def launch_text(launch: Launch) -> str:
    """One line of a plan."""
    inputs, outputs = (", ".join(map(str, buffers)) for buffers in (launch.inputs, launch.outputs))
    sizes = f" sizes ({', '.join(map(str, launch.sizes))})" if launch.sizes else ""
    return f"launch k{launch.kernel} ({inputs}) -> {outputs}{sizes}"


@dataclass(frozen=True)
class PlanTarget:
    """What planning asks of a target: which ops it has kernels for, and how it wants a kernel's constants laid out.

    `schedule` gets the kernel's kind, its block and which of its parameters are constants; `weight_layout` the kernel
    and the number of a parameter that is one.
    """

    name: str
    is_native: Callable[[Op], bool]
    schedule: Callable[[KernelKind, Block, tuple[int, ...]], Mapping[str, int | str]]
    weight_layout: Callable[["Kernel", int], tuple[str | int, ...]]
