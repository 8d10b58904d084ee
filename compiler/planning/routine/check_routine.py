"""The proof that the buffers of a routine are sound: whatever way a call takes, what a step reads is still there.

All steps are followed over what the buffers hold, both branches, and loops for two rounds, so that what one round
leaves meets the next. A value is known by the buffers that it may be seen in, and by who has written these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import (
    Branch,
    HostStep,
    Kernel,
    Loop,
    PlanStep,
    Region,
    Routine,
    Segment,
    values_made,
    values_read,
)
from onnxc.compiler.planning.routine.buffers import ARENA
from onnxc.compiler.planning.routine.in_place import updated_parameters

__all__ = ["check_routine"]

Sight = frozenset[tuple[int, int]]
"""Where a value may be seen: buffers, each with the number of the write that put it there."""

_ELSEWHERE: Sight = frozenset()


def check_routine(routine: Routine, kernels: Sequence[Kernel]) -> None:
    """Raises AssertionError with the step that would read a buffer that something else has been written to."""
    walk = _Walk(routine, kernels)
    walk.steps(routine.steps)
    walk.read(routine.outputs, "the outputs")


@dataclass
class _Walk:
    """`held`: the write that each buffer holds. `seen`: where values are seen; those around a routine elsewhere.

    updated: for values that are written over what they are made from, what this is.
    """

    routine: Routine
    kernels: Sequence[Kernel]
    updated: dict[Value, Value] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    seen: dict[Value, Sight] = field(default_factory=dict)
    writes: int = 0

    def write(self, buffer: int) -> Sight:
        assert ARENA < buffer < self.routine.buffer_count, f"there is no buffer {buffer}"
        self.writes += 1
        self.held[buffer] = self.writes
        return frozenset(((buffer, self.writes),))

    def read(self, values: Sequence[Value], reader: object) -> None:
        for value in values:
            for buffer, write in self.seen.get(value, _ELSEWHERE):
                assert self.held[buffer] == write, f"{reader} reads {value} in buffer {buffer}, which holds another"

    def steps(self, steps: Sequence[PlanStep]) -> None:
        for step in steps:
            self.read(values_read(step), step)
            match step:
                case Segment() | HostStep():
                    for value in values_made(step):
                        direct = value in self.routine.direct
                        self.seen[value] = _ELSEWHERE if direct else self.write(self.routine.buffers[value])
                    # Its launches read while they write, but for what they only change a part of.
                    changed = [self.updated[value] for value in values_made(step) if value in self.updated]
                    read = [value for value in values_read(step) if value not in changed]
                    self.read((*read, *values_made(step)), step)
                case Branch():
                    self.branch(step)
                case Loop():
                    self.loop(step)

    def branch(self, step: Branch) -> None:
        """Either region may have run: results are seen where both say, and a buffer holds what was last written."""
        sights = [self.region(region, step.op.operands[1:]) for region in (step.then, step.otherwise)]
        for ordinal, result in enumerate(step.op.results):
            self.seen[result] = sights[0][ordinal] | sights[1][ordinal]

    def region(self, region: Region, arguments: Sequence[Value]) -> Sequence[Sight]:
        given = (self.seen.get(argument, _ELSEWHERE) for argument in arguments)
        self.seen.update(zip(region.block.parameters, given, strict=True))
        self.steps(region.steps)
        self.read(region.block.results, region)
        return [self.seen.get(result, _ELSEWHERE) for result in region.block.results]

    def loop(self, step: Loop) -> None:
        block, buffers = step.body.block, self.routine.loops[step]
        count = step.carried
        initial = [self.seen.get(value, _ELSEWHERE) for value in step.op.operands[2 : 2 + count]]
        captures = step.op.operands[2 + count :]
        carried = list(initial)
        updates = updated_parameters(step, self.kernels)
        for how, result in zip(buffers.carried, block.results[1:], strict=False):
            if how.how == "updated":
                assert result in updates, f"{result} is not made by changing a part of what it is written over"
                self.updated[result] = updates[result]
        for _ in range(2):
            self.seen.update(zip(block.parameters[1 : 1 + count], carried, strict=True))
            given = (self.seen.get(value, _ELSEWHERE) for value in captures)
            self.seen.update(zip(block.parameters[1 + count :], given, strict=True))
            self.steps(step.body.steps)
            self.read(block.results, step)
            for buffer in buffers.stacked:
                self.write(buffer)
            carried = self.carry(step, carried)
        # Without a round, what went in comes out.
        for result, before, after in zip(step.op.results, initial, carried, strict=False):
            self.seen[result] = before | after
        for result, buffer in zip(step.op.results[count:], buffers.stacked, strict=True):
            self.seen[result] = frozenset(((buffer, self.held[buffer]),))

    def carry(self, step: Loop, before: Sequence[Sight]) -> list[Sight]:
        """Where the values of the next round are seen: copies first, then buffers change places."""
        hows, results = self.routine.loops[step].carried, step.body.block.results[1 : 1 + step.carried]
        for how, result in zip(hows, results, strict=True):
            if how.how == "copied":
                self.read([result], step)
                self.write(how.other)
            if how.how == "updated":
                assert self.routine.buffers[result] == how.buffer, f"{result} is not written to buffer {how.buffer}"
            if how.how == "exchanged":
                assert self.routine.buffers[result] == how.other, f"{result} is not written to buffer {how.other}"
        after = list(before)
        for ordinal, how in enumerate(hows):
            if how.how in ("exchanged", "copied"):
                moved = self.held.get(how.buffer, 0), self.held[how.other]
                self.held[how.other], self.held[how.buffer] = moved
            if how.how != "kept":
                after[ordinal] = frozenset(((how.buffer, self.held[how.buffer]),))
        return after
