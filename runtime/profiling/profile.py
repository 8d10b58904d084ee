"""A profile: where the time of calls went, by kernel, node and operator. Data with forms for people and programs."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from onnxc.runtime.pages.fill_page import fill_page
from onnxc.runtime.profiling.graphs import kernel_and_node_graphs
from onnxc.runtime.profiling.limits import Limits
from onnxc.runtime.profiling.memory_plan import MemoryPlan
from onnxc.runtime.profiling.trace import Event, chrome_trace
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["BetweenTime", "Compiled", "HostTime", "KernelTime", "Profile", "Total"]


@record
class KernelTime:
    """A launch, in the variant that ran: seconds and work are those of one call, all its executions together.

    launch: its ordinal in the report. nodes: the ONNX nodes it came from, the one it was built around first. flops,
    bytes: None where only data decides on sizes. roofline_share: the least time that the machine would take for this
    work over the time it took; above 1 where caches held more than was expected or arithmetic was narrower than f32.
    """

    launch: int
    kernel: str
    kind: str
    algorithm: str
    schedule: str
    why: str
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    executions: float
    seconds: float
    least_seconds: float
    share: float
    flops: float | None = None
    bytes: float | None = None
    flops_per_second: float | None = None
    bytes_per_second: float | None = None
    roofline_share: float | None = None
    bound: str | None = None


@record
class HostTime:
    """The steps of one function on the host for one node; seconds are those of one call."""

    function: str
    node: str
    executions: float
    seconds: float
    share: float


@record
class BetweenTime:
    """What a call does outside of kernels and of steps on the host, by where that is; seconds are those of one call.

    name: "entering the call" ends where the first kernel begins: inputs are checked, outputs made, sizes computed.
    "between kernels": the next one is chosen and given its arguments. "to and from the host": from a kernel to a step
    on the host, from one to the next, and back. "leaving the call" begins where the last of them ends.
    """

    name: str
    executions: float
    seconds: float
    share: float


@record
class Total:
    """The seconds of a call that go to a node or to the nodes of an operator, and their share of it."""

    name: str
    seconds: float
    share: float


@record
class Compiled:
    """What a profile knows of the program: the report of its compilation, the names of its inputs and outputs."""

    report: JsonValue = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@record
class Profile:
    """Seconds of one call.

    call_seconds: the median of ordinary calls. recorded_seconds: the mean of those recorded ones that were of middle
    length, as are all others. kernel_seconds, host_seconds, between_seconds: what of these was spent in launches, in
    steps on the host, and outside of both.
    lost_records: of launches that the log had no room for, of all calls together; 0 unless loops are very long.
    memory: at the sizes of these calls.
    """

    model: str
    threads: int
    calls: int
    sizes: dict[str, int]
    call_seconds: float
    recorded_seconds: float
    kernel_seconds: float
    host_seconds: float
    between_seconds: float
    limits: Limits
    kernels: tuple[KernelTime, ...]
    host: tuple[HostTime, ...]
    between: tuple[BetweenTime, ...]
    events: tuple[Event, ...]
    lost_records: int = 0
    memory: MemoryPlan | None = None
    compiled: Compiled = Compiled()

    @property
    def accounted_share(self) -> float:
        """What kernels, steps on the host and what is outside of them add up to, as a share of an ordinary call."""
        return self.share_of_call(self.kernel_seconds + self.host_seconds + self.between_seconds)

    def share_of_call(self, seconds: float) -> float:
        """So many seconds as a share of an ordinary call."""
        return seconds / self.call_seconds if self.call_seconds else 0.0

    def by_node(self) -> tuple[Total, ...]:
        """Seconds by node, most first; a kernel's go to the node that it was built around."""
        return _totals(self._shares(lambda kernel: kernel.nodes))

    def by_operator(self) -> tuple[Total, ...]:
        """Seconds by operator, most first; a kernel's go to that of the node that it was built around."""
        return _totals(self._shares(lambda kernel: kernel.operators))

    def to_json(self) -> dict[str, JsonValue]:
        """All of it as one JSON object; the names of its fields do not change."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {
            **plain,
            "limits": self.limits.to_json(),
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "host": [asdict(step) for step in self.host],
            "between": [asdict(part) for part in self.between],
            "nodes": [asdict(total) for total in self.by_node()],
            "operators": [asdict(total) for total in self.by_operator()],
            "events": [asdict(event) for event in self.events],
            "memory": None if self.memory is None else asdict(self.memory),
        }

    def trace(self) -> dict[str, JsonValue]:
        """One call, the one of median length, as chrome://tracing and Perfetto read it."""
        return chrome_trace(self.events, self.model)

    def html(self) -> str:
        """One page that needs no network: tables, a timeline, memory, kernels beside nodes, a roofline plot."""
        graphs = kernel_and_node_graphs(self.compiled.report, self.compiled.inputs, self.compiled.outputs)
        folder = files("onnxc.runtime.profiling")
        template = (folder / "page.html").read_text("utf8")
        for mark, name in (("/*MEMORY*/", "memory.js"), ("/*GRAPHS*/", "graphs.js")):
            template = template.replace(mark, (folder / name).read_text("utf8").rstrip(), 1)
        return fill_page(template, {**self.to_json(), "graphs": graphs})

    def save(self, path: str | Path) -> None:
        """Writes the page (.html), or the JSON object."""
        path = Path(path)
        path.write_text(self.html() if path.suffix in (".html", ".htm") else json.dumps(self.to_json(), indent=1))

    def _repr_html_(self) -> str:
        """For notebooks: the page within a frame of its own, so that its styles stay there."""
        escaped = self.html().replace("&", "&amp;").replace('"', "&quot;")
        style = "width:100%;height:640px;border:1px solid #ccc"
        return f'<iframe sandbox="allow-scripts" srcdoc="{escaped}" style="{style}"></iframe>'

    def __str__(self) -> str:
        rows = [f"{self.model}: {self.call_seconds * 1e3:.4g} ms a call, {self.threads} threads"]
        for kernel in sorted(self.kernels, key=lambda kernel: -kernel.seconds):
            node = kernel.nodes[0] if kernel.nodes else ""
            rows.append(f"{kernel.share:6.1%} {kernel.seconds * 1e6:10.1f} us  {kernel.kernel} {kernel.kind}  {node}")
        return "\n".join(rows)

    def _shares(self, names: Callable[[KernelTime], Sequence[str]]) -> Iterable[tuple[str, float, float]]:
        for kernel in self.kernels:
            yield next(iter(names(kernel)), "(made by the compiler)"), kernel.seconds, kernel.share
        for step in self.host:
            yield f"{step.function} on the host", step.seconds, step.share


_PLAIN = (
    "model", "threads", "calls", "sizes", "call_seconds", "recorded_seconds", "kernel_seconds", "host_seconds",
    "between_seconds", "accounted_share", "lost_records",
)  # fmt: skip


def _totals(parts: Iterable[tuple[str, float, float]]) -> tuple[Total, ...]:
    seconds: dict[str, float] = {}
    shares: dict[str, float] = {}
    for name, part, share in parts:
        seconds[name], shares[name] = seconds.get(name, 0.0) + part, shares.get(name, 0.0) + share
    ordered = sorted(seconds, key=lambda name: -seconds[name])
    return tuple(Total(name, seconds[name], shares[name]) for name in ordered)
