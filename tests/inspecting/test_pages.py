"""What pages hold: types, weights, findings at their nodes, graphs that open; whatever the model's names are."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import onnxc
from onnxc.command_line.main import main
from onnxc.inspecting.pages import artifact_page, model_page
from onnxc.runtime.program import JsonValue
from tests.inspecting.example_model import HOSTILE, example_model

Json = dict[str, JsonValue]


def data_of(page: str) -> dict[str, list[Json]]:
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    return json.loads(data[1])  # type: ignore[no-any-return]


def page_of(model: onnx.ModelProto, folder: Path) -> dict[str, list[Json]]:
    path = folder / "m.onnx"
    onnx.save(model, path)
    return data_of(model_page(path))


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Json]]:
    return page_of(example_model(), tmp_path_factory.mktemp("model"))


def node(view: Json, operator: str) -> list[Json]:
    boxes: list[list[Json]] = view["boxes"]  # type: ignore[assignment]
    return next(box for box in boxes if box[4].get("operator") == operator)


def test_values_have_the_types_that_inference_finds(example: dict[str, list[Json]]) -> None:
    values = example["views"][0]["values"]
    assert values["x"] == {"type": "f32[N, 2]"}  # type: ignore[index, call-overload]
    assert values["twice"]["type"] == "f32[N, 3]"  # type: ignore[index, call-overload]


def test_weights_have_their_range_mean_zeros_and_nan(example: dict[str, list[Json]]) -> None:
    weight = example["views"][0]["values"]["w"]["weight"]  # type: ignore[index, call-overload]
    first = ["0", "1", "5", "nan", "inf", "0"]
    assert weight == {
        "elements": 6, "first": first, "min": "0", "max": "5", "mean": "1.5", "zeros": 2, "NaN": 1, "infinities": 1,
    }  # fmt: skip


def test_functions_and_graphs_of_nodes_are_views_that_open(example: dict[str, list[Json]]) -> None:
    views = example["views"]
    paths = [view["path"] for view in views]
    assert paths == ["main", "main/If_3.else_branch", "main/If_3.then_branch", "function own.Twice"]
    assert node(views[0], "Twice")[4]["opens"] == {"body": 3}
    edges = [edge[:3] for edge in views[0]["edges"]]  # type: ignore[union-attr, index]
    assert edges == [[0, 2, "x"], [2, 4, "product"], [1, 5, "flag"], [4, 5, "twice"], [3, 5, "one"], [5, 6, "y"]]
    assert node(views[0], "If")[4]["opens"] == {"else_branch": 1, "then_branch": 2}
    assert (views[2]["parent"], [box[0] for box in views[2]["boxes"]]) == (0, ["outer", "node", "output"])  # type: ignore[union-attr, index]


def test_devices_and_stages_are_told_by_configuration(example: dict[str, list[Json]]) -> None:
    said = node(example["views"][0], "MatMul")[4]["devices"]
    assert said == {"tp2": {"stage": 1, "devices": [0, 1], "divides": ["w: axis 1 by 2"]}}


def test_a_node_has_attributes_its_scope_and_a_link_if_the_standard_knows_it(example: dict[str, list[Json]]) -> None:
    details = node(example["views"][0], "MatMul")[4]
    assert details["documentation"] == "https://onnx.ai/onnx/operators/onnx__MatMul.html"
    assert "documentation" not in node(example["views"][0], "Twice")[4]
    assert node(example["views"][0], "If")[4]["attributes"] == {"then_branch": "graph", "else_branch": "graph"}


def test_names_of_a_model_cannot_leave_the_data_or_turn_a_line(tmp_path: Path) -> None:
    onnx.save(example_model(), tmp_path / "m.onnx")
    page = model_page(tmp_path / "m.onnx")
    assert page.count("<script") == 2
    assert page.isascii()
    title = data_of(page)["title"]
    assert (title, HOSTILE[:9]) == (HOSTILE.replace("\0", "\\u0000").replace("\u202e", "\\u202e"), "</script>")


def test_a_wrong_model_is_drawn_with_its_findings_at_their_nodes(tmp_path: Path) -> None:
    model = example_model()
    model.graph.node[0].input[0] = "nowhere"
    model.functions[0].node[0].op_type = "Nothing"
    shown = page_of(model, tmp_path)
    assert [finding["code"] for finding in shown["findings"]] == ["undefined-name", "unknown-operator"]
    assert node(shown["views"][0], "MatMul")[4]["findings"] == [0]
    assert node(shown["views"][3], "Nothing")[4]["findings"] == [1]


def test_a_finding_within_a_call_is_at_the_node_of_the_function(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    body = helper.make_function(
        "own", "Square", ["a"], ["b"], [helper.make_node("MatMul", ["a", "a"], ["b"])], [helper.make_opsetid("", 18)]
    )
    graph = helper.make_graph([helper.make_node("Square", ["x"], ["y"], domain="own")], "g", [x], [y])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    shown = page_of(helper.make_model(graph, functions=[body], opset_imports=opsets, ir_version=10), tmp_path)
    assert [finding["code"] for finding in shown["findings"]] == ["inner-dimensions"]
    assert node(shown["views"][1], "MatMul")[4]["findings"] == [0]


def test_a_weight_whose_file_is_missing_says_so(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros(4, "f4"), "w")
    onnx.external_data_helper.set_external_data(tensor, "gone.bin")
    tensor.ClearField("raw_data")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [tensor])
    (tmp_path / "m.onnx").write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()
    )
    shown = data_of(model_page(tmp_path / "m.onnx"))
    assert "gone.bin" in shown["views"][0]["values"]["w"]["weight"]["unreadable"]  # type: ignore[index, call-overload, operator]


def test_an_artifact_has_its_steps_launches_and_memory(tmp_path: Path) -> None:
    with pytest.warns(onnxc.ModelWarning, match="ignored-configuration"):
        onnxc.compile(example_model()).save(tmp_path / "m.onnxc")
    shown = data_of(artifact_page(tmp_path / "m.onnxc"))
    titles = {str(table["title"]): table for table in shown["tables"]}
    assert {"Launches", "Signature", "Members of the file", "Totals of a call"} <= set(titles)
    assert ["input", "x", "f32[N, 2]"] in titles["Signature"]["rows"]  # type: ignore[operator]
    boxes: list[list[Json]] = shown["views"][0]["boxes"]  # type: ignore[assignment]
    assert "launch" in [box[4].get("operator") for box in boxes]
    assert [box[1] for box in boxes if box[0] == "input"] == ["x", "flag"]


def test_the_command_writes_a_page_and_refuses_what_is_no_model(tmp_path: Path) -> None:
    onnx.save(example_model(), tmp_path / "m.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    page = tmp_path / "m.html"
    done = CliRunner().invoke(main, ["inspect", str(tmp_path / "m.onnx"), "--html", str(page)])
    assert (done.exit_code, page.read_text()[:15]) == (0, "<!DOCTYPE html>")
    refused = CliRunner().invoke(main, ["inspect", str(tmp_path / "text.onnx"), "--html", str(page)])
    assert (refused.exit_code, "error[not-a-model]" in refused.output) == (1, True)
    nowhere = CliRunner().invoke(main, ["inspect", str(tmp_path / "m.onnx"), "--html", str(tmp_path / "no" / "m.html")])
    assert nowhere.exit_code == 1
