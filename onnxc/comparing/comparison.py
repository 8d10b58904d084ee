"""What was found to differ between two runs, as data, JSON and a table of notebooks."""

from onnxc.comparing.differences import ValueDifference
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record
from onnxc.runtime.report import html_table

__all__ = ["Comparison"]


@record
class Comparison:
    """What differs between runs a and b of the same inputs; b is taken for right.

    inner: the values in between that both have, in the order of the nodes of a, when all of them are outputs too.
    only_a, only_b: outputs that one of them lacks. inner_error: why there are no values in between.
    """

    a: str
    b: str
    outputs: tuple[ValueDifference, ...]
    inner: tuple[ValueDifference, ...] = ()
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    inner_error: str = ""

    @property
    def is_same(self) -> bool:
        """Whether both have the same outputs, and they agree."""
        return not self.only_a and not self.only_b and all(each.is_same for each in self.outputs)

    @property
    def first(self) -> ValueDifference | None:
        """The first value that differs, in the order of the nodes; None where none does."""
        return next((each for each in (*self.inner, *self.outputs) if not each.is_same), None)

    def to_json(self) -> dict[str, JsonValue]:
        """All of it as one JSON object."""
        return {
            "a": self.a,
            "b": self.b,
            "same": self.is_same,
            "outputs": [each.to_json() for each in self.outputs],
            "inner": [each.to_json() for each in self.inner],
            "first": None if self.first is None else self.first.to_json(),
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
            "inner_error": self.inner_error,
        }

    def _repr_html_(self) -> str:
        """The values that differ, and the outputs, as a table for notebooks."""
        shown = [*(each for each in self.inner if not each.is_same), *self.outputs]
        rows = [(each.name, each.node, each.a, f"{each.difference:.3g}", str(each.is_same)) for each in shown]
        return html_table(("value", "computed by", "type", "largest difference", "same"), rows)
