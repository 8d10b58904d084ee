"""Diagnostics: what is wrong with a model, where, which values disagree, and the rule that says so."""

from collections.abc import Sequence
from typing import Literal

from onnxc.runtime.errors import ModelError, UnsupportedError
from onnxc.runtime.records import record

__all__ = ["DiagnosedModelError", "Diagnostic", "Location", "error", "model_error", "unsupported_error", "warning"]

# Names of a model may hold anything: control characters, which could rewrite a terminal, are shown as \x1b.
_VISIBLE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}

JsonField = str | list[str] | dict[str, str | int | None] | None


@record
class Location:
    """A node of a model: the path of its graph, its index there, its name and its operator version."""

    graph: str = "main"
    index: int | None = None
    name: str = ""
    operator: str = ""

    def __str__(self) -> str:
        text = f'graph "{self.graph}"'
        if self.index is not None:
            text += f", node {self.index}"
        if self.name:
            text += f' "{self.name}"' if self.index is not None else f', "{self.name}"'
        if self.operator:
            text += f" ({self.operator})"
        return text


@record
class Diagnostic:
    """One finding; `values` are lines such as `data "table" : f32[30522, 768]`."""

    severity: Literal["error", "warning"]
    code: str
    message: str
    location: Location | None = None
    values: tuple[str, ...] = ()
    rule: str = ""

    def __str__(self) -> str:
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        if self.location is not None:
            lines.append(f"  --> {self.location}")
        lines += [f"   | {value}" for value in self.values]
        if self.rule:
            lines.append(f"  rule: {self.rule}")
        return "\n".join(line.translate(_VISIBLE) for line in lines)

    def to_json(self) -> dict[str, JsonField]:
        """All of it as JSON has it; the names of the fields do not change."""
        location = self.location
        return {
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
            "location": None
            if location is None
            else {
                "graph": location.graph,
                "index": location.index,
                "name": location.name,
                "operator": location.operator,
            },
            "values": list(self.values),
            "rule": self.rule,
        }


class DiagnosedModelError(ModelError):
    """A ModelError with its findings; `code` is the first finding's."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__("\n".join(str(finding) for finding in diagnostics), code=diagnostics[0].code)
        self.diagnostics = tuple(diagnostics)


def error(
    code: str, message: str, location: Location | None = None, values: Sequence[str] = (), rule: str = ""
) -> Diagnostic:
    """A finding that makes the model illegal."""
    return Diagnostic("error", code, message, location, tuple(values), rule)


def warning(
    code: str, message: str, location: Location | None = None, values: Sequence[str] = (), rule: str = ""
) -> Diagnostic:
    """A finding that the model can be compiled in spite of."""
    return Diagnostic("warning", code, message, location, tuple(values), rule)


def model_error(diagnostics: Sequence[Diagnostic]) -> ModelError:
    """The error that carries all of `diagnostics` (at least one)."""
    return DiagnosedModelError(diagnostics)


def unknown_nodes(reasons: Sequence[tuple[Location, str]]) -> tuple[Diagnostic, ...]:
    """One warning that lists the nodes that cannot be compiled, each with its reason; none where there are none."""
    if not reasons:
        return ()
    message = f"not yet supported, {len(reasons)} node(s): what they give is known as far as it is declared"
    return (warning("unsupported-node", message, values=[f"{location}: {reason}" for location, reason in reasons]),)


def unsupported_error(reasons: Sequence[tuple[Location, str]]) -> UnsupportedError:
    """One error that lists every node that cannot be compiled yet, each with its reason."""
    listing = "\n".join(f"  --> {location}: {reason}" for location, reason in reasons)
    return UnsupportedError(f"not yet supported, {len(reasons)} node(s)\n{listing}", code="unsupported-node")
