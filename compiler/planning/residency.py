"""Residency: on which side values are while the steps of a plan run whose launches are on a device, and what is copied.

The rules are those of runtime/gpu/engine.py: a launch brings what it reads to the device, a host step to the host, each
once; constants are on both sides. How the inputs of a call come and its outputs go is the caller's choice and no
transfer inside of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.types import is_host_type
from onnxc.compiler.planning.kernel_plan import (
    BindLate,
    BindMost,
    Branch,
    Collective,
    GuardStep,
    KernelPlan,
    Loop,
    OpStep,
    PlanStep,
    Region,
    Release,
    Residency,
    Routine,
    Segment,
    Transfer,
    is_constant,
    walk_steps,
)
from onnxc.runtime.records import record

__all__ = ["Copy", "check_transfers", "copies_of", "with_transfers"]

# "caller": where the caller has put it; "either": on one side, which only the call decides.
Whereabouts = Literal["device", "host", "both", "caller", "either"]

_OTHER: Mapping[Residency, Residency] = {"device": "host", "host": "device"}


@record
class Copy:
    """A value that goes to the other side inside of a call.

    reader: the op of the host that reads it; None for a launch. is_certain: False where it depends on where an input
    lies or on which branch was taken. in_loop: once in each iteration of a loop.
    """

    value: Value
    to: Residency
    reader: Op | None
    is_certain: bool
    in_loop: bool


def with_transfers(plan: KernelPlan) -> KernelPlan:
    """The plan with a step for each copy that is made whenever its region runs; none where launches run on the host."""
    if plan.residency == "host":
        return plan
    return replace(plan, body=_walked(plan)[1])


def copies_of(plan: KernelPlan) -> tuple[Copy, ...]:
    """The copies of a call, in order: those of the plan's steps, and those that only the call decides."""
    return tuple(_walked(plan)[0].copies)


def check_transfers(plan: KernelPlan) -> None:
    """Raises AssertionError where a step reads what is on the other side for certain, or a transfer is for nobody."""
    if plan.residency == "host":
        needless = [step for step in walk_steps(plan.body.steps) if isinstance(step, Transfer)]
        assert not needless, f"{needless} where launches run on the host"
        return
    walk, _ = _walked(plan)
    assert not walk.missing, f"{walk.missing} are missing"
    assert not walk.needless, f"{walk.needless} are for nobody"


def _walked(plan: KernelPlan) -> tuple["_Walk", Region]:
    """What was seen in the whole plan; its body with all transfers."""
    walk = _Walk(dict.fromkeys(plan.function.body.parameters, "caller"))
    walk.steps_of(plan.body)
    return walk, walk.finished(plan.body)


