"""The rows of a sweep as text: what is slower than ONNX Runtime, by how much, and how all did."""

import math
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.isolation import Row

SHOWN_RATIO = 1.2
"""Cases that are faster by more have no line of their own."""

LEAST_US = 20.0
"""Calls that take ONNX Runtime less are counted apart: there the cost of calling decides."""


def figure(row: Row, key: str) -> float:
    value = row[key]
    assert isinstance(value, float), row
    return value


def measured(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if "ratio" in row]


def summary(rows: Sequence[Row]) -> str:
    """Counts of what is slower, and of what could not be compared, in a few lines."""
    timed = measured(rows)
    lines = [f"{len(rows)} cases, {len(timed)} timed; ratio = ONNX Runtime's time / ours, above 1 is faster"]
    long = [row for row in timed if figure(row, "ort_us") > LEAST_US]
    lines += [_counts(name, part) for name, part in ((f"over {LEAST_US:.0f} us", long), ("all", timed)) if part]
    lines += [f"skipped, as ONNX Runtime does not run them: {sum('skipped' in row for row in rows)}"]
    lines += [f"failed: {row['case']}: {row['error']}" for row in rows if "error" in row]
    lines += [f"values differ by {figure(row, 'difference'):.2g}: {row['case']}" for row in timed if not row["equal"]]
    return "\n".join(lines)


def _counts(name: str, rows: Sequence[Row]) -> str:
    ratios = [figure(row, "ratio") for row in rows]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    below = {limit: sum(ratio < limit for ratio in ratios) for limit in (0.5, 0.8, 1.0)}
    counts = ", ".join(f"{count} below {limit}" for limit, count in below.items())
    return f"{name}: {len(rows)} cases, {counts}, geometric mean {mean:.2f}"


def markdown(rows: Sequence[Row]) -> str:
    """The summary, a line for each operator, and the rows that are slower or hardly faster, the greatest loss first."""
    timed = sorted(measured(rows), key=lambda row: figure(row, "ratio"))
    operators: dict[str, list[Row]] = {}
    for row in timed:
        operators.setdefault(str(row["operator"]), []).append(row)
    return "\n".join(
        (
            "# The operator sweep\n",
            "`python -m benchmarks.operators --table benchmarks/results/operators.md`, one thread each.\n",
            f"```text\n{summary(rows)}\n```\n",
            "## Operators\n",
            "| operator | cases | worst | geometric mean |\n|---|---|---|---|",
            *_operator_lines(operators),
            f"\n## Cases below {SHOWN_RATIO}\n",
            "| ratio | onnxc us | ORT us | case |\n|---|---|---|---|",
            *(_line(row) for row in timed if figure(row, "ratio") < SHOWN_RATIO),
            "",
        )
    )


def _operator_lines(operators: Mapping[str, Sequence[Row]]) -> Iterable[str]:
    for operator, rows in sorted(operators.items(), key=lambda item: figure(item[1][0], "ratio")):
        mean = math.exp(sum(math.log(figure(row, "ratio")) for row in rows) / len(rows))
        yield f"| {operator} | {len(rows)} | {figure(rows[0], 'ratio'):.2f} | {mean:.2f} |"


def _line(row: Row) -> str:
    cells = (f"{figure(row, 'ratio'):.2f}", f"{figure(row, 'onnxc_us'):.1f}", f"{figure(row, 'ort_us'):.1f}")
    return f"| {' | '.join(cells)} | `{str(row['case']).replace('|', chr(92) + '|')}` |"
