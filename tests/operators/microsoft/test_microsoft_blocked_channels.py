"""Operators of com.microsoft.nchwc, and whole models as ONNX Runtime saves them with channels in blocks."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.lower import lower_model
from onnxc.compiler.frontend.lower.channel_blocks import channel_blocks
from onnxc.compiler.frontend.operator_domains import MICROSOFT, NCHWC
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.interpreter import interpret
from tests.operators.microsoft.agreement import assert_all_close, normal, run_theirs


def in_blocks(filters: np.ndarray, size: int) -> np.ndarray:
    """Filters [M, C, *K] in the order of memory, under the shape that they have."""
    inner = size if filters.shape[1] >= size else 1
    spatial = filters.shape[2:]
    parts = filters.reshape(filters.shape[0] // size, size, filters.shape[1] // inner, inner, *spatial)
    rank = parts.ndim
    return parts.transpose(0, 2, *range(4, rank), 3, 1).reshape(filters.shape)


def blocked(
    nodes: Sequence[onnx.NodeProto], x: Sequence[int | str], weights: dict[str, np.ndarray] | None = None
) -> ModelProto:
    """A model of nodes from x to y."""
    result = helper.make_empty_tensor_value_info("y")
    tensors = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, x)
    graph = helper.make_graph(list(nodes), "main", [info], [result], tensors)
    opsets = [helper.make_opsetid(domain, 18 if not domain else 1) for domain in ("", MICROSOFT, NCHWC)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def node(operator: str, inputs: Sequence[str], output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(operator, list(inputs), [output], domain=NCHWC, **attributes)


def run(model: ModelProto, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """The results by the interpreter, whatever is assumed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onnxc.ModelWarning)
        return interpret(lower_model(check_model(read_model(model))), {"x": x})


def size_of(model: ModelProto) -> tuple[int, bool]:
    """The size of the blocks, and whether it is assumed."""
    found = channel_blocks(check_model(read_model(model)).graph)
    return found.size, bool(found.warnings)


def conv(filters: np.ndarray, size: int, **attributes: object) -> ModelProto:
    """One convolution of so many channels, between the two orders; few channels are read in the order of their axes."""
    channels = filters.shape[1] * int(str(attributes.get("group", 1)))
    reads = [] if channels < size else [node("ReorderInput", ["x"], "a")]
    sums = node("Conv", ["a" if reads else "x", "w"], "b", **attributes)
    nodes = [*reads, sums, node("ReorderOutput", ["b"], "y", channels=8)]
    return blocked(nodes, ["n", channels, "h", "w"], {"w": in_blocks(filters, size)})


OWN, _ = size_of(conv(np.zeros((16, 16, 1, 1), np.float32), 16))
"""What is assumed on this processor, where filters may lie in blocks of any size."""


# Whole models, as ONNX Runtime writes them here.

TEXT = """<ir_version: 8, opset_import: ["": 17]>
cnn (float[N, 3, H, W] x) => (float[N, 20] y) {
  a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1, b1)
  r = Relu (a)
  b = Conv <pads = [1, 1, 1, 1], group = 32> (r, w2)
  h = HardSwish (b)
  s = Add (h, r)
  p = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (s)
  c = Conv (p, w3, b3)
  l = LeakyRelu <alpha = 0.1> (c)
  q = AveragePool <kernel_shape = [2, 2], count_include_pad = 1, pads = [1, 1, 0, 0]> (l)
  d = Conv (q, w3b)
  t = Add (d, q)
  u = Concat <axis = 1> (t, q)
  g = GlobalAveragePool (u)
  e = Conv (g, w4, b4)
  y = Flatten (e)
}"""
SHAPES = {
    "w1": (32, 3, 3, 3), "b1": (32,), "w2": (32, 1, 3, 3), "w3": (32, 32, 1, 1), "b3": (32,), "w3b": (32, 32, 1, 1),
    "w4": (20, 64, 1, 1), "b4": (20,),
}  # fmt: skip


