"""What follows from results: calibration data, the tiles that they would change, the page."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import read_results as module
from benchmarks.gpu.bench import Row
from benchmarks.gpu.fit_costs import decisions, fitted, products_of
from benchmarks.gpu.read_results import read_results
from benchmarks.gpu.results_page import page
from onnxc.compiler.codegen_gpu.schedules.cards import CARDS
from onnxc.compiler.codegen_gpu.schedules.cost_model import cost_model
from onnxc.compiler.codegen_gpu.schedules.product_tiles import arithmetic_of, product_seconds
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.planning.schedules import Tile, Warps
from tests.codegen_gpu.kinds import SM_90

CARD, MODEL = CARDS["sm_90"], cost_model(SM_90)
TILES = ((16, 64, 64, 4), (32, 64, 64, 4), (64, 64, 64, 4), (64, 128, 64, 4), (128, 128, 64, 8))


def swept(sizes: tuple[int, int, int], seconds: "list[float]") -> Row:
    """A row of a sweep; the first tile is what was chosen."""
    tried = [
        {"schedule": f"{rows} x {columns}", "expected_seconds": 1e-5, "seconds": took, "tile": [rows, columns, depth],
         "warps": warps, "stages": 4, "split": 1, "operands": "bf16"}
        for (rows, columns, depth, warps), took in zip(TILES, seconds, strict=True)
    ]  # fmt: skip
    best = min(tried, key=lambda each: float(str(each["seconds"])))
    row: Row = {"name": f"product {sizes}", "kind": "product", "dtype": "bf16", "sizes": list(sizes), "tried": tried}
    return row | {"best": best["schedule"], "first_over_best": seconds[0] / min(seconds)}


def seconds_at(sizes: tuple[int, int, int], **constants: float) -> list[float]:
    """What each tile would take on a card with other constants."""
    other = type(MODEL)(CARD, type(MODEL.calibration)(**{**vars(MODEL.calibration), **constants}))
    (found,) = products_of([swept(sizes, [1.0] * len(TILES))])
    return [
        product_seconds(
            found.products,
            Tile(*tile[:3]),
            Warps(tile[3], 4),
            1,
            arithmetic_of(found.products.dtype, F32, "bf16"),
            other,
        )
        for tile in TILES
    ]


SIZES = ((4096, 4096, 4096), (512, 3072, 768), (64, 3072, 768), (16, 4096, 4096))


@pytest.mark.parametrize(
    ("name", "value"), [("iteration_bytes", 16384.0), ("narrow_share", 0.15), ("step_seconds", 1e-5)]
)
def test_a_constant_is_found_again_in_the_times_that_it_makes(name: str, value: float) -> None:
    made = products_of([swept(sizes, seconds_at(sizes, **{name: value})) for sizes in SIZES])
    found = fitted(CARD, MODEL.calibration, made)
    assert getattr(found, name) == pytest.approx(value, rel=0.2)
    assert found.bandwidth == MODEL.calibration.bandwidth
    assert all(row["left"] == 1.0 for row in decisions(CARD, found, made))


def test_a_tile_that_the_measurements_would_change_is_named() -> None:
    (row,) = decisions(CARD, MODEL.calibration, products_of([swept((4096, 4096, 4096), [9.0, 8.0, 4.0, 2.0, 1.0])]))
    assert (row["was"], row["now"], row["fastest"]) == ("16 x 64", "128 x 128", "128 x 128")
    assert (row["gain"], row["left"]) == (9.0, 1.0)


def sections() -> dict[str, list[Row]]:
    entry = vars(MODEL.calibration) | {"measured_on": "a <card>"}
    attention = {"name": "attention", "kind": "attention", "best": "64 x 64", "first_over_best": 1.5, "tried": []}
    launch = {"seconds": 2e-6, "expected_seconds": 1e-6, "kind": "pointwise", "ops": "add", "bound": "launch"}
    return {
        "kernel_values": [{"name": "x", "ok": False, "error_ratio": 1.0}, {"name": "y", "skipped": "no time was left"}],
        "calibration": [{"name": "calibration", "architecture": "sm_90", "entry": entry}],
        "sweeps": [swept(SIZES[0], [9.0, 8.0, 4.0, 2.0, 1.0]), attention],
        "launch_profiles": [{"name": "model", "launches": [launch]}],
    }  # fmt: skip


def test_the_page_tells_what_failed_and_draws_what_was_measured() -> None:
    text = page(sections(), read_results(sections()))
    assert "<li>kernel_values: x, ok False, error_ratio 1</li>" in text
    assert "a &lt;card&gt;" in text
    assert "a <card>" not in text
    assert text.count("<circle") == len(TILES) + 1


def test_the_command_writes_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results, table = tmp_path / "results.json", tmp_path / "calibration.json"
    results.write_text(json.dumps({"sections": sections()}))
    table.write_text("{}")
    arguments = [str(results), "--page", str(tmp_path / "page.html"), "--calibrate", "--table", str(table)]
    monkeypatch.setattr(sys, "argv", ["read_results", *arguments])
    assert module.main() == 0
    told = capsys.readouterr().out
    assert "128 x 128 in place of 16 x 64, 9.00 times as fast" in told
    assert "attention: 64 x 64 is 1.50 times as fast as what is chosen" in told
    assert json.loads(table.read_text())["sm_90"].keys() == vars(MODEL.calibration).keys()


def test_results_without_a_calibration_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    found = read_results({"calibration": [{"name": "calibration", "skipped": "no time was left"}]})
    assert found["entry"] is None
    assert module.lines_of(found) == ["no calibration: the section calibration gave no entry"]
