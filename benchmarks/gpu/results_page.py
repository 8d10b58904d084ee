"""The results of the suite as one page of HTML, plots as SVG, which needs nothing else."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from benchmarks.gpu.bench import Row

__all__ = ["page"]

_WIDTH, _HEIGHT, _MARGIN = 640, 320, 48

_STYLE = """body{font:14px sans-serif;margin:2em;max-width:70em}table{border-collapse:collapse;margin:1em 0}
td,th{border:1px solid #ccc;padding:2px 8px;text-align:left}svg{background:#fafafa;border:1px solid #ccc}
.bad{color:#b00}circle{fill:#2563eb;fill-opacity:.6}line{stroke:#999}"""


def page(sections: Mapping[str, Sequence[Row]], fit: Row) -> str:
    """The page: what failed and what follows first, then plots, then every row of every section."""
    parts = [
        "<h1>onnxc on a GPU</h1>", _failures(fit), _table("Calibration", [_mapping(fit.get("entry"))]),
        _table("Tiles that would be chosen", _rows(fit.get("changes"))),
        _table("Products that still lose", _rows(fit.get("left"))),
        _table("Other kernels of which another candidate is faster", _rows(fit.get("elsewhere"))),
        _plot("Candidates: expected and measured microseconds", _candidates(sections.get("sweeps", ()))),
        *(_plot(f"Launches of {row['name']}", _launches(row)) for row in sections.get("launch_profiles", ())),
        *(_table(name, rows) for name, rows in sections.items()),
    ]  # fmt: skip
    return f'<!doctype html><meta charset="utf-8"><title>onnxc on a GPU</title><style>{_STYLE}</style>{"".join(parts)}'


def _failures(fit: Row) -> str:
    lines = _rows(fit.get("failures"))
    if not lines:
        return "<p>Every value is right.</p>"
    return f'<ul class="bad">{"".join(f"<li>{escape(str(line))}</li>" for line in lines)}</ul>'


def _candidates(rows: Iterable[Row]) -> list[tuple[float, float, str]]:
    return [
        (float(each["expected_seconds"]), float(each["seconds"]), f"{row['name']}: {each['schedule']}")
        for row in rows
        for each in _rows(row.get("tried"))
    ]


def _launches(row: Row) -> list[tuple[float, float, str]]:
    return [
        (float(each["expected_seconds"]), float(each["seconds"]), f"{each['kind']}: {each['ops']}")
        for each in _rows(row.get("launches"))
        if "expected_seconds" in each
    ]


def _plot(title: str, points: Sequence[tuple[float, float, str]]) -> str:
    """Expected seconds to the right, measured ones upwards, both logarithmic; on the line they are equal."""
    drawn = [(math.log10(x), math.log10(y), label) for x, y, label in points if 0 < x < math.inf and y > 0]
    if not drawn:
        return ""
    values = [value for x, y, _ in drawn for value in (x, y)]
    low, high = math.floor(min(values)), math.ceil(max(values) + 1e-9)

    def across(x: float) -> float:
        return _MARGIN + (x - low) / (high - low) * (_WIDTH - 2 * _MARGIN)

    def up(y: float) -> float:
        return _HEIGHT - _MARGIN - (y - low) / (high - low) * (_HEIGHT - 2 * _MARGIN)

    dots = "".join(
        f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="4"><title>{escape(label)}: expected {10 ** (x + 6):.3g} us, '
        f"measured {10 ** (y + 6):.3g} us</title></circle>"
        for x, y, label in drawn
    )
    ticks = "".join(
        f'<text x="{across(k):.0f}" y="{_HEIGHT - 16}">{10.0 ** (k + 6):g} us</text>'
        f'<text x="2" y="{up(k):.0f}">{10.0 ** (k + 6):g}</text>'
        for k in range(low, high + 1)
    )
    diagonal = f'<line x1="{across(low)}" y1="{up(low)}" x2="{across(high)}" y2="{up(high)}"/>'
    return f'<h2>{escape(title)}</h2><svg width="{_WIDTH}" height="{_HEIGHT}">{diagonal}{dots}{ticks}</svg>'


def _table(title: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Rows under all columns that one of them has; lists are elsewhere."""
    kept = [{key: x for key, x in row.items() if not isinstance(x, list | dict)} for row in rows if row]
    columns = list(dict.fromkeys(key for row in kept for key in row))
    if not columns:
        return ""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_short(row.get(column)))}</td>' for column in columns)}</tr>" for row in kept
    )
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{body}</table>"


def _short(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _rows(value: object) -> list:  # type: ignore[type-arg]
    return value if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
