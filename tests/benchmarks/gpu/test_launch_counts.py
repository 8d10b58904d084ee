"""The table of launches: counted from a plan, beside the line of a model."""

from dataclasses import replace
from pathlib import Path

import onnx

from benchmarks.gpu.launch_counts import LaunchCounts, counts_of, models_in, table_of
from tests.models.builders import encoder
from tests.support.models import model_from_text

MOVED = """
<ir_version: 10, opset_import: ["" : 21]>
moved (float[n, 64, 96] x) => (float[n, 96, 64] y, float[n, 64, 96] z) {
  y = Transpose <perm = [0, 2, 1]> (x)
  z = Exp (x)
}
"""


def test_launches_are_counted_from_the_plan() -> None:
    row = counts_of("encoder", encoder("dynamo").model.SerializeToString())
    assert row == LaunchCounts("encoder", 18, 7, 0, 0, 0)
    assert row.is_met is None


def test_launches_that_only_move_are_told_from_others() -> None:
    row = counts_of("moved", model_from_text(MOVED).SerializeToString(), "fp32")
    assert row == LaunchCounts("moved", 2, 0, 1, 0, 0)


def test_a_row_says_where_a_model_is_above_its_line() -> None:
    row = LaunchCounts("bert_base", 87, 7, 0, 0, 0)
    assert table_of([row]).splitlines()[-1] == "| bert_base | 87 | 7 | 8 of a layer | 0 | 0 | 0 |"
    above = replace(row, of_a_layer=9)
    assert above.is_met is False
    assert "8 of a layer: **above**" in table_of([above])
    assert replace(row, model="lstm", launches=4, of_a_layer=0).is_met
    assert not replace(row, model="lstm", launches=4, of_a_layer=0, transfers=1).is_met


def test_models_of_a_folder_without_a_manifest_are_its_files(tmp_path: Path) -> None:
    onnx.save(model_from_text(MOVED), tmp_path / "b.onnx")
    onnx.save(model_from_text(MOVED), tmp_path / "a.onnx")
    assert [name for name, _ in models_in(tmp_path)] == ["a", "b"]
