"""Models with device annotations, and how they run on devices."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.devices.node_shardings import choose_configuration
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.read import read_model
from onnxc.runtime.host.values import HostValue
from tests.sharding.virtual_devices import divide, run_partition

CONFIG = "mesh"

Division = Mapping[int, int]
"""For axes into how many shards each is divided, the slowest first."""


def graph_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str]],
    constants: Mapping[str, np.ndarray],
    devices: int,
) -> ModelProto:
    """A model of floats with one device configuration."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=11)
    model.configuration.add(name=CONFIG, num_devices=devices)
    return model


def annotate(
    node: onnx.NodeProto,
    tensor: str,
    division: Division,
    devices: Sequence[int],
    groups: Mapping[int, Sequence[int]] | None = None,
) -> onnx.ShardingSpecProto:
    """States how a tensor of a node is divided, over devices in the order of shards."""
    said = node.device_configurations[0] if node.device_configurations else node.device_configurations.add()
    said.configuration_id = CONFIG
    spec = said.sharding_spec.add(tensor_name=tensor, device=devices)
    for axis, shards in division.items():
        spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=shards)
    for key, members in (groups or {}).items():
        spec.index_to_device_group_map.add(key=key, value=members)
    return spec


def set_stage(node: onnx.NodeProto, stage: int) -> None:
    """States the pipeline stage of a node."""
    said = node.device_configurations[0] if node.device_configurations else node.device_configurations.add()
    said.configuration_id, said.pipeline_stage = CONFIG, stage


def picking_stages() -> ModelProto:
    """x: f32[N, 4], i: i64[K] -> the rows i of relu(x), on a stage of their own."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Gather", ["a", "i"], ["y"])]
    model = graph_model(nodes, {"x": ["N", 4]}, {"y": ["K", 4]}, {}, 2)
    model.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, ["K"]))
    set_stage(model.graph.node[0], 0)
    set_stage(model.graph.node[1], 1)
    return model


SIZES_OF_BOTH = {
    "sum": [helper.make_node("Concat", ["f", "g"], ["s"], axis=1)],
    "broadcast": [helper.make_node("Add", ["f", "g"], ["s"])],
    "product": [
        helper.make_node("Gemm", ["f", "g"], ["m"], transA=1),
        helper.make_node("Reshape", ["m", "flat"], ["s"]),
    ],
}
"""Nodes that make s of f: f32[1, A] and g: f32[1, B], with a size that is neither A nor B."""


def counting_stages(kind: str) -> ModelProto:
    """x, z: f32[N] -> y: where x and z are not 0, joined in stage 0, turned in 1, and times the count of x in 2."""
    node = helper.make_node
    counted = [
        node("NonZero", ["x"], ["i"]),
        node("NonZero", ["z"], ["j"]),
        node("Cast", ["i"], ["f"], to=1),
        node("Cast", ["j"], ["g"], to=1),
        *SIZES_OF_BOTH[kind],
    ]
    read = [node("Size", ["f"], ["c"]), node("Cast", ["c"], ["k"], to=1), node("Mul", ["n", "k"], ["y"])]
    nodes = [*counted, node("Neg", ["s"], ["n"]), *read]
    model = graph_model(nodes, {"x": ["N"], "z": ["N"]}, {"y": [1, "K"]}, {"flat": np.array([1, -1])}, 3)
    for ordinal, each in enumerate(model.graph.node):
        set_stage(each, (ordinal >= len(counted)) + (ordinal > len(counted)))
    return model


def attention_nodes(source: str, result: str) -> list[onnx.NodeProto]:
    """Attention of `source` with itself by weights wq, wk, wv, wo; "split" is the shape with heads, "join" without."""
    node = helper.make_node
    return [
        *(node("MatMul", [source, f"w{name}"], [name]) for name in "qkv"),
        *(node("Reshape", [name, "split"], [f"{name}s"]) for name in "qkv"),
        node("Transpose", ["qs"], ["qh"], perm=[0, 2, 1, 3]),
        node("Transpose", ["ks"], ["kh"], perm=[0, 2, 3, 1]),
        node("Transpose", ["vs"], ["vh"], perm=[0, 2, 1, 3]),
        node("MatMul", ["qh", "kh"], ["scores"]),
        node("Softmax", ["scores"], ["p"], axis=-1),
        node("MatMul", ["p", "vh"], ["o"]),
        node("Transpose", ["o"], ["oh"], perm=[0, 2, 1, 3]),
        node("Reshape", ["oh", "join"], ["flat"]),
        node("MatMul", ["flat", "wo"], [result]),
    ]


def run_on_virtual_devices(model: ModelProto, inputs: Mapping[str, HostValue]) -> list[tuple[HostValue, ...]]:
    """The results on each device, by the interpreter, as the model is lowered."""
    checked = check_model(read_model(model))
    shardings = choose_configuration(checked, CONFIG, None)
    module = lower_model(checked, None, shardings)
    return run_partition(divide(module, shardings.mesh), shardings.mesh, inputs)
