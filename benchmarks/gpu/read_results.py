"""What follows from the results of the suite: calibration data, a page with plots, and the decisions that would change.

    python -m benchmarks.gpu.read_results RESULTS [--page FILE] [--calibrate]

Prints the entry of the calibration table for the card, fitted to the sweeps, and each choice of a tile that it would
change. --calibrate writes the entry into the table that planning reads.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.gpu.bench import Row
from benchmarks.gpu.calibration import CALIBRATION, write_calibration
from benchmarks.gpu.fit_costs import decisions, fitted, products_of
from benchmarks.gpu.results_page import page
from benchmarks.gpu.suite import failures_of
from onnxc.compiler.codegen_gpu.schedules.cards import card_of
from onnxc.compiler.codegen_gpu.schedules.cost_model import Calibration
from onnxc.compiler.target import parse_target

__all__ = ["entry_from", "read_results"]

# A choice that loses less against the fastest is within what times differ from run to run.
NOTABLE = 1.03

_CHANGE = "{name}: {now} in place of {was}, {gain:.2f} times as fast"
_LEFT = "{name}: {fastest} would still be {left:.2f} times as fast as {now}"
_ELSEWHERE = "{name}: {best} is {loses:.2f} times as fast as what is chosen"

Sections = Mapping[str, Sequence[Row]]


def main() -> int:
    """Prints what follows; 1 where the results have no calibration."""
    options = parse_options()
    sections = json.loads(options.results.read_text())["sections"]
    fit = read_results(sections)
    options.page.write_text(page(sections, fit))
    print("\n".join(lines_of(fit)))
    print(f"the page is {options.page}")
    if options.calibrate and fit["entry"] is not None:
        write_calibration(str(fit["architecture"]), fit["entry"], options.table)  # type: ignore[arg-type]
    return 0 if fit["entry"] is not None else 1


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.read_results", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, metavar="RESULTS", help="what the suite has written")
    parser.add_argument("--page", type=Path, default=Path("gpu.html"), metavar="FILE", help="default: %(default)s")
    parser.add_argument("--calibrate", action="store_true", help="write the entry into the table of the cost model")
    parser.add_argument("--table", type=Path, default=CALIBRATION, metavar="FILE", help="default: that of this tree")
    return parser.parse_args()


def read_results(sections: Sections) -> Row:
    """The entry of the calibration table, None without a measured one; the decisions that it changes; what failed.

    "elsewhere" are the kernels that the cost model is not fitted to, where another candidate was notably faster.
    """
    swept = list(sections.get("sweeps", ()))
    measured = entry_from(sections)
    fit: Row = {"entry": None, "architecture": None, "changes": [], "failures": failures_of(sections)}
    fit["elsewhere"] = [
        {"name": row["name"], "best": row["best"], "loses": row["first_over_best"]}
        for row in swept
        if row.get("kind") != "product" and float(str(row.get("first_over_best", 1))) > NOTABLE
    ]
    if measured is None:
        return fit
    architecture, entry = measured
    card, products = card_of(parse_target(f"cuda:{architecture}")), products_of(swept)
    calibration = fitted(card, Calibration(**entry), products)  # type: ignore[arg-type]
    fit |= {"architecture": architecture, "entry": {key: _short(value) for key, value in asdict(calibration).items()}}
    fit["changes"] = [row for row in decisions(card, calibration, products) if row["was"] != row["now"]]
    fit["left"] = [row for row in decisions(card, calibration, products) if float(str(row["left"])) > NOTABLE]
    return fit


def entry_from(sections: Sections) -> tuple[str, dict[str, object]] | None:
    """The architecture and the entry that were measured."""
    for row in sections.get("calibration", ()):
        if isinstance(row.get("entry"), dict):
            return str(row["architecture"]), dict(row["entry"])  # type: ignore[call-overload]
    return None


def lines_of(fit: Row) -> list[str]:
    """What follows, in lines for people."""
    lines = [f"wrong or failed: {line}" for line in fit["failures"]]  # type: ignore[attr-defined]
    if fit["entry"] is None:
        return [*lines, "no calibration: the section calibration gave no entry"]
    return [
        *lines,
        f"{fit['architecture']}: {json.dumps(fit['entry'])}",
        *(_CHANGE.format_map(row) for row in fit["changes"]),  # type: ignore[attr-defined]
        *(_LEFT.format_map(row) for row in fit["left"]),  # type: ignore[attr-defined]
        *(_ELSEWHERE.format_map(row) for row in fit["elsewhere"]),  # type: ignore[attr-defined]
    ]


def _short(value: object) -> object:
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    raise SystemExit(main())