def saved(folder: Path) -> ModelProto:
    """The model as it is saved at the highest level."""
    model = onnx.parser.parse_model(TEXT)
    for seed, (name, shape) in enumerate(SHAPES.items()):
        model.graph.initializer.append(numpy_helper.from_array(normal(*shape, seed=seed) / 4, name))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "saved.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "saved.onnx")


@pytest.mark.parametrize("shape", [(1, 3, 12, 12), (2, 3, 9, 5)], ids=str)
def test_a_model_saved_at_the_highest_level(shape: tuple[int, ...], tmp_path: Path) -> None:
    model = saved(tmp_path)
    operators = {each.op_type for each in model.graph.node if each.domain == NCHWC}
    assert operators >= {"Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "ReorderOutput"}
    x = normal(*shape)
    expected = run_theirs(model, {"x": x})
    assert_all_close([onnxc.compile(model)(x)], expected)
    assert_all_close(run(model, x), expected)


@pytest.mark.parametrize(
    "mode", [("nearest", "asymmetric"), *(("linear", each) for each in ("asymmetric", "half_pixel", "align_corners"))]
)
def test_upsample(mode: tuple[str, str]) -> None:
    scales = {"scales": [1, 1, 2, 3], "mode": mode[0], "coordinate_transformation_mode": mode[1]}
    nodes = [node("ReorderInput", ["x"], "a"), node("Upsample", ["a"], "b", **scales)]
    model = blocked([*nodes, node("ReorderOutput", ["b"], "y", channels=16)], [1, 16, 4, 5])
    x = normal(1, 16, 4, 5)
    assert_all_close(run(model, x), run_theirs(model, {"x": x}))


def test_global_max_pool_and_channels_last() -> None:
    nodes = [node("ReorderInput", ["x"], "a", channels_last=1), node("GlobalMaxPool", ["a"], "b")]
    model = blocked([*nodes, node("ReorderOutput", ["b"], "y", channels=12, channels_last=1)], [2, 3, 4, 12])
    x = normal(2, 3, 4, 12)
    assert_all_close(run(model, x), run_theirs(model, {"x": x}))
    assert_all_close(run(model, x), [x.max((1, 2), keepdims=True)])


@pytest.mark.parametrize("name", ["Relu", "HardSwish", "Tanh"])
def test_a_sum_and_an_activation(name: str) -> None:
    w, b = normal(16, 3, 3, 3), normal(16, seed=1)
    nodes = [
        node("Conv", ["x", "w", "b"], "a"),
        node("Conv", ["x", "w", "b", "a"], "c", activation=name),
        node("ReorderOutput", ["c"], "y", channels=16),
    ]
    model = blocked(nodes, [1, 3, 6, 6], {"w": in_blocks(w, OWN), "b": b})
    x = normal(1, 3, 6, 6)
    assert_all_close(run(model, x), run_theirs(model, {"x": x}))


# How large the blocks are.


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize(
    ("shape", "group"), [((32, 4, 1, 1), 1), ((32, 16, 3, 3), 1), ((48, 16, 1, 1), 2), ((32, 1, 3, 3), 32)], ids=str
)
def test_filters_of_both_sizes_of_blocks(shape: tuple[int, ...], group: int, size: int) -> None:
    filters = normal(*shape)
    proof = in_blocks(normal(24, 3, 1, 1), 8) if size == 8 else in_blocks(normal(16, 12, 1, 1), 16)
    model = conv(filters, size, group=group, kernel_shape=shape[2:])
    model.graph.node.append(node("Conv", ["z", "proof"], "unused"))
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, proof.shape[1], 1, 1]))
    model.graph.initializer.append(numpy_helper.from_array(proof, "proof"))
    assert size_of(model) == (size, False)
    x = normal(2, shape[1] * group, 5, 4)
    plain = helper.make_node("Conv", ["x", "w"], ["c"], group=group)
    names = [helper.make_node("Slice", ["c", "zero", "eight", "one"], ["y"])]
    numbers = {name: np.array([value]) for name, value in (("zero", 0), ("eight", 8), ("one", 1))}
    reference = blocked([plain, *names], list(x.shape), {"w": filters, **numbers})
    with warnings.catch_warnings():
        warnings.simplefilter("error", onnxc.ModelWarning)
        module = lower_model(check_model(read_model(model)))
    actual = interpret(module, {"x": x, "z": normal(1, proof.shape[1], 1, 1)})
    assert_all_close(actual, run_theirs(reference, {"x": x}))


