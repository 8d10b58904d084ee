"""The findings of one check, and the places they are at.

A hostile or hopeless model breaks one rule a million times; of each kind only the first hundred are told apart.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from onnxc.compiler.diagnostics import Diagnostic, Location, error, warning
from onnxc.compiler.frontend.proto.onnxc_pb2 import NodeProto
from onnxc.compiler.frontend.schemas import Schema
from onnxc.compiler.limits import DEFAULT_LIMITS


class Findings:
    """Collects errors and warnings in the order in which they are found, `most` of each code."""

    def __init__(self, most: int = DEFAULT_LIMITS.findings_per_code) -> None:
        self._most = most
        self._diagnostics: list[Diagnostic] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._demoted: Collection[str] = ()

    def error(
        self, code: str, message: str, location: Location | None = None, values: Sequence[str] = (), rule: str = ""
    ) -> None:
        """Records what makes the model illegal."""
        self._add(error(code, message, location, values, rule))

    def warning(
        self, code: str, message: str, location: Location | None = None, values: Sequence[str] = (), rule: str = ""
    ) -> None:
        """Records what is wrong and does no harm."""
        self._add(warning(code, message, location, values, rule))

    @contextmanager
    def demoted(self, codes: Collection[str]) -> Iterator[None]:
        """Within this errors of these codes count as warnings: they are in a part of the model that nothing uses."""
        before, self._demoted = self._demoted, codes
        yield
        self._demoted = before

    def _add(self, finding: Diagnostic) -> None:
        if finding.code in self._demoted and finding.severity == "error":
            finding = warning(finding.code, finding.message, finding.location, finding.values, finding.rule)
        self._counts[finding.severity, finding.code] += 1
        if self._counts[finding.severity, finding.code] <= self._most:
            self._diagnostics.append(finding)

    def all(self) -> tuple[Diagnostic, ...]:
        """Everything found, with a last line for each kind of which there is more."""
        rest = [
            (error if severity == "error" else warning)(
                code, f"{count - self._most} more findings of this kind are not listed"
            )
            for (severity, code), count in self._counts.items()
            if count > self._most
        ]
        return (*self._diagnostics, *rest)


@dataclass(frozen=True, slots=True)
class Site:
    """A node of a graph; `path` names the graph, as in main/If_3.then_branch."""

    path: str
    index: int
    node: NodeProto
    schema: Schema | None = None

    def location(self) -> Location:
        """The place for a diagnostic."""
        return Location(self.path, self.index, self.node.name, operator_text(self.node, self.schema))

    def of_schema(self, schema: Schema) -> "Site":
        """The same node, with the operator version that holds for it."""
        return Site(self.path, self.index, self.node, schema)

    def call_label(self) -> str:
        """What goes before the names of what the node calls, once expanded."""
        return self.node.name or f"{self.node.op_type}_{self.index}"

    def call_path(self) -> str:
        """The path of what the node calls, once expanded."""
        return f"{self.path}/{self.node.op_type}_{self.index}"

    def inner_path(self, label: str) -> str:
        """The path of the graph that the attribute `label` holds."""
        return f"{self.call_path()}.{label}"


def listed(items: Iterable[object], *, none: str = "none", limit: int = 16) -> str:
    """The first few of `items`, as a hostile model may have any number."""
    shown = [str(item) for item in islice(items, limit + 1)]
    return ", ".join([*shown[:limit], "..."] if len(shown) > limit else shown) or none


def operator_text(node: NodeProto, schema: Schema | None) -> str:
    """The operator as people write it, with its version where it has one."""
    return schema.identity if schema else f"{node.domain or 'ai.onnx'}.{node.op_type}"