class _Walk:
    """Where the values of a region are while its steps run.

    steps: those so far, with transfers. missing: the transfers among them that the region did not have. needless: those
    that it had, of values that are there, or that nothing reads there.
    """

    def __init__(
        self, whereabouts: Mapping[Value, Whereabouts], *, is_certain: bool = True, in_loop: bool = False
    ) -> None:
        self.whereabouts, self.is_certain, self.in_loop = dict(whereabouts), is_certain, in_loop
        self.steps: list[PlanStep] = []
        self.copies: list[Copy] = []
        self.missing: list[Transfer] = []
        self.needless: list[Transfer] = []
        self.unread: dict[Value, Transfer] = {}

    def steps_of(self, region: Region) -> list[Whereabouts]:
        """Follows the steps; where the results are."""
        last = max((k for k, step in enumerate(region.steps) if not isinstance(step, Release | Transfer)), default=0)
        for ordinal, step in enumerate(region.steps):
            self._step(step, is_last=ordinal == last)
        return [self._where(value) for value in region.block.results]

    def read(self, value: Value, to: Residency, reader: Op | None) -> None:
        """Follows a step that reads `value` on a side, with the transfer that this takes."""
        where, waiting = self._where(value), self.unread.get(value)
        if waiting is not None and waiting.to == to:
            del self.unread[value]
            self._copy(value, to, reader, is_certain=True)
            return
        if where in (to, "both") or is_host_type(value.type):
            return
        self.whereabouts[value] = "both"
        if where == _OTHER[to]:
            self.missing.append(Transfer(value, to))
            self.steps.append(self.missing[-1])
            self._copy(value, to, reader, is_certain=True)
        elif where == "either" or to == "host":
            self._copy(value, to, reader, is_certain=False)

    def finished(self, region: Region) -> Region:
        """The region with its transfers, when all that reads its values was followed."""
        self.needless += self.unread.values()
        return Region(region.block, tuple(self.steps))

    def _step(self, step: PlanStep, *, is_last: bool) -> None:
        match step:
            case Transfer():
                self._transfer(step)
            case Segment() | Routine():
                for value in step.inputs:
                    self.read(value, "device", None)
                self.whereabouts |= dict.fromkeys(step.outputs, "device")
                self.steps.append(step)
            case BindLate():
                # What is read last comes with the outputs of the call.
                for op in () if is_last else step.ops:
                    self.read(op.operands[0], "host", op)
                self.steps.append(step)
            case Release() | GuardStep() | BindMost():
                self.steps.append(step)
            case _:
                self._op_step(step)

    def _transfer(self, step: Transfer) -> None:
        """A copy that waits for its reader."""
        self.steps.append(step)
        if self._where(step.value) == _OTHER[step.to]:
            self.whereabouts[step.value] = "both"
            self.unread[step.value] = step
        else:
            self.needless.append(step)

    def _op_step(self, step: OpStep) -> None:
        """What the host does: it reads operands, but leaves what loops and branches are given where it is.

        Devices exchange what lies in their own memories.
        """
        op = step.op
        side: Residency = "device" if isinstance(step, Collective) else "host"
        decisive = 1 if isinstance(step, Branch) else 2 if isinstance(step, Loop) else len(op.operands)
        for value in op.operands[:decisive]:
            self.read(value, side, op)
        results: Sequence[Whereabouts] = [side] * len(op.results)
        if isinstance(step, Branch):
            step, results = self._branch(step)
        elif isinstance(step, Loop):
            step, results = self._loop(step)
        self.steps.append(step)
        self.whereabouts |= dict(zip(op.results, results, strict=True))

    def _branch(self, step: Branch) -> tuple[Branch, list[Whereabouts]]:
        given = [self._where(value) for value in step.op.operands[1:]]
        then, after_then = self._taken(step.then, given)
        otherwise, after_otherwise = self._taken(step.otherwise, given)
        results = [_joined(pair) for pair in zip(after_then, after_otherwise, strict=True)]
        return replace(step, then=then, otherwise=otherwise), results

    def _taken(self, region: Region, given: Sequence[Whereabouts]) -> tuple[Region, list[Whereabouts]]:
        """The region of a branch, which a call may leave out; where its results are."""
        walk = _Walk(_bound(region, given), is_certain=False, in_loop=self.in_loop)
        results = walk.steps_of(region)
        return self._adopted(walk, region), results

    def _loop(self, step: Loop) -> tuple[Loop, list[Whereabouts]]:
        """The loop, for iterations of which each finds what is carried where the one before has left it."""
        body, count = step.body, step.carried
        given = [self._where(value) for value in step.op.operands[2:]]
        carried, captures = given[:count], given[count:]
        while True:
            walk = _Walk(_bound(body, ["host", *carried, *captures]), is_certain=self.is_certain, in_loop=True)
            _, *results = walk.steps_of(body)
            joined = [_joined(pair) for pair in zip(carried, results[:count], strict=True)]
            if joined == carried:
                break
            carried = joined
        walk.read(body.block.results[0], "host", step.op)
        return replace(step, body=self._adopted(walk, body)), [*carried, *results[count:]]

    def _adopted(self, walk: "_Walk", region: Region) -> Region:
        """The region that `walk` has followed, with what was seen there among what was seen here."""
        followed = walk.finished(region)
        self.copies += walk.copies
        self.missing += walk.missing
        self.needless += walk.needless
        return followed

    def _where(self, value: Value) -> Whereabouts:
        if is_constant(value):
            return "both"
        return "host" if is_host_type(value.type) else self.whereabouts[value]

    def _copy(self, value: Value, to: Residency, reader: Op | None, *, is_certain: bool) -> None:
        self.copies.append(Copy(value, to, reader, is_certain and self.is_certain, self.in_loop))


def _bound(region: Region, given: Sequence[Whereabouts]) -> dict[Value, Whereabouts]:
    return dict(zip(region.block.parameters, given, strict=True))


def _joined(pair: tuple[Whereabouts, Whereabouts]) -> Whereabouts:
    """Where a value is that comes from one of two."""
    return pair[0] if pair[0] == pair[1] else "either"