def test_channels_that_fill_a_block_prove_its_size() -> None:
    nodes = [node("Conv", ["x", "w"], "a"), node("MaxPool", ["a"], "b", kernel_shape=[1, 1])]
    for channels, expected in ((24, (16, False)), (20, (16, False)), (25, (OWN, True)), (32, (OWN, True))):
        last = node("ReorderOutput", ["b"], "y", channels=channels)
        model = blocked([*nodes, last], [1, 3, 4, 4], {"w": normal(32, 3, 1, 1)})
        assert size_of(model) == expected


def test_a_proof_in_a_branch_counts() -> None:
    model = conv(normal(32, 16, 1, 1), OWN)
    inner = helper.make_graph([node("Conv", ["x", "v"], "t")], "then", [], [helper.make_empty_tensor_value_info("t")])
    other = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["e"])], "else", [], [helper.make_empty_tensor_value_info("e")]
    )
    model.graph.node.append(helper.make_node("If", ["c"], ["u"], then_branch=inner, else_branch=other))
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    model.graph.initializer.append(numpy_helper.from_array(normal(24, 16, 1, 1), "v"))
    assert size_of(model) == (8, False)


def test_an_assumed_size_is_a_warning_and_strictly_an_error() -> None:
    filters = normal(32, 16, 1, 1)
    model = conv(filters, OWN)
    with pytest.warns(onnxc.ModelWarning, match="assumed-channel-blocks"):
        executable = onnxc.compile(model)
    x = normal(2, 16, 3, 3)
    assert_all_close([executable(x)], [np.einsum("nchw,mc->nmhw", x, filters[:8, :, 0, 0])])
    with pytest.raises(onnxc.ModelError, match="assumed-channel-blocks"):
        onnxc.compile(model, strict=True)


def test_weights_that_calls_replace_lie_in_blocks_too() -> None:
    old, new = normal(24, 16, 1, 1), normal(24, 16, 1, 1, seed=1)
    executable = onnxc.compile(conv(old, 8), freeze_params=False)
    x = normal(1, 16, 3, 3)
    swapped = executable.with_weights({"w": in_blocks(new, 8)})
    assert_all_close([swapped(x)], [np.einsum("nchw,mc->nmhw", x, new[:8, :, 0, 0])])


def test_what_fills_no_blocks_is_refused() -> None:
    with pytest.raises(onnxc.ModelError, match="channel-blocks"):
        run(blocked([node("Conv", ["x", "w"], "y")], [1, 3, 4, 4], {"w": normal(20, 3, 1, 1)}), normal(1, 3, 4, 4))
    with pytest.raises(onnxc.ModelError, match="channel-blocks"):
        run(blocked([node("ReorderInput", ["x"], "y")], [4, 8]), normal(4, 8))
    with pytest.raises(onnxc.UnsupportedError, match="spatial axes"):
        run(blocked([node("Conv", ["x", "w"], "y")], [1, 3, 4, 4], {"w": normal(8)}), normal(1, 3, 4, 4))
    nodes = [node("ReorderInput", ["x"], "a"), node("ReorderOutput", ["a"], "y", channels=40)]
    with pytest.raises(onnxc.ModelError, match="channel-blocks"):
        run(blocked(nodes, [1, 16, 4, 4]), normal(1, 16, 4, 4))
