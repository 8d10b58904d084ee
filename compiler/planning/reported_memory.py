"""What reports of a plan say of memory: what launches and steps on the host read and write, and when slots are in use.

Values that lie in no arena have names: those of the program's inputs and outputs, else numbers. Sizes are texts as the
runtime evaluates them, in the symbols of the report; None where only data decides.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from onnxc.compiler.ir.dim_symbols import symbols_of
from onnxc.compiler.ir.dims import Dim, render
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.planning.kernel_plan import (
    BindSizes,
    Branch,
    Buffer,
    Collective,
    HostStep,
    KernelPlan,
    Launch,
    Loop,
    PlanStep,
    Routine,
    Segment,
    is_constant,
    regions_of,
)
from onnxc.compiler.planning.place_buffers import value_bytes
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["ReportedMemory", "reported_memory", "size_text"]

Flow = Mapping[str, JsonValue]


@record(eq=False)
class ReportedMemory:
    """launches: what each reads and writes, in order. hosts: the same of ops, by id, and how many launches are before.

    json: the segments with their slots and lifetimes, the values outside of arenas with their bytes, and the bytes of
    each weight.
    """

    launches: tuple[Flow, ...]
    hosts: Mapping[int, Flow]
    json: Flow


def reported_memory(plan: KernelPlan) -> ReportedMemory:
    """What a plan does with memory."""
    reporter = _Reporter(plan)
    reporter.steps(plan.body.steps)
    memory: dict[str, JsonValue] = {
        "segments": [*reporter.segments],
        "values": {reporter.names[value]: size for value, size in reporter.sizes.items()},
        "weights": [plan.constants[weight.constant].nbytes for weight in plan.weights],
    }
    return ReportedMemory(tuple(reporter.launches), reporter.hosts, memory)


def size_text(size: Dim, symbols: Sequence[str]) -> str | None:
    """A size as the runtime evaluates it, where these are all symbols; None where it has others."""
    if symbols_of(size) - set(symbols):
        return None
    return render(size, lambda symbol: f"s[{symbols.index(symbol)}]")


class _Reporter:
    """Walks the steps of a plan in order."""

    def __init__(self, plan: KernelPlan) -> None:
        function = plan.function
        self.symbols = list(function.symbols)
        self.names = {value: function.result_names[k] for k, value in enumerate(function.body.results)}
        self.names |= {value: value.producer.name for value in function.body.parameters}
        self.sizes: dict[Value, str | None] = {}
        self.segments: list[JsonValue] = []
        self.launches: list[Flow] = []
        self.hosts: dict[int, Flow] = {}
        self._unnamed = count()

    def steps(self, steps: Iterable[PlanStep]) -> None:
        for step in steps:
            match step:
                case Segment():
                    self.segment(step)
                case Routine():
                    self.steps(step.steps)
                case Loop() | Branch():
                    self.nested(step)
                case HostStep() | Collective() | BindSizes():
                    self.host(step.op)

    def segment(self, segment: Segment) -> None:
        """The lifetimes of its slots count launches from the first of the program on."""
        first, prefix = len(self.launches), f"segment {len(self.segments)} " if self.segments else ""
        self.launches += [self.flow(launch, segment, prefix) for launch in segment.launches]
        sizes = {*segment.slots, *(life.size_bytes for life in segment.lifetimes)}
        texts = {size: size_text(size, self.symbols) for size in sizes}
        self.segments.append(
            {
                "slots": [texts[size] for size in segment.slots],
                "prefix": prefix,
                "lives": [
                    {
                        "slot": life.slot,
                        "bytes": texts[life.size_bytes],
                        "first": first + life.first,
                        "last": first + life.last,
                    }
                    for life in segment.lifetimes
                ],
            }
        )

    def flow(self, launch: Launch, segment: Segment, prefix: str) -> Flow:
        """What a launch reads, writes and uses as scratch memory."""

        def names(buffers: Iterable[Buffer]) -> list[JsonValue]:
            return [self.buffer(buffer, segment, prefix) for buffer in buffers]

        flow: dict[str, JsonValue] = {"reads": names(launch.inputs), "writes": names(launch.outputs)}
        return flow if launch.scratch is None else {**flow, "scratch": self.buffer(launch.scratch, segment, prefix)}

    def buffer(self, buffer: Buffer, segment: Segment, prefix: str) -> str:
        """The name of what lies in a buffer of a segment."""
        if buffer.kind == "slot":
            return f"{prefix}{buffer}"
        if buffer.kind == "weight":
            return str(buffer)
        return self.name((segment.inputs if buffer.kind == "input" else segment.outputs)[buffer.index])

    def host(self, op: Op) -> None:
        operands = [self.name(value) for value in op.operands if not is_constant(value)]
        results = [self.name(value) for value in op.results]
        self.hosts[id(op)] = {"reads": operands, "writes": results, "before": len(self.launches)}

    def nested(self, step: Loop | Branch) -> None:
        """What is within has the names of what is outside: operands those of parameters, results those of results."""
        op = step.op
        self.host(op)
        for region in regions_of(step):
            # A loop has a limit and a condition before what goes in, and a condition before what comes out.
            inner = 1 if isinstance(step, Loop) else 0
            self.alias(region.block.parameters[inner:], op.operands[1 + inner :])
            self.alias(region.block.results[inner:], op.results)
            self.steps(region.steps)

    def alias(self, inner: Sequence[Value], outer: Sequence[Value]) -> None:
        for value, other in zip(inner, outer, strict=True):
            if not is_constant(other):
                self.names.setdefault(value, self.name(other))

    def name(self, value: Value) -> str:
        """The name of a value outside of arenas, whose bytes are kept."""
        if value not in self.names:
            self.names[value] = f"value {next(self._unnamed)}"
        if value not in self.sizes and isinstance(value.type, TensorType) and value.type.shape is not None:
            self.sizes[value] = size_text(value_bytes(value), self.symbols)
        return self.names[value]
