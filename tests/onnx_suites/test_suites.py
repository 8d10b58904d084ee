"""The tests of the onnx project, where ONNX_SOURCE names their folder, and how what became of them is told."""

import os
from pathlib import Path

import pytest
from onnx import TensorProto, defs, helper

from tests.onnx_suites.__main__ import RESULTS, run_suite
from tests.onnx_suites.inference import infer_node_outputs
from tests.onnx_suites.reports import page, verdicts
from tests.onnx_suites.suites import SUITES

SOURCE = os.environ.get("ONNX_SOURCE", "")


@pytest.mark.skipif(
    not SOURCE, reason="the tests of the onnx project are not installed: ONNX_SOURCE names their folder"
)
@pytest.mark.parametrize("suite", ["parser", "inliner", "compose", "utils"])
def test_every_disagreement_has_its_reason(suite: str) -> None:
    found = run_suite(suite, Path(SOURCE))
    assert found
    assert not [verdict for verdict in found if verdict.status == "disagrees" and not verdict.reason]


def test_the_page_of_results_explains_everything() -> None:
    text = RESULTS.read_text()
    assert all(f"| {suite} |" in text for suite in (*SUITES, "all"))
    assert "not explained" not in text


OURS = {
    "a_test.py::T::same": {"outcome": "passed", "detail": ""},
    "a_test.py::T::more": {"outcome": "passed", "detail": "y"},
    "a_test.py::T::words": {"outcome": "failed", "detail": "AssertionError: Regex pattern did not match."},
    "a_test.py::T::test_case_drop_outputs": {"outcome": "failed", "detail": "x"},
    "a_test.py::T::new": {"outcome": "failed", "detail": "y"},
    "a_test.py::T::broken": {"outcome": "passed", "detail": ""},
}


def test_verdicts_are_agreements_or_have_a_reason() -> None:
    theirs = {name: {"outcome": "passed", "detail": ""} for name in OURS}
    theirs["a_test.py::T::broken"]["outcome"] = "failed"
    found = verdicts("compose", OURS, theirs)
    assert {verdict.case: (verdict.status, bool(verdict.reason)) for verdict in found} == {
        "T::same": ("agrees", False),
        "T::more": ("tells more", False),
        "T::words": ("other words", False),
        "T::test_case_drop_outputs": ("disagrees", True),
        "T::new": ("disagrees", False),
        "T::broken": ("not comparable", False),
    }
    assert "| compose | 6 | 1 | 1 | 1 | 2 | 1 |" in page(found, "1.0")
    assert "**not explained**: `new`" in page(found, "1.0")


def test_one_node_is_inferred_with_the_imports_that_are_given() -> None:
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, [2])
    inner = helper.make_node("UnknownOp", [], ["result"], domain="local.unknown")
    branches = {name: helper.make_graph([inner], name, [], [result]) for name in ("then_branch", "else_branch")}
    node = helper.make_node("If", ["cond"], ["y"], **branches)
    found = infer_node_outputs(
        defs.get_schema("If", 25),
        node,
        {"cond": helper.make_tensor_type_proto(TensorProto.BOOL, [])},
        opset_imports=[helper.make_opsetid("", 25), helper.make_opsetid("local.unknown", 1)],
    )
    assert found == {"y": result.type}
