"""Annotated models on cpu:N: the same results as on one device, with the exchanges that theory asks for."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

import onnxc
from onnxc.runtime.errors import InputError, ModelWarning, OnnxcError, UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.program import JsonValue
from tests.sharding.annotated import CONFIG, annotate, attention_nodes, graph_model
from tests.support.arrays import assert_close

node = helper.make_node
RANDOM = np.random.default_rng(12)
FOUR = (0, 1, 2, 3)


def weight(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def mlp(hidden: int = 16, width: int = 8, devices: int = 4) -> ModelProto:
    nodes = [
        node("MatMul", ["x", "w1"], ["a"]),
        node("Add", ["a", "b1"], ["h"]),
        node("Gelu", ["h"], ["g"]),
        node("MatMul", ["g", "w2"], ["y"]),
    ]
    constants = {"w1": weight(width, hidden), "b1": weight(hidden), "w2": weight(hidden, width)}
    return graph_model(nodes, {"x": ["N", width]}, {"y": ["N", width]}, constants, devices)


def column_then_row(hidden: int = 16) -> ModelProto:
    model = mlp(hidden)
    annotate(model.graph.node[0], "w1", {1: 4}, FOUR)
    annotate(model.graph.node[3], "w2", {0: 4}, FOUR)
    return model


def told(exe: Executable) -> Mapping[str, JsonValue]:
    report = exe.report()
    assert isinstance(report, dict)
    devices = report["devices"]
    assert isinstance(devices, dict)
    return devices


def exchanges(exe: Executable) -> list[tuple[JsonValue, JsonValue]]:
    listed = told(exe)["collectives"]
    assert isinstance(listed, list)
    return [(each["op"], each["bytes"]) for each in listed if isinstance(each, dict)]


def whole(model: ModelProto) -> Executable:
    alone = ModelProto()
    alone.CopyFrom(model)
    _strip(alone.graph)
    return onnxc.compile(alone)


def _strip(graph: onnx.GraphProto) -> None:
    for each in graph.node:
        del each.device_configurations[:]
        for attribute in each.attribute:
            _strip(attribute.g)


def expect_as_whole(model: ModelProto, *inputs: np.ndarray) -> Executable:
    """The executable, which gives what the model gives on one device."""
    exe = onnxc.compile(model, config=CONFIG)
    expected, made = whole(model)(*inputs), exe(*inputs)
    assert isinstance(made, np.ndarray)
    assert isinstance(expected, np.ndarray)
    assert_close(made, expected, terms=64, magnitude=8.0)
    return exe


# The patterns of Megatron: 5 rows of 8 f32 are 160 bytes


def test_column_then_row_parallel_is_one_all_reduce() -> None:
    model = column_then_row()
    exe = onnxc.compile(model, config=CONFIG, devices="cpu:4", dims={"N": 5})
    x = weight(5, 8)
    assert_close(np.asarray(exe(x)), np.asarray(whole(model)(x)), terms=64, magnitude=8.0)
    assert exchanges(exe) == [("all_reduce", 160)]
    assert told(exe)["mesh"] == "d0=4"


def test_a_sharded_result_of_a_contraction_is_a_reduce_scatter() -> None:
    model = column_then_row()
    annotate(model.graph.node[3], "y", {1: 4}, FOUR)
    exe = expect_as_whole(model, weight(5, 8))
    assert [name for name, _ in exchanges(exe)] == ["reduce_scatter", "all_gather"]


def gathered() -> ModelProto:
    model = mlp()
    annotate(model.graph.node[3], "w2", {1: 4}, FOUR)
    annotate(model.graph.node[3], "y", {}, FOUR)
    return model


def sequence_parallel() -> ModelProto:
    model = column_then_row()
    model.graph.node.insert(0, node("Relu", ["z"], ["x"]))
    model.graph.input[0].name = "z"
    annotate(model.graph.node[0], "x", {0: 4}, FOUR)
    annotate(model.graph.node[1], "x", {}, FOUR)
    annotate(model.graph.node[4], "y", {0: 4}, FOUR)
    return model


def test_column_parallel_with_a_whole_result_is_one_all_gather() -> None:
    exe = onnxc.compile(gathered(), config=CONFIG, dims={"N": 5})
    assert exchanges(exe) == [("all_gather", 40)]


def test_sequence_parallel_gathers_rows_and_scatters_sums() -> None:
    exe = expect_as_whole(sequence_parallel(), weight(8, 8))
    assert [name for name, _ in exchanges(exe)] == ["all_gather", "reduce_scatter", "all_gather"]


def test_rows_divided_need_no_exchange_but_for_the_result() -> None:
    model = mlp()
    annotate(model.graph.node[0], "x", {0: 4}, FOUR)
    exe = onnxc.compile(model, config=CONFIG, dims={"N": 8})
    x = weight(8, 8)
    assert_close(np.asarray(exe(x)), np.asarray(whole(model)(x)), terms=64, magnitude=8.0)
    assert exchanges(exe) == [("all_gather", 64)]


def test_equal_biases_of_several_layers_are_divided_for_each() -> None:
    """They are one constant: what the first layer asks of it must not divide the result of the second."""
    model = column_then_row(8)
    model.graph.node[3].output[0] = "s"
    model.graph.node.append(node("Add", ["s", "b2"], ["y"]))
    zeros = [onnx.numpy_helper.from_array(np.zeros(8, np.float32), name) for name in ("b1", "b2")]
    model.graph.initializer.remove(next(each for each in model.graph.initializer if each.name == "b1"))
    model.graph.initializer.extend(zeros)
    exe = expect_as_whole(model, weight(5, 8))
    assert [name for name, _ in exchanges(exe)] == ["all_reduce"]


def test_a_constant_that_two_layers_read_is_held_once() -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["b"]), node("MatMul", ["b", "w"], ["y"])]
    model = graph_model(nodes, {"x": ["N", 8]}, {"y": ["N", 8]}, {"w": weight(8, 8)}, 4)
    for each in (0, 2):
        annotate(model.graph.node[each], "w", {1: 4}, FOUR)
    assert told(expect_as_whole(model, weight(5, 8)))["share_bytes"] == [8 * 2 * 4] * 4


# Shares and blocks


def test_each_device_holds_its_share_of_the_weights_only() -> None:
    exe = onnxc.compile(column_then_row(), config=CONFIG)
    everything = (8 * 16 + 16 + 16 * 8) * 4
    assert told(exe)["share_bytes"] == [everything // 4] * 4
    assert told(exe)["whole_bytes"] == 0


def test_more_devices_than_elements_repeat_nothing_in_sums() -> None:
    expect_as_whole(column_then_row(1), weight(5, 8))


@pytest.mark.parametrize("hidden", [2, 3, 10, 17])
def test_uneven_blocks_give_the_same_sums(hidden: int) -> None:
    exe = expect_as_whole(column_then_row(hidden), weight(5, 8))
    columns = -(-hidden // 4)
    assert told(exe)["share_bytes"] == [(8 * columns + columns + columns * 8) * 4] * 4


@pytest.mark.parametrize("rows", [0, 1, 2, 5, 8])
def test_one_program_serves_every_size(rows: int) -> None:
    model = column_then_row()
    annotate(model.graph.node[0], "x", {0: 4}, FOUR)
    expect_as_whole(model, weight(rows, 8))


def test_nan_beyond_the_end_is_not_summed() -> None:
    """Ten columns over four devices: there are two more, in which 0 / 0 is NaN."""
    model = column_then_row(10)
    model.graph.node[1].CopyFrom(node("Div", ["a", "a"], ["h"]))
    exe = expect_as_whole(model, weight(5, 8))
    assert np.isfinite(np.asarray(exe(weight(5, 8)))).all()


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceProd", "ReduceMin", "ReduceMax", "ReduceMean"])
@pytest.mark.parametrize("columns", [2, 5, 8])
def test_every_fold_stops_at_the_end(operator: str, columns: int) -> None:
    model = graph_model([node("Abs", ["x"], ["a"]), node(operator, ["a", "axes"], ["y"], keepdims=0)],
                        {"x": ["N", columns]}, {"y": ["N"]}, {"axes": np.array([1])}, 4)  # fmt: skip
    annotate(model.graph.node[0], "a", {1: 4}, FOUR)
    exe = expect_as_whole(model, weight(3, columns))
    assert [name for name, _ in exchanges(exe)] == ["all_reduce"]


def test_rows_and_columns_are_divided_at_once() -> None:
    model = mlp()
    annotate(model.graph.node[0], "x", {0: 2}, (-1, -2), {-1: (0, 1), -2: (2, 3)})
    annotate(model.graph.node[0], "w1", {1: 2}, (-1, -2), {-1: (0, 2), -2: (1, 3)})
    annotate(model.graph.node[3], "w2", {0: 2}, (-1, -2), {-1: (0, 2), -2: (1, 3)})
    exe = expect_as_whole(model, weight(6, 8))
    assert told(exe)["mesh"] == "d0=2, d1=2"
    assert [name for name, _ in exchanges(exe)] == ["all_reduce", "all_gather"]


def test_one_tensor_is_divided_along_two_axes() -> None:
    model = mlp()
    annotate(model.graph.node[0], "w1", {0: 2, 1: 2}, FOUR)
    exe = expect_as_whole(model, weight(6, 8))
    assert told(exe)["share_bytes"] == [(4 * 8 + 8 + 8 * 8) * 4] * 4


def test_the_first_listed_axis_is_the_slowest() -> None:
    model = mlp()
    annotate(model.graph.node[0], "w1", {1: 2, 0: 2}, FOUR)
    annotate(model.graph.node[3], "w2", {0: 4}, (0, 2, 1, 3))
    expect_as_whole(model, weight(6, 8))


def test_heads_are_divided_through_reshapes_and_transposes() -> None:
    constants = {name: weight(16, 16) for name in ("wq", "wk", "wv", "wo")}
    constants |= {"split": np.array([0, 0, 4, 4]), "join": np.array([0, 0, 16])}
    model = graph_model(attention_nodes("x", "y"), {"x": ["B", "S", 16]}, {"y": ["B", "S", 16]}, constants, 4)
    for index, name in enumerate(("wq", "wk", "wv")):
        annotate(model.graph.node[index], name, {1: 4}, FOUR)
    annotate(model.graph.node[-1], "wo", {0: 4}, FOUR)
    exe = expect_as_whole(model, weight(2, 5, 16))
    assert [name for name, _ in exchanges(exe)] == ["all_reduce"]
    assert told(exe)["share_bytes"] == [4 * 16 * 16] * 4


def test_experts_move_from_one_axis_to_another() -> None:
    model = graph_model([node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["y"])], {"x": [8, 6]}, {"y": [8, 6]}, {}, 4)
    annotate(model.graph.node[0], "x", {0: 4}, FOUR)
    annotate(model.graph.node[1], "a", {1: 4}, FOUR)
    exe = expect_as_whole(model, weight(8, 6))
    assert [name for name, _ in exchanges(exe)] == ["all_to_all", "all_gather"]


def test_a_bias_behind_a_contraction_does_not_keep_its_parts_from_being_scattered() -> None:
    model = column_then_row()
    model.graph.node[3].output[0] = "s"
    model.graph.node.append(node("Add", ["s", "b2"], ["y"]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight(8), "b2"))
    annotate(model.graph.node[4], "y", {1: 4}, FOUR)
    exe = expect_as_whole(model, weight(5, 8))
    assert [name for name, _ in exchanges(exe)] == ["reduce_scatter", "all_gather"]


def test_two_partial_sums_are_one_exchange() -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["x", "v"], ["b"]), node("Add", ["a", "b"], ["y"])]
    model = graph_model(nodes, {"x": ["N", 8]}, {"y": ["N", 6]}, {"w": weight(8, 6), "v": weight(8, 6)}, 4)
    annotate(model.graph.node[0], "w", {0: 4}, FOUR)
    annotate(model.graph.node[1], "v", {0: 4}, FOUR)
    assert [name for name, _ in exchanges(expect_as_whole(model, weight(5, 8)))] == ["all_reduce"]


def test_parts_that_are_divided_differently_are_added_once() -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["x", "v"], ["b"]), node("Add", ["a", "b"], ["y"])]
    model = graph_model(nodes, {"x": ["N", 8]}, {"y": ["N", 6]}, {"w": weight(8, 6), "v": weight(8, 6)}, 4)
    annotate(model.graph.node[0], "w", {0: 2, 1: 2}, FOUR)
    annotate(model.graph.node[1], "v", {0: 2}, (-1, -2), {-1: (0, 1), -2: (2, 3)})
    annotate(model.graph.node[1], "b", {}, FOUR)
    expect_as_whole(model, weight(5, 8))
    del model.graph.node[1].device_configurations[0].sharding_spec[1]
    exe = expect_as_whole(model, weight(5, 8))
    assert [name for name, _ in exchanges(exe)] == ["all_reduce", "all_gather"]


def test_what_makes_a_divided_result_computes_its_blocks_only() -> None:
    model = graph_model([node("MatMul", ["x", "w"], ["y"])], {"x": ["N", 8]}, {"y": ["N", 16]}, {"w": weight(8, 16)}, 4)
    annotate(model.graph.node[0], "y", {1: 4}, FOUR)
    exe = expect_as_whole(model, weight(5, 8))
    assert told(exe)["share_bytes"] == [8 * 4 * 4] * 4


def test_shapes_are_those_of_the_whole() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Shape", ["a"], ["s"]), node("Cast", ["s"], ["y"], to=1)]
    model = graph_model(nodes, {"x": ["N", 6]}, {"y": [2]}, {}, 4)
    annotate(model.graph.node[0], "a", {0: 4}, FOUR)
    assert np.asarray(onnxc.compile(model, config=CONFIG)(weight(7, 6))).tolist() == [7, 6]


def test_random_numbers_do_not_depend_on_the_layout() -> None:
    nodes = [node("RandomNormalLike", ["x"], ["r"], seed=3.0), node("Add", ["x", "r"], ["y"])]
    model = graph_model(nodes, {"x": ["N", 6]}, {"y": ["N", 6]}, {}, 4)
    annotate(model.graph.node[1], "r", {0: 4}, FOUR)
    x = weight(7, 6)
    np.testing.assert_array_equal(np.asarray(onnxc.compile(model, config=CONFIG)(x)), np.asarray(whole(model)(x)))


def branch_or_loop(operator: str) -> ModelProto:
    """Two layers in one branch of two, or gone through twice by a loop; columns, then rows are divided."""
    inner = mlp().graph.node
    annotate(inner[0], "w1", {1: 4}, FOUR)
    annotate(inner[3], "w2", {0: 4}, FOUR)
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in column_then_row().graph.initializer}
    out = [helper.make_tensor_value_info("y", 1, ["N", 8])]
    if operator == "If":
        branches = [helper.make_graph(list(part), "b", [], out) for part in (inner, [node("Neg", ["x"], ["y"])])]
        nodes = [node("If", ["c"], ["z"], then_branch=branches[0], else_branch=branches[1])]
        model = graph_model(nodes, {"x": ["N", 8]}, {"z": ["N", 8]}, constants, 4)
        model.graph.input.append(helper.make_tensor_value_info("c", 9, []))
        return model
    values = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in
              (("i", 7, []), ("go", 9, []), ("x", 1, ["N", 8]), ("on", 9, []))]  # fmt: skip
    body = helper.make_graph([*inner, node("Identity", ["go"], ["on"])], "b", values[:3], [values[3], *out, *out])
    nodes = [node("Loop", ["count", "", "x0"], ["z", "rounds"], body=body)]
    model = graph_model(nodes, {"x0": ["N", 8]}, {"z": ["N", 8], "rounds": ["R", "N", 8]}, constants, 4)
    model.graph.input.append(helper.make_tensor_value_info("count", 7, []))
    return model


@pytest.mark.parametrize(("operator", "given"), [("If", True), ("If", False), ("Loop", 0), ("Loop", 2)])
def test_bodies_of_branches_and_loops_are_divided(operator: str, given: int) -> None:
    """One all_reduce in the branch, or in each round; the weights are divided as those outside."""
    model, x = branch_or_loop(operator), weight(5, 8)
    exe = onnxc.compile(model, config=CONFIG)
    made, expected = (each.run({model.graph.input[0].name: x, model.graph.input[1].name: np.array(given)})
                      for each in (exe, whole(model)))  # fmt: skip
    for name in expected:
        assert_close(np.asarray(made[name]), np.asarray(expected[name]), terms=64, magnitude=8.0)
    assert [name for name, _ in exchanges(exe)] == ["all_reduce"]
    assert told(exe)["share_bytes"] == [(8 * 4 + 4 + 4 * 8) * 4] * 4


def test_what_a_loop_carries_stays_divided_from_round_to_round() -> None:
    model, x = branch_or_loop("Loop"), weight(8, 8)
    annotate(model.graph.node[0], "x0", {0: 4}, FOUR)
    for each in model.graph.node[0].attribute[0].g.node:
        del each.device_configurations[:]
    exe = onnxc.compile(model, config=CONFIG, dims={"N": 8})
    made, expected = (each.run({"x0": x, "count": np.array(3)}) for each in (exe, whole(model)))
    for name in expected:
        assert_close(np.asarray(made[name]), np.asarray(expected[name]), terms=64, magnitude=8.0)
    assert [name for name, _ in exchanges(exe)] == ["all_gather", "all_gather"]


def test_a_branch_of_another_shape_is_computed_whole_and_a_warning_says_so() -> None:
    model = branch_or_loop("If")
    model.graph.node[0].attribute[0].g.node[0].CopyFrom(node("ReduceMax", ["x"], ["y"], keepdims=1))
    for each in (model.graph.output[0], *(attribute.g.output[0] for attribute in model.graph.node[0].attribute)):
        del each.type.tensor_type.shape.dim[:]
        each.type.tensor_type.shape.dim.add()
        each.type.tensor_type.shape.dim.add()
    with pytest.warns(ModelWarning, match="ignored-sharding"):
        exe = onnxc.compile(model, config=CONFIG)
    x = weight(5, 8)
    for taken in (True, False):
        made, expected = exe(x, np.array(taken)), whole(model)(x, np.array(taken))
        np.testing.assert_array_equal(np.asarray(made), np.asarray(expected))


# Calls


def test_calls_are_as_those_of_any_executable() -> None:
    model = column_then_row()
    exe, x = onnxc.compile(model, config=CONFIG, devices="cpu:4"), weight(3, 8)
    y = np.asarray(exe(x))
    out = np.empty((3, 8), np.float32)
    assert exe.run({"x": x}, out={"y": out})["y"] is out
    np.testing.assert_array_equal(out, y)
    assert str(exe) == "<Executable (x: f32[N, 8]) -> (y: f32[N, 8])>"
    assert exe.stats.calls == 2
    with pytest.raises(InputError, match="expected 8"):
        exe(weight(3, 9))
    with pytest.raises(InputError, match="expected 1"):
        exe(x, x)


def test_calls_from_several_threads_do_not_meet() -> None:
    exe = onnxc.compile(column_then_row(), config=CONFIG)
    inputs = [weight(rows, 8) for rows in range(1, 9)]
    expected = [np.asarray(exe(x)) for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        for made, y in zip(pool.map(exe, inputs), expected, strict=True):
            np.testing.assert_array_equal(np.asarray(made), y)


def test_an_error_of_one_device_names_it_and_ends_the_others() -> None:
    nodes = [node("Gather", ["w", "i"], ["r"]), node("MatMul", ["r", "v"], ["y"])]
    model = graph_model(nodes, {}, {"y": [4, 6]}, {"w": weight(5, 8), "v": weight(8, 6)}, 4)
    model.graph.input.append(helper.make_tensor_value_info("i", 7, [4]))
    annotate(model.graph.node[0], "i", {0: 4}, FOUR)
    exe = onnxc.compile(model, config=CONFIG)
    with pytest.raises(InputError, match=r"index 9 is outside(.|\n)*on device 2"):
        exe(np.array([0, 1, 9, 3]))
    assert np.asarray(exe(np.array([0, 1, 4, 3]))).shape == (4, 6)


# What is refused

REFUSED: dict[str, tuple[str, type[OnnxcError], Callable[[ModelProto], object], dict[str, str]]] = {
    "another configuration": ("unknown-config", InputError, lambda m: None, {"config": "tp"}),
    "another number of devices": ("device-count-differs", InputError, lambda m: None, {"devices": "cpu:2"}),
    "idle devices": (
        "unsupported-sharding",
        UnsupportedError,
        lambda m: annotate(m.graph.node[0], "x", {0: 2}, (0, 1)),
        {},
    ),
    "a numbering that no grid has": (
        "unsupported-sharding",
        UnsupportedError,
        lambda m: annotate(m.graph.node[0], "x", {0: 4}, (3, 2, 1, 0)),
        {},
    ),
    "blocks of blocks": (
        "unsupported-sharding",
        UnsupportedError,
        lambda m: _in_factors(annotate(m.graph.node[0], "w1", {}, FOUR), (2, 1), (None, 4)),
        {},
    ),
    "an uneven first factor": (
        "unsupported-sharding",
        UnsupportedError,
        lambda m: (
            _in_factors(annotate(m.graph.node[0], "w1", {}, FOUR), (8, 4), (None, 1), axis=1)
            and _in_factors(annotate(m.graph.node[3], "w2", {}, FOUR), (None, 4), (2, 1))
        ),
        {},
    ),
    "more devices than one process runs": (
        "unsupported-sharding",
        UnsupportedError,
        lambda m: setattr(m.configuration[0], "num_devices", 65),
        {},
    ),
}


def _in_factors(spec: onnx.ShardingSpecProto, *factors: tuple[int | None, int], axis: int = 0) -> bool:
    dim = spec.sharded_dim.add(axis=axis)
    for size, shards in factors:
        simple = dim.simple_sharding.add(num_shards=shards)
        if size is not None:
            simple.dim_value = size
    return True


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_executed_is_named(name: str) -> None:
    code, kind, edit, options = REFUSED[name]
    model = mlp()
    edit(model)
    with pytest.raises(kind) as refused:
        onnxc.compile(model, **{"config": CONFIG, **options})
    assert refused.value.code == code


def test_a_first_factor_that_is_divided_evenly_is_a_division() -> None:
    model = mlp()
    _in_factors(annotate(model.graph.node[0], "w1", {}, FOUR), (4, 4), (4, 1), axis=1)
    exe = expect_as_whole(model, weight(5, 8))
    assert told(exe)["share_bytes"] == [(8 * 4 + 4 + 4 * 8) * 4] * 4


def test_one_stage_for_all_is_no_pipeline() -> None:
    model = column_then_row()
    for each in model.graph.node[:1]:
        each.device_configurations[0].pipeline_stage = 0
    expect_as_whole(model, weight(5, 8))


def test_a_configuration_of_one_device_runs() -> None:
    model = mlp(devices=1)
    annotate(model.graph.node[0], "w1", {}, (0,))
    assert exchanges(expect_as_whole(model, weight(5, 8))) == []
