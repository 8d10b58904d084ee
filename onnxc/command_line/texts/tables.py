"""Tables and texts for the terminal that several commands print."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from onnxc.runtime.program import JsonValue

__all__ = ["arrays_table", "bytes_text", "facts_table", "formatted", "json_text", "plain", "seconds_text", "table"]

SHOWN_ELEMENTS = 6
_VISIBLE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) != "\n"}


def table(*columns: str) -> Table:
    """Columns without lines; the last ones may fold."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def facts_table(facts: Mapping[str, str]) -> Table:
    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in facts.items():
        made.add_row(plain(name), plain(value))
    return made


def plain(text: str) -> Text:
    """A text of a model as it stands: no markup, and control characters, which could rewrite a terminal, shown."""
    return Text(text.translate(_VISIBLE))


def json_text(value: JsonValue, indent: str = "") -> str:
    """JSON for people: one line a leaf, names before values."""
    if isinstance(value, Mapping):
        return "\n".join(lines(value.items(), indent))
    if isinstance(value, list | tuple):
        return "\n".join(f"{indent}{json_text(item, indent).lstrip()}" for item in value)
    return f"{indent}{value}"


def lines(items: Iterable[tuple[str, JsonValue]], indent: str) -> Iterator[str]:
    for name, value in items:
        nested = isinstance(value, Mapping | list | tuple)
        yield f"{indent}{name}\n{json_text(value, indent + '  ')}" if nested else f"{indent}{name}: {value}"


def formatted(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)


def arrays_table(arrays: Mapping[str, object]) -> Table:
    """Name, type, range and first elements of each array."""
    made = table("output", "type", "from", "to", "elements")
    for name, value in arrays.items():
        made.add_row(
            name, *(array_cells(value) if isinstance(value, np.ndarray) else (type(value).__name__, "", "", ""))
        )
    return made


def array_cells(array: np.ndarray) -> tuple[str, str, str, str]:
    kind = f"{array.dtype}{list(array.shape)}"
    first = ", ".join(formatted(element) for element in array.reshape(-1)[:SHOWN_ELEMENTS])
    elements = first + (", ..." if array.size > SHOWN_ELEMENTS else "")
    if array.size == 0 or array.dtype.kind not in "iuf":
        return kind, "", "", elements
    return kind, formatted(array.min()), formatted(array.max()), elements


def seconds_text(seconds: float) -> str:
    """With a unit that leaves a number of one to three digits before the point."""
    return _with_unit(seconds, ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")))


def bytes_text(count: float) -> str:
    """The same of bytes."""
    return _with_unit(count, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")))


def _with_unit(value: float, units: Sequence[tuple[float, str]]) -> str:
    """By the largest unit that is no more than the value, else by the smallest."""
    unit, name = next((each for each in units if value >= each[0]), units[-1])
    return f"{value / unit:.4g} {name}"
