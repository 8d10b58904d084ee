"""The report of a compilation as executables give it: a JSON object that notebooks show as a table.

What a profile has measured stands beside what the cost model expected, at the launch that it is about.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from onnxc.runtime.program import JsonValue

if TYPE_CHECKING:
    from onnxc.runtime.profiling.profile import Profile

__all__ = ["Report", "html_table", "measured_report"]

_COLUMNS = ("kernel", "algorithm", "node", "FLOP", "bytes", "expected us", "measured us", "of the roofline")


class Report(dict[str, JsonValue]):
    """A report; `json.dumps` takes it."""

    def _repr_html_(self) -> str:
        launches = self.get("launches")
        entries = [each for each in launches if isinstance(each, Mapping)] if isinstance(launches, list | tuple) else []
        return html_table(_COLUMNS, map(_cells, entries))


def measured_report(report: Mapping[str, JsonValue], profile: "Profile") -> Report:
    """The report with "measured" at each launch that ran: seconds of a call, and the share of the roofline."""
    times = {
        kernel.launch: {"seconds": kernel.seconds, "roofline_share": kernel.roofline_share, "calls": profile.calls}
        for kernel in profile.kernels
    }
    launches = report.get("launches")
    entries: tuple[JsonValue, ...] = tuple(launches) if isinstance(launches, list | tuple) else ()
    joined: list[JsonValue] = [
        {**entry, "measured": times[ordinal]} if isinstance(entry, Mapping) and ordinal in times else entry
        for ordinal, entry in enumerate(entries)
    ]
    return Report({**report, "launches": joined})


def html_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of texts, which may hold anything."""
    # Few processes show a table, and all load this module: html takes 3 ms.
    escape: Callable[[str], str] = importlib.import_module("html").escape
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(launch: Mapping[str, JsonValue]) -> tuple[str, ...]:
    measured = launch.get("measured")
    entries = measured if isinstance(measured, Mapping) else {}
    return (
        str(launch.get("kind", "")),
        str(launch.get("algorithm", "")),
        str(launch.get("node", "")),
        _formatted(launch.get("typical_flops")),
        _formatted(launch.get("typical_bytes")),
        _formatted(launch.get("seconds"), 1e6),
        _formatted(entries.get("seconds"), 1e6),
        _formatted(entries.get("roofline_share")),
    )


def _formatted(value: JsonValue, factor: float = 1) -> str:
    return f"{value * factor:.4g}" if isinstance(value, int | float) else ""
