"""The legal models of the suite, each with what theory says of it: blocks of outputs, and exchanges with their bytes.

Nothing here asks onnxc what it does: annotations, layouts and exchanges are stated, outputs are those of the reference
of ONNX. Numbers are small integers, so that sums are the same in any order, but where a function says otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf import text_format
from onnx import ModelProto, helper

from tests.sharding.annotated import annotate, attention_nodes, graph_model, set_stage

node = helper.make_node
FOUR = (0, 1, 2, 3)
ALL = {-1: FOUR}
ROWS, COLUMNS = {-1: (0, 1), -2: (2, 3)}, {-1: (0, 2), -2: (1, 3)}
PAIR = (-1, -2)
BY_HAND = Path(__file__).parent / "by_hand"

Exchanges = Sequence[tuple[str, int]]

Layout = Mapping[int, tuple[int, Sequence[int]]]
"""For each divided axis into how many blocks it is divided, and which of them each device holds."""


@dataclass(frozen=True)
class Program:
    """A model with annotations, and what is expected of it.

    about: a sentence that says what it shows. layouts: of each output, None where nobody says (pipelines). exchanges:
    each with the bytes that every device brings, None where several ways are right. exact: whether sums are the same in
    any order. is_random: whether outputs are those of the same implementation without the configuration.
    """

    about: str
    model: ModelProto
    layouts: Mapping[str, Layout] | None
    exchanges: Exchanges | None
    given: Mapping[str, np.ndarray] | None = None
    exact: bool = True
    is_random: bool = False


def integers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def whole(each: onnx.NodeProto, *tensors: str) -> None:
    """States that every device has copies of these."""
    for tensor in tensors:
        annotate(each, tensor, {}, (-1,), ALL)


def along(axis: int, count: int = 4, holders: Sequence[int] = FOUR) -> Layout:
    return {axis: (count, holders)}


# Products


def product(rows: int, depth: int, columns: int) -> ModelProto:
    return graph_model(
        [node("MatMul", ["x", "w"], ["y"])],
        {"x": [rows, depth]},
        {"y": [rows, columns]},
        {"w": integers(1, depth, columns)},
        4,
    )


def column() -> Program:
    model = product(5, 3, 8)
    annotate(model.graph.node[0], "w", {1: 4}, FOUR)
    annotate(model.graph.node[0], "y", {1: 4}, FOUR)
    return Program("The columns of a weight and of the result are divided: no exchange.", model, {"y": along(1)}, [])


def row() -> Program:
    model = product(5, 8, 3)
    annotate(model.graph.node[0], "w", {0: 4}, FOUR)
    whole(model.graph.node[0], "y")
    about = "What is summed is divided and the result is not: one all_reduce of the whole result."
    return Program(about, model, {"y": {}}, [("all_reduce", 5 * 3 * 4)])


def scattered() -> Program:
    model = product(8, 8, 3)
    annotate(model.graph.node[0], "w", {0: 4}, FOUR)
    annotate(model.graph.node[0], "y", {0: 4}, FOUR)
    about = "What is summed is divided, and the result by the same devices: one reduce_scatter."
    return Program(about, model, {"y": along(0)}, [("reduce_scatter", 8 * 3 * 4)])


def uneven_columns() -> Program:
    model = product(2, 3, 10)
    annotate(model.graph.node[0], "w", {1: 4}, FOUR)
    annotate(model.graph.node[0], "y", {1: 4}, FOUR)
    return Program("Ten columns over four devices: blocks of 3, 3, 3 and 1.", model, {"y": along(1)}, [])


def uneven_sum() -> Program:
    model = product(2, 5, 3)
    annotate(model.graph.node[0], "w", {0: 4}, FOUR)
    whole(model.graph.node[0], "y")
    about = "Five terms over four devices, blocks of 2, 2, 1 and 0: what is beyond the end is not summed."
    return Program(about, model, {"y": {}}, [("all_reduce", 2 * 3 * 4)])


def replicated() -> Program:
    model = product(2, 3, 4)
    whole(model.graph.node[0], "x", "w", "y")
    return Program("Every device has copies of everything: no exchange.", model, {"y": {}}, [])


def grid() -> Program:
    model = product(6, 4, 8)
    annotate(model.graph.node[0], "x", {0: 2}, PAIR, ROWS)
    annotate(model.graph.node[0], "w", {1: 2}, PAIR, COLUMNS)
    annotate(model.graph.node[0], "y", {0: 2, 1: 2}, FOUR)
    layout = {0: (2, (0, 0, 1, 1)), 1: (2, (0, 1, 0, 1))}
    return Program("A mesh of 2 x 2: rows of x by one axis, columns of w by the other.", model, {"y": layout}, [])


def grid_sum() -> Program:
    model = product(6, 4, 8)
    annotate(model.graph.node[0], "x", {0: 2, 1: 2}, FOUR)
    annotate(model.graph.node[0], "w", {0: 2}, PAIR, COLUMNS)
    annotate(model.graph.node[0], "y", {0: 2}, PAIR, ROWS)
    about = "A mesh of 2 x 2: rows by one axis, the sum by the other; the all_reduce is among pairs."
    return Program(about, model, {"y": {0: (2, (0, 0, 1, 1))}}, [("all_reduce", 3 * 8 * 4)])


# Layers


def mlp(rows: int) -> ModelProto:
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "v"], ["y"])]
    constants = {"w": integers(1, 4, 8), "v": integers(2, 8, 4)}
    model = graph_model(nodes, {"x": [rows, 4]}, {"y": [rows, 4]}, constants, 4)
    annotate(nodes_of(model)[0], "w", {1: 4}, FOUR)
    annotate(nodes_of(model)[2], "v", {0: 4}, FOUR)
    return model


def nodes_of(model: ModelProto) -> Sequence[onnx.NodeProto]:
    return model.graph.node


def column_then_row() -> Program:
    model = mlp(5)
    whole(model.graph.node[2], "y")
    return Program("Columns, then rows: two layers with one all_reduce.", model, {"y": {}}, [("all_reduce", 80)])


def mlp_by_hand() -> Program:
    model = text_format.Parse((BY_HAND / "mlp.textproto").read_text(), ModelProto())
    return Program("Columns, then rows, as a person wrote it.", model, {"y": {}}, [("all_reduce", 3 * 2 * 4)])


def sequence_parallel() -> Program:
    """Norms see rows of a sequence, products all of them; floats."""
    nodes = [
        node("LayerNormalization", ["x", "s"], ["n"]),
        node("MatMul", ["n", "w"], ["h"]),
        node("Relu", ["h"], ["r"]),
        node("MatMul", ["r", "v"], ["m"]),
        node("Add", ["x", "m"], ["y"]),
    ]
    constants = {"s": np.ones(4, np.float32), "w": integers(1, 4, 8), "v": integers(2, 8, 4)}
    model = graph_model(nodes, {"x": [8, 4]}, {"y": [8, 4]}, constants, 4)
    norm, first, _, second, add = model.graph.node
    annotate(norm, "x", {0: 4}, FOUR)
    annotate(norm, "n", {0: 4}, FOUR)
    whole(first, "n")
    annotate(first, "w", {1: 4}, FOUR)
    annotate(second, "v", {0: 4}, FOUR)
    annotate(second, "m", {0: 4}, FOUR)
    annotate(add, "y", {0: 4}, FOUR)
    about = "Sequence parallel: rows are gathered before the first product, and the sums of the second scattered."
    exchanges = [("all_gather", 2 * 4 * 4), ("reduce_scatter", 8 * 4 * 4)]
    return Program(about, model, {"y": along(0)}, exchanges, exact=False)


def attention() -> Program:
    """Four heads of two, one on each device; floats."""
    constants = {f"w{name}": integers(seed, 8, 8) / 4 for seed, name in enumerate("qkvo")}
    constants |= {"split": np.array([0, 0, 4, 2]), "join": np.array([0, 0, 8])}
    model = graph_model(attention_nodes("x", "y"), {"x": [2, 3, 8]}, {"y": [2, 3, 8]}, constants, 4)
    for index in range(3):
        annotate(nodes_of(model)[index], f"w{'qkv'[index]}", {1: 4}, FOUR)
    annotate(nodes_of(model)[-1], "wo", {0: 4}, FOUR)
    whole(nodes_of(model)[-1], "y")
    about = "Attention divided by heads, through reshapes and transposes: one all_reduce behind the last product."
    return Program(about, model, {"y": {}}, [("all_reduce", 2 * 3 * 8 * 4)], exact=False)


def experts() -> Program:
    nodes = [
        node("Einsum", ["to", "x"], ["sent"], equation="gsec,gsd->egcd"),
        node("Reshape", ["sent", "flat"], ["tokens"]),
        node("MatMul", ["tokens", "up"], ["h"]),
        node("Relu", ["h"], ["r"]),
        node("MatMul", ["r", "down"], ["made"]),
        node("Reshape", ["made", "apart"], ["back"]),
        node("Einsum", ["to", "back"], ["y"], equation="gsec,egcd->gsd"),
    ]
    constants = {"up": integers(1, 4, 4, 6), "down": integers(2, 4, 6, 4)}
    constants |= {"flat": np.array([4, -1, 4]), "apart": np.array([4, 4, 2, 4])}
    model = graph_model(nodes, {"to": [4, 3, 4, 2], "x": [4, 3, 4]}, {"y": [4, 3, 4]}, constants, 4)
    send, flat, *_, apart, receive = model.graph.node
    annotate(send, "x", {0: 4}, FOUR)
    annotate(send, "sent", {1: 4}, FOUR)
    annotate(flat, "sent", {0: 4}, FOUR)
    annotate(apart, "back", {0: 4}, FOUR)
    annotate(receive, "back", {1: 4}, FOUR)
    annotate(receive, "y", {0: 4}, FOUR)
    routes = np.random.default_rng(3).integers(0, 2, (4, 3, 4, 2)).astype(np.float32)
    about = "A mixture of experts: tokens go to the device of their expert, and back, in an all_to_all each."
    moved = ("all_to_all", 4 * 2 * 4 * 4)
    given = {"to": routes, "x": integers(0, 4, 3, 4)}
    return Program(about, model, {"y": along(0)}, [moved, moved], given)


def convolution() -> Program:
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["y"])]
    model = graph_model(nodes, {"x": [4, 2, 5, 5]}, {"y": [4, 3, 5, 5]}, {"w": integers(1, 3, 2, 3, 3)}, 4)
    annotate(model.graph.node[0], "x", {0: 4}, FOUR)
    annotate(model.graph.node[1], "y", {0: 4}, FOUR)
    return Program("A convolution divided by its batch: no exchange.", model, {"y": along(0)}, [])


# Reductions and movements


def softmax() -> Program:
    """Floats; the maximum and the sum of each row are reduced, or the row is gathered."""
    model = graph_model([node("Softmax", ["x"], ["y"], axis=-1)], {"x": [3, 8]}, {"y": [3, 8]}, {}, 4)
    annotate(model.graph.node[0], "x", {1: 4}, FOUR)
    annotate(model.graph.node[0], "y", {1: 4}, FOUR)
    about = "A softmax over an axis that is divided, and stays so; two all_reduce of a row each, or one all_gather."
    return Program(about, model, {"y": along(1)}, None, exact=False)


def reduction(operator: str) -> Program:
    nodes = [node(operator, ["x", "axes"], ["y"], keepdims=0)]
    model = graph_model(nodes, {"x": [3, 7]}, {"y": [3]}, {"axes": np.array([1])}, 4)
    annotate(model.graph.node[0], "x", {1: 4}, FOUR)
    whole(model.graph.node[0], "y")
    about = f"{operator} over an axis of seven that is divided over four devices: one all_reduce."
    return Program(about, model, {"y": {}}, [("all_reduce", 3 * 4)])


def moved() -> Program:
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["y"])]
    model = graph_model(nodes, {"x": [8, 6]}, {"y": [8, 6]}, {}, 4)
    annotate(model.graph.node[0], "a", {0: 4}, FOUR)
    annotate(model.graph.node[1], "a", {1: 4}, FOUR)
    annotate(model.graph.node[1], "y", {1: 4}, FOUR)
    about = "A value that its producer divides by rows and its consumer by columns, uneven ones: one all_to_all."
    # Six columns are two blocks of each of four devices, the last two of padding.
    return Program(about, model, {"y": along(1)}, [("all_to_all", 2 * 8 * 4)])


def broadcast() -> Program:
    model = graph_model([node("Add", ["x", "b"], ["y"])], {"x": [4, 6]}, {"y": [4, 6]}, {"b": integers(1, 1, 6)}, 4)
    annotate(model.graph.node[0], "x", {0: 4}, FOUR)
    annotate(model.graph.node[0], "y", {0: 4}, FOUR)
    return Program("An axis of one element is broadcast along a divided one: no exchange.", model, {"y": along(0)}, [])


def shapes() -> Program:
    nodes = [node("Relu", ["x"], ["a"]), node("Shape", ["a"], ["s"]), node("Cast", ["s"], ["y"], to=1)]
    model = graph_model(nodes, {"x": [7, 6]}, {"y": [2]}, {}, 4)
    annotate(model.graph.node[0], "a", {0: 4}, FOUR)
    whole(model.graph.node[2], "y")
    return Program("Shape of a divided value is that of the whole.", model, {"y": {}}, [])


# How annotations say it


def relu(devices: int = 4) -> ModelProto:
    return graph_model([node("Relu", ["x"], ["y"])], {"x": [4, 6]}, {"y": [4, 6]}, {}, devices)


def groups() -> Program:
    model = relu()
    annotate(model.graph.node[0], "y", {0: 2}, PAIR, ROWS)
    layout = {0: (2, (0, 0, 1, 1))}
    return Program("Two blocks, each on a group of two devices.", model, {"y": layout}, [])


def sub_axes() -> Program:
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["y"])]
    model = graph_model(nodes, {"x": [8, 4]}, {"y": [8, 4]}, {}, 4)
    annotate(model.graph.node[0], "a", {0: 4}, FOUR)
    annotate(model.graph.node[1], "a", {0: 2}, PAIR, ROWS)
    annotate(model.graph.node[1], "y", {0: 2}, PAIR, ROWS)
    about = "Four blocks become two, of pairs of devices: one all_gather within each pair."
    return Program(about, model, {"y": {0: (2, (0, 0, 1, 1))}}, [("all_gather", 2 * 4 * 4)])


def listed_order() -> Program:
    model = relu()
    annotate(model.graph.node[0], "y", {1: 2, 0: 2}, FOUR)
    layout = {0: (2, (0, 1, 0, 1)), 1: (2, (0, 0, 1, 1))}
    return Program("Axis 1 is listed before axis 0, and is the slower one.", model, {"y": layout}, [])


def negative_axis() -> Program:
    model = relu()
    annotate(model.graph.node[0], "y", {-1: 4}, FOUR)
    return Program("Axis -1 is the last one.", model, {"y": along(1)}, [])


def factors() -> Program:
    model = relu()
    spec = annotate(model.graph.node[0], "y", {}, FOUR)
    dim = spec.sharded_dim.add(axis=0)
    dim.simple_sharding.add(dim_value=4, num_shards=4)
    dim.simple_sharding.add(dim_value=1, num_shards=1)
    return Program("An axis of two fused ones, of which the first is divided.", model, {"y": along(0)}, [])


def devices_without_axes() -> Program:
    model = relu()
    annotate(model.graph.node[0], "y", {}, FOUR)
    return Program("Devices are listed and no axis is divided: a copy on each.", model, {"y": {}}, [])


def one_device() -> Program:
    model = relu(1)
    annotate(model.graph.node[0], "y", {}, (0,))
    return Program("A configuration of one device.", model, {"y": {}}, [])


def two_configurations() -> Program:
    model = relu()
    annotate(model.graph.node[0], "y", {1: 4}, FOUR)
    model.configuration.add(name="other", num_devices=2)
    said = model.graph.node[0].device_configurations.add(configuration_id="other")
    said.sharding_spec.add(tensor_name="y", device=[0, 1]).sharded_dim.add(axis=0).simple_sharding.add(num_shards=2)
    return Program("The model has two configurations, and the one that is named counts.", model, {"y": along(1)}, [])


# Branches, loops, random numbers


def branch(taken: bool) -> Program:
    layers = mlp(5)
    out = [helper.make_tensor_value_info("y", 1, [5, 4])]
    negated = helper.make_graph([node("Neg", ["x"], ["y"])], "otherwise", [], out)
    then = helper.make_graph(list(layers.graph.node), "then", [], out)
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in layers.graph.initializer}
    nodes = [node("If", ["c"], ["z"], then_branch=then, else_branch=negated)]
    model = graph_model(nodes, {"x": [5, 4]}, {"z": [5, 4]}, constants, 4)
    model.graph.input.append(helper.make_tensor_value_info("c", 9, []))
    whole(nodes_of(model)[0], "z")
    given = {"x": integers(0, 5, 4), "c": np.array(taken)}
    about = f"Two layers in a branch, which {'is' if taken else 'is not'} taken: its all_reduce is in its body."
    return Program(about, model, {"z": {}}, [("all_reduce", 5 * 4 * 4)], given)


def loop() -> Program:
    layers = mlp(5)
    kinds: list[tuple[str, int, list[int]]] = [("i", 7, []), ("go", 9, []), ("x", 1, [5, 4]), ("on", 9, [])]
    i, go, x, on = (helper.make_tensor_value_info(*each) for each in kinds)
    y = helper.make_tensor_value_info("y", 1, [5, 4])
    nodes = [*layers.graph.node, node("Identity", ["go"], ["on"])]
    # The reference of ONNX goes through no round where the condition is left out.
    body = helper.make_graph(nodes, "body", [i, go, x], [on, y])
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in layers.graph.initializer}
    constants["true"] = np.array(True)
    model = graph_model(
        [node("Loop", ["count", "true", "x0"], ["z"], body=body)], {"x0": [5, 4]}, {"z": [5, 4]}, constants, 4
    )
    model.graph.input.append(helper.make_tensor_value_info("count", 7, []))
    whole(nodes_of(model)[0], "z")
    given = {"x0": integers(0, 5, 4), "count": np.array(3)}
    about = "Two layers in the body of a loop: one all_reduce in each round."
    return Program(about, model, {"z": {}}, [("all_reduce", 5 * 4 * 4)], given)


def random(operator: str) -> Program:
    model = graph_model([node(operator, ["x"], ["y"], seed=3.0)], {"x": [5, 6]}, {"y": [5, 6]}, {}, 4)
    annotate(model.graph.node[0], "y", {0: 4}, FOUR)
    about = f"{operator}: the numbers with a seed do not depend on how they are divided."
    return Program(about, model, {"y": along(0)}, [], is_random=True)


# Stages


def pipeline(stages: int) -> Program:
    nodes = [node("MatMul", [f"h{k}", f"w{k}"], [f"h{k + 1}"]) for k in range(stages)]
    shapes = {"h0": [2, 3]}, {f"h{stages}": [2, 3]}
    model = graph_model(nodes, *shapes, {f"w{k}": integers(k, 3, 3) for k in range(stages)}, stages)
    for k, each in enumerate(model.graph.node):
        set_stage(each, k)
    about = f"{stages} stages of one device each: what the next one reads is sent to it."
    return Program(about, model, None, [("send", 2 * 3 * 4)] * (stages - 1))


PROGRAMS: Mapping[str, Callable[[], Program]] = {
    "column": column,
    "row": row,
    "contraction_reduce_scatter": scattered,
    "uneven_columns": uneven_columns,
    "uneven_sum": uneven_sum,
    "replicated": replicated,
    "mesh_2x2": grid,
    "mesh_2x2_sum": grid_sum,
    "mlp_column_then_row": column_then_row,
    "mlp_by_hand": mlp_by_hand,
    "sequence_parallel": sequence_parallel,
    "attention_heads": attention,
    "experts_all_to_all": experts,
    "convolution_batch": convolution,
    "softmax_divided_axis": softmax,
    "reduce_sum_divided_axis": lambda: reduction("ReduceSum"),
    "reduce_max_divided_axis": lambda: reduction("ReduceMax"),
    "rows_to_columns": moved,
    "broadcast": broadcast,
    "shape_is_of_the_whole": shapes,
    "groups": groups,
    "sub_axes": sub_axes,
    "listed_order": listed_order,
    "negative_axis": negative_axis,
    "factors": factors,
    "devices_without_axes": devices_without_axes,
    "one_device": one_device,
    "two_configurations": two_configurations,
    "branch_taken": lambda: branch(taken=True),
    "branch_not_taken": lambda: branch(taken=False),
    "loop": loop,
    "random_normal": lambda: random("RandomNormalLike"),
    "random_uniform": lambda: random("RandomUniformLike"),
    "pipeline_2": lambda: pipeline(2),
    "pipeline_4": lambda: pipeline(4),
}
