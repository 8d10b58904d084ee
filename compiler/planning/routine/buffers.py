"""Which buffer of the heap each value of a routine lies in.

Values of one region share a buffer where they are not needed at one time; what different regions write never does. A
value may be a way to see another: the result of a branch is what one of its regions gave, that of a loop without a
round what went in. So a buffer is free behind the last use of all that may be seen in it.
"""

from collections.abc import Collection, Mapping, Sequence

from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.kernel_plan import (
    Branch,
    Carried,
    HostStep,
    Kernel,
    Loop,
    LoopBuffers,
    PlanStep,
    Region,
    Segment,
    values_made,
    values_read,
)
from onnxc.compiler.planning.routine.in_place import updated_parameters
from onnxc.runtime.records import record

__all__ = ["ARENA", "Assignment", "assign_buffers"]

ARENA = 0

_NOTHING: frozenset[Value] = frozenset()


@record
class Assignment:
    """The buffer of each value and those of each loop; `count` of them with the arena."""

    values: Mapping[Value, int]
    loops: Mapping[Loop, LoopBuffers]
    count: int


def assign_buffers(
    steps: Sequence[PlanStep], results: Collection[Value], direct: Collection[Value], kernels: Sequence[Kernel]
) -> Assignment:
    """The buffers for steps with these results; a segment writes the `direct` ones to where the caller wants them."""
    assigner = _Assigner(frozenset(direct), kernels)
    assigner.steps(steps, results, _NOTHING)
    return Assignment(assigner.values, assigner.loops, assigner.count)


class _Assigner:
    def __init__(self, direct: frozenset[Value], kernels: Sequence[Kernel]) -> None:
        self.direct, self.kernels = direct, kernels
        self.values: dict[Value, int] = {}
        self.loops: dict[Loop, LoopBuffers] = {}
        self.count = ARENA + 1

    def new_buffer(self) -> int:
        self.count += 1
        return self.count - 1

    def steps(self, steps: Sequence[PlanStep], results: Collection[Value], lasting: frozenset[Value]) -> None:
        """Gives buffers to what steps of one region write; `lasting` share none."""
        last = _last_uses(steps, results)
        free: list[int] = []
        ends: list[tuple[int, int]] = []
        for ordinal, step in enumerate(steps):
            free += [buffer for end, buffer in ends if end < ordinal]
            ends = [(end, buffer) for end, buffer in ends if end >= ordinal]
            self.inner(step)
            for value in _written(step):
                if value in self.direct:
                    continue
                if value in lasting:
                    self.values[value] = self.new_buffer()
                    continue
                self.values[value] = buffer = free.pop() if free else self.new_buffer()
                ends.append((last[value], buffer))

    def inner(self, step: PlanStep) -> None:
        match step:
            case Branch():
                for region in (step.then, step.otherwise):
                    self.steps(region.steps, region.block.results, _NOTHING)
            case Loop():
                self.loop(step)

    def loop(self, step: Loop) -> None:
        block = step.body.block
        carried = list(zip(block.parameters[1:], block.results[1 : 1 + step.carried], strict=False))
        written = {value for inner in step.body.steps for value in _written(inner)}
        results = [result for _, result in carried]
        exchanged = {value for value in written if results.count(value) == 1}
        self.steps(step.body.steps, block.results, frozenset(exchanged))
        updated = updated_parameters(step, self.kernels)
        self.loops[step] = LoopBuffers(
            tuple(self.carried(parameter, result, exchanged, updated) for parameter, result in carried),
            tuple(self.new_buffer() for _ in block.results[1 + step.carried :]),
        )

    def carried(
        self, parameter: Value, result: Value, exchanged: Collection[Value], updated: Collection[Value]
    ) -> Carried:
        if result is parameter:
            return Carried("kept")
        if result in updated:
            return Carried("updated", self.values[result])
        if result in exchanged:
            return Carried("exchanged", self.new_buffer(), self.values[result])
        return Carried("copied", self.new_buffer(), self.new_buffer())


def _written(step: PlanStep) -> tuple[Value, ...]:
    """What a step computes into memory of its own; branches and loops hand on what their regions gave."""
    return values_made(step) if isinstance(step, Segment | HostStep) else ()


def _last_uses(steps: Sequence[PlanStep], results: Collection[Value]) -> dict[Value, int]:
    """For each value that steps write, the last step that may see it: directly, or as what a step has handed on."""
    seen: dict[Value, frozenset[Value]] = {}
    last: dict[Value, int] = {}

    def use(values: Collection[Value], ordinal: int) -> None:
        for value in values:
            last.update(dict.fromkeys(seen.get(value, _NOTHING), ordinal))

    for ordinal, step in enumerate(steps):
        use(values_read(step), ordinal)
        for value in _written(step):
            seen[value] = frozenset((value,))
        use(_written(step), ordinal)
        seen |= _handed_on(step, seen)
    use(results, len(steps))
    return last


def _handed_on(step: PlanStep, seen: Mapping[Value, frozenset[Value]]) -> dict[Value, frozenset[Value]]:
    """For each result of a branch or a loop, what of the values around the step may be seen in it."""
    match step:
        case Branch():
            given = [seen.get(value, _NOTHING) for value in step.op.operands[1:]]
            shown = zip(*(_shown(region, given) for region in (step.then, step.otherwise)), strict=True)
            return {result: a | b for result, (a, b) in zip(step.op.results, shown, strict=True)}
        case Loop():
            initial = step.op.operands[2 : 2 + step.carried]
            return {r: seen.get(value, _NOTHING) for r, value in zip(step.op.results, initial, strict=False)}
    return {}


def _shown(region: Region, given: Sequence[frozenset[Value]]) -> list[frozenset[Value]]:
    """For each result of a region, what of the values around it may be seen in it, where the parameters show these."""
    seen = dict(zip(region.block.parameters, given, strict=True))
    for step in region.steps:
        seen |= _handed_on(step, seen)
    return [seen.get(result, _NOTHING) for result in region.block.results]
