"""The operator sweep: its cases are models, and one that cannot be measured is a row."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.isolation import Row
from benchmarks.operators.__main__ import measure_batch, middle_row
from benchmarks.operators.case import OperatorCase, build_model, case, operand
from benchmarks.operators.forms import FORMS, in_forms
from benchmarks.operators.suites import all_cases
from benchmarks.operators.table import markdown, summary

ROOT = Path(__file__).parents[2]


def test_there_are_many_cases_in_many_forms() -> None:
    assert len(all_cases()) > 1500
    forms = {each.form for each in all_cases()}
    assert forms >= {"alone", "symbolic", "open", "sliced", "split", "transposed", "expanded"}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_a_model_of_the_same_operator(form: str) -> None:
    softmax = case("Softmax<axis = 1>(x)", operand("x", "float32", (2, 24, 5, 4)))
    alone, other = in_forms([softmax], form)
    assert alone == softmax
    assert other.name != alone.name
    nodes = [node.op_type for node in build_model(other).graph.node]
    assert nodes == ["Softmax"] if form in ("symbolic", "open") else len(nodes) == 2 and "Softmax" in nodes


def test_each_operator_has_a_case_that_is_a_model() -> None:
    for chosen in {each.operator: each for each in all_cases()}.values():
        assert chosen.operator in {node.op_type for node in build_model(chosen).graph.node}


def test_what_cannot_be_measured_is_a_row() -> None:
    broken = OperatorCase("Relu", "y = Relu(x)", (operand("x", "float32", (2,)),), title="not in any suite")
    (row,) = measure_batch([broken], 1, 0)
    assert (row["operator"], row["error"]) == ("Relu", "no row")


def test_cases_are_timed_and_compared(tmp_path: Path) -> None:
    out, table = tmp_path / "rows.jsonl", tmp_path / "table.md"
    command = [
        sys.executable,
        "-m",
        "benchmarks.operators",
        "--only",
        r"alone: y = Relu\(x\) x:(float32|int8)",
    ]
    options = ["--limit", "2", "--rounds", "1", "--out", str(out), "--table", str(table)]
    result = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["case"] for row in rows if row["run"] == 0] == [
        "alone: y = Relu(x) x:float32[128,768]",
        "alone: y = Relu(x) x:int8[128,768]",
    ]
    assert all(row["equal"] for row in rows if "ratio" in row)
    assert "2 cases" in result.stdout
    assert "| Relu |" in table.read_text()


def test_of_several_runs_the_middle_one_counts_unless_one_failed() -> None:
    rows: list[Row] = [{"case": "Relu", "ratio": ratio, "equal": True} for ratio in (0.9, 1.2, 1.0)]
    assert middle_row(rows) == rows[2]
    assert middle_row([*rows, {"case": "Relu", "ratio": 1.1, "equal": False}])["ratio"] == 1.1
    assert middle_row([*rows, {"case": "Relu", "error": "signal 11"}])["error"] == "signal 11"


def test_the_table_begins_with_the_greatest_loss_and_leaves_out_what_is_faster() -> None:
    rows = [
        {"case": name, "operator": name, "ratio": ratio, "ort_us": 30.0, "onnxc_us": 30.0 / ratio, "equal": True}
        for name, ratio in (("Relu", 2.0), ("Exp", 0.5), ("Tan", 1.0))
    ]
    assert "3 cases, 0 below 0.5, 1 below 0.8, 1 below 1.0, geometric mean 1.00" in summary(rows)
    assert [line.split("`")[1] for line in markdown(rows).splitlines() if line.endswith("` |")] == [
        "Exp",
        "Tan",
    ]
