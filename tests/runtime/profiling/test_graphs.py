"""Kernels beside nodes: which boxes there are, what goes between them, and which came from which."""

from collections.abc import Mapping

import pytest

from onnxc.runtime.profiling.graphs import kernel_and_node_graphs
from onnxc.runtime.program import JsonValue
from tests.runtime.profiling.test_page import REPORT


@pytest.fixture(scope="module")
def graphs() -> Mapping[str, JsonValue]:
    made = kernel_and_node_graphs(REPORT, ["x", "absent"], ["y"])
    assert isinstance(made, dict)
    return made


def titles(view: JsonValue) -> list[str]:
    """The title of each box: its operator, or of an input and an output the name."""
    assert isinstance(view, dict)
    return [box[4].get("operator", box[1]) for box in view["boxes"]]


def links(view: JsonValue) -> set[tuple[str, str]]:
    """What leads to what, by titles."""
    assert isinstance(view, dict)
    return {(titles(view)[edge[0]], titles(view)[edge[1]]) for edge in view["edges"]}


def test_launches_and_steps_on_the_host_are_in_their_order_between_inputs_and_outputs(
    graphs: Mapping[str, JsonValue],
) -> None:
    assert titles(graphs["kernels"]) == ["x", "k0 contraction", "TopK on the host", "k1 pointwise", "y"]
    assert links(graphs["kernels"]) == {
        ("x", "k0 contraction"), ("x", "TopK on the host"), ("k0 contraction", "k1 pointwise"),
        ("TopK on the host", "k1 pointwise"), ("k1 pointwise", "y"),
    }  # fmt: skip


def test_nodes_have_their_operators_names_and_scopes(graphs: Mapping[str, JsonValue]) -> None:
    nodes = graphs["nodes"]
    assert titles(nodes) == ["x", "MatMul", "Relu", "TopK", "Add", "Constant", "y"]
    assert links(nodes) >= {("x", "MatMul"), ("MatMul", "Relu"), ("Relu", "Add"), ("TopK", "Add"), ("Add", "y")}
    assert isinstance(nodes, dict)
    assert [box[1] for box in nodes["boxes"]][1:3] == ["products/first", "products/rectify"]


def test_a_kernel_is_linked_with_its_nodes_the_one_it_was_built_for_first(graphs: Mapping[str, JsonValue]) -> None:
    assert graphs["links"] == [[], [1, 2], [3], [4], []]


def test_names_that_look_like_the_text_around_them_are_read_whole() -> None:
    hostile = 'graph "main/If_0.then", node 7 "a" (b-1), node 8 "c" (own.Op (x)-2)'
    made = kernel_and_node_graphs({"nodes": [{"node": hostile, "reads": [], "writes": []}]}, (), ())
    assert isinstance(made, dict)
    ((kind, name, *_),) = made["nodes"]["boxes"]
    assert (kind, name) == ("node", 'a" (b-1), node 8 "c')


@pytest.mark.parametrize("report", ["", {}, {"launches": REPORT["launches"]}])
def test_a_report_without_nodes_has_no_graphs(report: JsonValue) -> None:
    assert kernel_and_node_graphs(report, ["x"], ["y"]) is None
