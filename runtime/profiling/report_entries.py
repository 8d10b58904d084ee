"""Parts of reports, which are JSON that may lack anything."""

from collections.abc import Mapping

from onnxc.runtime.program import JsonValue

__all__ = ["entries_of", "factor_of", "texts_of"]


def entries_of(report: JsonValue, name: str) -> list[Mapping[str, JsonValue]]:
    """The objects of a list in an object of a report; none where it is not there."""
    entries = report.get(name) if isinstance(report, Mapping) else None
    return [each for each in entries if isinstance(each, Mapping)] if isinstance(entries, list | tuple) else []


def texts_of(report: JsonValue, name: str) -> tuple[str, ...]:
    """The texts of a list in an object of a report; none where it is not there."""
    texts = report.get(name) if isinstance(report, Mapping) else None
    return tuple(each for each in texts if isinstance(each, str)) if isinstance(texts, list | tuple) else ()


def factor_of(report: JsonValue, name: str) -> float:
    """A factor in an object of a report, up to a thousand either way; 1 where there is none."""
    factor = report.get(name) if isinstance(report, Mapping) else None
    return float(factor) if isinstance(factor, int | float) and 1e-3 <= factor <= 1e3 else 1.0
