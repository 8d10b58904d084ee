"""The copies between host and device inside of a call, found in the plan: what a host step makes and a kernel reads.

The rules are those of runtime/gpu/engine.py: a launch brings what it reads to the device, a host step to the host, each
once; constants are on both sides. How the inputs of a call come and its outputs go is the caller's choice and no
transfer inside of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from onnxc.compiler.codegen_gpu.source.element_types import NATIVE_DTYPES
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Block, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import TensorType, is_host_type
from onnxc.compiler.planning.kernel_plan import (
    BindSizes,
    Branch,
    Collective,
    GuardStep,
    HostStep,
    KernelPlan,
    Loop,
    Region,
    Segment,
)

__all__ = ["Direction", "Transfer", "find_transfers", "host_reason", "op_text"]

Direction = Literal["upload", "download"]

# Where a value is. "input": where the caller has put it; "either": on one side, which only the call decides.
Place = Literal["device", "host", "both", "input", "either"]


@dataclass(frozen=True)
class Transfer:
    """A copy of a value of `bytes`.

    reason: the op that has no kernel. is_certain: False where it depends on where an input lies or on which branch was
    taken. in_loop: once in each iteration of a loop.
    """

    direction: Direction
    value: str
    bytes: Dim
    reason: str
    is_certain: bool = True
    in_loop: bool = False


def find_transfers(plan: KernelPlan) -> tuple[Transfer, ...]:
    """The transfers of a call, in order."""
    walk = _Walk(dict.fromkeys(plan.function.body.parameters, "input"))
    walk.body(plan.body)
    return tuple(walk.found)


def host_reason(op: Op) -> str:
    """Why an op runs on the host."""
    if op.name == "bind_sizes":
        return "sizes that data decides are needed on the host"
    if PRIMITIVES[op.name].kind == "control":
        return "control flow is decided on the host"
    types = [operand.type for operand in op.operands] + list(op.result_types)
    if any(map(is_host_type, types)):
        return f"{op_text(op)} has values that are no arrays of numbers of known rank"
    dtypes = (type.dtype for type in types if isinstance(type, TensorType))
    others = dict.fromkeys(str(dtype) for dtype in dtypes if dtype not in NATIVE_DTYPES)
    return f"there is no kernel for {op_text(op)}" + (f" of {', '.join(others)}" if others else "")


def op_text(op: Op) -> str:
    """The name of a primitive, or of the function of a host op."""
    return op.text("function") if op.name == "host" else op.name


class _Walk:
    """Where each value of a body is while its steps run; `found` are the transfers until then."""

    def __init__(self, places: Mapping[Value, Place], *, in_loop: bool = False) -> None:
        self.places, self.in_loop = dict(places), in_loop
        self.found: list[Transfer] = []

    def body(self, plan: Region) -> list[Place]:
        """Follows the steps; where the results are."""
        for step in plan.steps:
            if isinstance(step, Segment):
                for value in step.inputs:
                    self._bring(value, "device", "")
                self.places |= dict.fromkeys(step.outputs, "device")
            elif not isinstance(step, GuardStep):
                self._host(step)
        return [self._place(value) for value in plan.block.results]

    def _host(self, step: Loop | Branch | BindSizes | HostStep | Collective) -> None:
        op = step.op
        decisive = 1 if isinstance(step, Branch) else 2 if isinstance(step, Loop) else len(op.operands)
        for value in op.operands[:decisive]:
            self._bring(value, "host", host_reason(op))
        results: list[Place] = ["host"] * len(op.results)
        if isinstance(step, Branch):
            inner = [self._inner(region, op.operands[1:]) for region in (step.then, step.otherwise)]
            results = [_joined(pair) for pair in zip(*inner, strict=True)]
        elif isinstance(step, Loop):
            results = self._while(step)
        self.places |= dict(zip(op.results, results, strict=True))

    def _inner(self, body: Region, arguments: Iterable[Value]) -> list[Place]:
        inner = _Walk(self._bound(body.block, map(self._place, arguments)), in_loop=self.in_loop)
        places = inner.body(body)
        self.found += [replace(transfer, is_certain=False) for transfer in inner.found]
        return places

    def _while(self, step: Loop) -> list[Place]:
        op, body, count = step.op, step.body, step.carried
        around = [self._place(value) for value in op.operands[2:]]
        first, captures = around[:count], around[count:]
        # What is carried is where the iteration before has left it.
        before = _Walk(self._bound(body.block, ["host", *first, *captures]), in_loop=True).body(body)
        carried = [_joined(pair) for pair in zip(first, before[1 : 1 + count], strict=True)]
        inner = _Walk(self._bound(body.block, ["host", *carried, *captures]), in_loop=True)
        _, *results = inner.body(body)
        inner._bring(body.block.results[0], "host", host_reason(op))
        self.found += inner.found
        return [_joined(pair) for pair in zip(carried, results[:count], strict=True)] + results[count:]

    def _bound(self, block: Block, places: Iterable[Place]) -> dict[Value, Place]:
        return dict(zip(block.parameters, places, strict=True))

    def _place(self, value: Value) -> Place:
        if value.op is not None and value.op.name == "constant":
            return "both"
        return "host" if is_host_type(value.type) else self.places[value]

    def _bring(self, value: Value, side: Literal["device", "host"], reason: str) -> None:
        place = self._place(value)
        if place in (side, "both") or is_host_type(value.type):
            return
        self.places[value] = "both"
        if place == "input" and side == "device":
            return
        if side == "device":
            made_by = value.op
            reason = host_reason(made_by) if made_by is not None else "a loop or a branch was given it on the host"
        nbytes = value.tensor.elements * value.dtype.itemsize
        direction: Direction = "upload" if side == "device" else "download"
        certain = place not in ("input", "either")
        self.found.append(Transfer(direction, _value_text(value), nbytes, reason, certain, self.in_loop))


def _joined(places: Iterable[Place]) -> Place:
    """Where a value is that comes from one of several."""
    different = set(places)
    return different.pop() if len(different) == 1 else "either"


def _value_text(value: Value) -> str:
    if value.op is None:
        return f"{value.producer.name}: {value.type}"
    return f"the result of {op_text(value.op)}: {value.type}"
