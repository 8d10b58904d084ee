"""The report of a compilation as tables for a page."""

from collections.abc import Iterator, Mapping, Sequence

from onnxc.runtime.profiling.report_entries import entries_of
from onnxc.runtime.program import JsonValue

__all__ = ["Json", "Table", "report_tables", "table"]

Json = dict[str, JsonValue]
Table = Json
"""A title, columns and rows of texts and numbers."""

_LAUNCH = ("kind", "algorithm", "typical_flops", "typical_bytes", "seconds", "bound", "ops", "nodes", "schedule")
_HOST = ("op", "reason", "node")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[JsonValue]]) -> Table:
    return {"title": title, "columns": [*columns], "rows": [[*row] for row in rows]}


def report_tables(report: JsonValue) -> Iterator[Table]:
    """Launches, kernels for GPUs, steps on the host and totals; what is absent is left out."""
    if not isinstance(report, Mapping):
        return
    launches = entries_of(report, "launches")
    yield table("Launches", ("launch", *_LAUNCH), [(k, *_cells(each, _LAUNCH)) for k, each in enumerate(launches)])
    kernels = entries_of(report, "kernels")
    if kernels:
        names = tuple(kernels[0])
        yield table("Kernels", names, [_cells(each, names) for each in kernels])
    steps = entries_of(report, "host_steps")
    if steps:
        yield table("Steps on the host", _HOST, [_cells(each, _HOST) for each in steps])
    totals = report.get("totals")
    if isinstance(totals, Mapping):
        yield table(
            "Totals of a call", ("", "at typical sizes"), [(name, _cell(value)) for name, value in totals.items()]
        )


def _cells(entry: Mapping[str, JsonValue], names: Sequence[str]) -> list[JsonValue]:
    return [_cell(entry.get(name, "")) for name in names]


def _cell(value: JsonValue) -> JsonValue:
    """A number or a text; sizes as they are in the names of symbols."""
    if isinstance(value, Mapping):
        return _cell(value["size"]) if "size" in value else ", ".join(f"{k} = {_cell(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(str(_cell(part)) for part in value)
    return "" if value is None else value
