"""Pipeline stages on cpu:N: the bits of the undivided model, with the weights of its stage on each device alone."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

import onnxc
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.read import read_model
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.sharding.microbatches import Batch, find_batch
from onnxc.runtime.errors import InputError, OnnxcError, UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.program import JsonValue
from tests.ir.cases import CASES, Case
from tests.sharding.annotated import (
    CONFIG,
    SIZES_OF_BOTH,
    annotate,
    counting_stages,
    graph_model,
    picking_stages,
    set_stage,
)
from tests.sharding.test_devices import told, weight, whole
from tests.support.arrays import assert_close

node = helper.make_node


def mlp(layers: int = 2, width: int = 64, devices: int = 2) -> ModelProto:
    """Layers of one matrix of `width` squared f32 each; layer k is of stage k."""
    nodes = []
    for k in range(layers):
        nodes += [node("MatMul", [f"x{k}", f"w{k}"], [f"a{k}"]), node("Relu", [f"a{k}"], [f"x{k + 1}"])]
    constants = {f"w{k}": weight(width, width) for k in range(layers)}
    model = graph_model(nodes, {"x0": ["N", width]}, {f"x{layers}": ["N", width]}, constants, devices)
    for k in range(layers):
        set_stage(model.graph.node[2 * k], k)
    return model


def expect_same_bits(model: ModelProto, *inputs: np.ndarray, **options: int) -> Executable:
    exe = onnxc.compile(model, config=CONFIG, microbatches=options.get("microbatches"))
    np.testing.assert_array_equal(np.asarray(exe(*inputs)), np.asarray(whole(model)(*inputs)), strict=True)
    return exe


def segments(exe: Executable) -> Sequence[Mapping[str, JsonValue]]:
    listed = told(exe)["segments"]
    assert isinstance(listed, list)
    return [each for each in listed if isinstance(each, dict)]


def exchanges(segment: Mapping[str, JsonValue]) -> list[tuple[JsonValue, JsonValue, JsonValue]]:
    listed = segment["collectives"]
    assert isinstance(listed, list)
    return [(each["op"], each["groups"], each["bytes"]) for each in listed if isinstance(each, dict)]


def transfers(exe: Executable) -> list[tuple[JsonValue, JsonValue, JsonValue]]:
    listed = told(exe)["transfers"]
    assert isinstance(listed, list)
    return [(each["from"], each["to"], each["bytes"]) for each in listed if isinstance(each, dict)]


# Stages


@pytest.mark.parametrize("stages", [2, 4])
def test_each_stage_holds_its_weights_and_sends_one_value_on(stages: int) -> None:
    exe = expect_same_bits(mlp(stages, devices=stages), weight(5, 64))
    assert told(exe)["held_bytes"] == [64 * 64 * 4] * stages
    assert transfers(exe) == [(k, k + 1, "256*N") for k in range(stages - 1)]
    assert [each["devices"] for each in segments(exe)] == [[k] for k in range(stages)]
    assert str(exe) == f"<Executable (x0: f32[N, 64]) -> (x{stages}: f32[N, 64])>"


def transformer(devices: int) -> ModelProto:
    """A block of attention and a block of two layers, normed; 4 heads of 4."""
    nodes = [
        node("LayerNormalization", ["x", "g1"], ["n"]),
        *(node("MatMul", ["n", f"w{name}"], [name]) for name in "qkv"),
        *(node("Reshape", [name, "split"], [f"{name}s"]) for name in "qkv"),
        node("Transpose", ["qs"], ["qh"], perm=[0, 2, 1, 3]),
        node("Transpose", ["ks"], ["kh"], perm=[0, 2, 3, 1]),
        node("Transpose", ["vs"], ["vh"], perm=[0, 2, 1, 3]),
        node("MatMul", ["qh", "kh"], ["scores"]),
        node("Softmax", ["scores"], ["p"], axis=-1),
        node("MatMul", ["p", "vh"], ["o"]),
        node("Transpose", ["o"], ["oh"], perm=[0, 2, 1, 3]),
        node("Reshape", ["oh", "join"], ["flat"]),
        node("MatMul", ["flat", "wo"], ["projected"]),
        node("Add", ["projected", "x"], ["attended"]),
        node("LayerNormalization", ["attended", "g2"], ["m"]),
        node("MatMul", ["m", "w1"], ["h"]),
        node("Gelu", ["h"], ["g"]),
        node("MatMul", ["g", "w2"], ["f"]),
        node("Add", ["f", "attended"], ["y"]),
    ]
    constants = {f"w{name}": weight(16, 16) for name in "qkvo"} | {"w1": weight(16, 64), "w2": weight(64, 16)}
    constants |= {"g1": weight(16), "g2": weight(16), "split": np.array([0, 0, 4, 4]), "join": np.array([0, 0, 16])}
    return graph_model(nodes, {"x": ["B", "S", 16]}, {"y": ["B", "S", 16]}, constants, devices)


def node_of(model: ModelProto, output: str) -> onnx.NodeProto:
    return next(each for each in model.graph.node if output in each.output)


@pytest.mark.parametrize("starts", [("n", "m"), ("n", "projected", "h", "f")])
def test_a_transformer_in_stages_gives_the_same_bits(starts: Sequence[str]) -> None:
    model = transformer(len(starts))
    for stage, name in enumerate(starts):
        set_stage(node_of(model, name), stage)
    exe = expect_same_bits(model, weight(3, 5, 16))
    assert [each["stage"] for each in segments(exe)] == list(range(len(starts)))
    assert told(exe)["batch"] == "B"


def test_heads_and_columns_are_divided_inside_of_stages() -> None:
    """Two stages of two devices: one all_reduce in each, and each device sends what it has to its counterpart."""
    model = transformer(4)
    for name in "qkv":
        annotate(node_of(model, name), f"w{name}", {1: 2}, (0, 1))
    annotate(node_of(model, "projected"), "wo", {0: 2}, (0, 1))
    annotate(node_of(model, "h"), "w1", {1: 2}, (2, 3))
    annotate(node_of(model, "f"), "w2", {0: 2}, (2, 3))
    set_stage(node_of(model, "n"), 0)
    set_stage(node_of(model, "m"), 1)
    for name in ("q", "k", "v", "projected"):
        set_stage(node_of(model, name), 0)
    for name in ("h", "f"):
        set_stage(node_of(model, name), 1)
    exe, x = onnxc.compile(model, config=CONFIG, devices="cpu:4", dims={"S": 5, "B": (1, None)}), weight(3, 5, 16)
    assert_close(np.asarray(exe(x)), np.asarray(whole(model)(x)), terms=64, magnitude=8.0)
    assert [(each["mesh"], each["devices"]) for each in segments(exe)] == [("d0=2", [0, 1]), ("d0=2", [2, 3])]
    assert [each["share_bytes"] for each in segments(exe)] == [[4 * 16 * 16 * 2] * 2, [2 * 16 * 64 * 2] * 2]
    reduced = [("all_reduce", "((0, 1),)", "320*B"), ("all_reduce", "((2, 3),)", "320*B")]
    assert [exchange for each in segments(exe) for exchange in exchanges(each)] == reduced
    assert transfers(exe) == [(0, 1, "320*B")]


def test_what_is_divided_alike_on_both_sides_is_sent_divided() -> None:
    model = mlp(devices=4)
    annotate(model.graph.node[0], "w0", {1: 2}, (0, 1))
    annotate(model.graph.node[2], "w1", {0: 2}, (2, 3))
    exe, x = onnxc.compile(model, config=CONFIG), weight(5, 64)
    assert_close(np.asarray(exe(x)), np.asarray(whole(model)(x)), terms=64, magnitude=8.0)
    assert transfers(exe) == [(0, 1, "128*N")]
    assert [len(exchanges(each)) for each in segments(exe)] == [0, 1]


def test_stages_may_have_unequal_numbers_of_devices() -> None:
    model = mlp(devices=3)
    annotate(model.graph.node[0], "x0", {}, (1,))
    annotate(model.graph.node[2], "w1", {1: 2}, (0, 2))
    exe = expect_same_bits(model, weight(5, 64))
    assert [each["devices"] for each in segments(exe)] == [[1], [0, 2]]
    assert [each["share_bytes"] for each in segments(exe)] == [[0], [64 * 32 * 4] * 2]


def test_a_node_without_a_stage_is_of_the_latest_that_it_reads_from() -> None:
    model = mlp()
    model.graph.node.append(node("Add", ["x2", "x1"], ["y"]))
    model.graph.output[0].name = "y"
    exe = expect_same_bits(model, weight(5, 64))
    assert transfers(exe) == [(0, 1, "256*N")]
    assert [each["stage"] for each in segments(exe)] == [0, 1]


def test_inputs_and_constants_are_read_wherever_they_are_wanted() -> None:
    """The input of the model and the weights of the first layer are read by the second stage, too: nothing is sent."""
    model = mlp()
    model.graph.node[2].input[:] = ["x0", "w0"]
    model.graph.node.append(node("Sub", ["x2", "x1"], ["y"]))
    model.graph.output[0].name = "y"
    exe = expect_same_bits(model, weight(5, 64))
    assert transfers(exe) == [(0, 1, "256*N")]
    assert told(exe)["held_bytes"] == [64 * 64 * 4] * 2


def test_an_output_of_an_early_stage_is_there_as_those_of_later_ones() -> None:
    model = mlp()
    model.graph.output.insert(0, helper.make_tensor_value_info("x1", 1, ["N", 64]))
    exe, alone, x = onnxc.compile(model, config=CONFIG), whole(model), weight(5, 64)
    for made, expected in zip(exe(x), alone(x), strict=True):
        np.testing.assert_array_equal(np.asarray(made), np.asarray(expected))
    assert [info.name for info in exe.outputs] == ["x1", "x2"]


def test_a_stage_that_gives_a_value_back_is_followed_by_another_segment() -> None:
    model = mlp(3)
    set_stage(model.graph.node[4], 0)
    exe = expect_same_bits(model, weight(5, 64))
    assert [each["stage"] for each in segments(exe)] == [0, 1, 0]
    assert transfers(exe) == [(0, 1, "256*N"), (1, 0, "256*N")]
    assert [finding.code for finding in check_model(read_model(model)).warnings] == ["pipeline-order"]


@pytest.mark.parametrize("operator", ["If", "Loop"])
def test_bodies_are_of_the_stage_of_their_node(operator: str) -> None:
    """The weights that a body reads are on its stage alone, and so is what it takes from outside."""
    model = mlp()
    product, relu = model.graph.node[2:]
    if operator == "If":
        out = [helper.make_tensor_value_info("b", 1, ["N", 64])]
        branches = [helper.make_graph([each], "b", [], out) for each in
                    (node("MatMul", ["x1", "w1"], ["b"]), node("Neg", ["x1"], ["b"]))]  # fmt: skip
        product.CopyFrom(node("If", ["yes"], ["a1"], then_branch=branches[0], else_branch=branches[1]))
        model.graph.input.append(helper.make_tensor_value_info("yes", 9, []))
    else:
        values = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in
                  (("i", 7, []), ("go", 9, []), ("p", 1, ["N", 64]), ("on", 9, []), ("q", 1, ["N", 64]))]  # fmt: skip
        inner = [node("Identity", ["go"], ["on"]), node("MatMul", ["p", "w1"], ["r"]), node("Add", ["r", "x1"], ["q"])]
        body = helper.make_graph(inner, "body", values[:3], values[3:])
        product.CopyFrom(node("Loop", ["count", "", "x1"], ["a1"], body=body))
        model.graph.input.append(helper.make_tensor_value_info("count", 7, []))
    set_stage(product, 1)
    set_stage(relu, 1)
    given = np.array(True) if operator == "If" else np.array(2)
    exe = expect_same_bits(model, weight(5, 64), given)
    assert transfers(exe) == [(0, 1, "256*N")]
    # Beside the matrix of its layer a loop holds a few numbers.
    assert [int(str(held)) // (64 * 64 * 4) for held in np.asarray(told(exe)["held_bytes"])] == [1, 1]


def test_a_size_that_data_decides_is_read_from_what_is_sent() -> None:
    nodes = [node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["f"], to=1), node("Neg", ["f"], ["y"])]
    model = graph_model(nodes, {"x": ["N"]}, {"y": [1, "K"]}, {}, 2)
    set_stage(model.graph.node[0], 0)
    set_stage(model.graph.node[2], 1)
    exe = expect_same_bits(model, np.array([0, 3, 0, 4, 5], np.float32))
    assert [each["stage"] for each in segments(exe)] == [0, 1]


@pytest.mark.parametrize("kind", SIZES_OF_BOTH)
def test_sizes_that_no_axis_of_what_is_sent_has_are_sent_beside_it(kind: str) -> None:
    """They cost no bytes; the last stage needs one of them alone, and the first was two stages before."""
    x, z = np.array([0, 3, 0, 4, 5], np.float32), np.array([1, 2, 3, 0, 0], np.float32)
    exe = expect_same_bits(counting_stages(kind), x, z)
    empty = [(source, target) for source, target, count in transfers(exe) if count == 0]
    assert empty == [(0, 1), (0, 1), (0, 2), (0, 2)]


def test_a_size_that_draws_decide_is_found_in_one_stage() -> None:
    nodes = [
        node("RandomUniform", [], ["r"], shape=[9]),
        node("NonZero", ["r"], ["i"]),
        node("Cast", ["i"], ["f"], to=1),
        node("Concat", ["f", "f"], ["s"], axis=1),
        node("Mul", ["s", "x"], ["y"]),
    ]
    model = graph_model(nodes, {"x": [1]}, {"y": [1, "K"]}, {}, 2)
    for ordinal, each in enumerate(model.graph.node):
        set_stage(each, int(ordinal == 4))
    exe = onnxc.compile(model, config=CONFIG)
    np.testing.assert_array_equal(np.asarray(exe(np.array([2], np.float32))), [2.0 * np.tile(np.arange(9), 2)])
    assert transfers(exe) == [(0, 1, "8*nonzero"), (0, 1, 0)]


# Parts of a call


@pytest.mark.parametrize("microbatches", [1, 2, 3, 8])
def test_a_call_goes_through_in_parts(microbatches: int) -> None:
    model = mlp()
    exe = expect_same_bits(model, weight(5, 64), microbatches=microbatches)
    # Two calls of one launch for each part, and no part is empty.
    assert exe.stats.launches == 2 * min(microbatches, 5)
    assert exe.stats.calls == 1


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_there_are_as_many_parts_as_stages_where_rows_suffice(rows: int) -> None:
    exe = expect_same_bits(mlp(4, devices=4), weight(rows, 64))
    assert told(exe)["microbatches"] == 4
    assert exe.stats.launches == 4 * max(rows, 1)


def test_parts_have_as_many_rows_as_the_model_asks_for() -> None:
    exe = onnxc.compile(mlp(), config=CONFIG, dims={"N": (4, None)}, microbatches=4)
    assert np.asarray(exe(weight(9, 64))).shape == (9, 64)
    assert exe.stats.launches == 2 * 2


MIXING: Mapping[str, tuple[Sequence[onnx.NodeProto], str]] = {
    "a softmax over rows": ([node("Softmax", ["x2"], ["y"], axis=0)], "softmax"),
    "a maximum over rows": ([node("ReduceMax", ["x2", "first"], ["m"]), node("Sub", ["x2", "m"], ["y"])], "reduce"),
    "rows in running order": ([node("CumSum", ["x2", "zero"], ["y"])], "may mix"),
    "a row that a constant picks": (
        [node("Gather", ["x2", "first"], ["r"]), node("Sub", ["x2", "r"], ["y"])],
        "gather",
    ),
    "how many rows there are": (
        [node("Shape", ["x2"], ["s"], end=1), node("Cast", ["s"], ["f"], to=1), node("Div", ["x2", "f"], ["y"])],
        "may mix",
    ),
    "random numbers": ([node("RandomNormalLike", ["x2"], ["r"], seed=1.0), node("Add", ["x2", "r"], ["y"])], "random"),
}


@pytest.mark.parametrize("name", MIXING)
def test_rows_that_are_mixed_go_through_together(name: str) -> None:
    model = mlp()
    nodes, reason = MIXING[name]
    model.graph.node.extend(nodes)
    model.graph.output[0].name = "y"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "first"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0), "zero"))
    exe = expect_same_bits(model, weight(5, 64))
    assert told(exe)["microbatches"] == 1
    with pytest.raises(UnsupportedError, match=reason) as refused:
        onnxc.compile(model, config=CONFIG, microbatches=2)
    assert refused.value.code == "unsupported-microbatches"


def module_of(case: Case) -> Module:
    op, build = case.op(), Builder()
    symbols = dict.fromkeys(sorted({name for sizes in case.sizes() for name in sizes}), (0, None))
    # A size that no operand has comes with this one.
    extent = build.parameter("extent", TensorType(BOOL, tuple(map(Size.symbol, symbols))))
    made = build.op(op.name, op.operands, op.attributes)
    body = build.block([*op.operands, extent], made)
    return Module("m", (Function("main", body, tuple(f"y{k}" for k in range(len(made))), symbols),))


@pytest.mark.parametrize("name", [name for name in CASES if not CASES[name][0].devices > 1])
def test_what_is_proven_to_be_independent_is(name: str) -> None:
    """Of each primitive: parts computed by themselves and joined are the whole."""
    for case in CASES[name]:
        module = module_of(case)
        batch = find_batch(module.main)
        if isinstance(batch, Batch):
            sizes = {**list(case.sizes())[-1], batch.symbol: 5}
            arrays = [*case.arrays(sizes), np.empty([sizes[name] for name in module.main.symbols], bool)]
            names = [parameter.producer.name for parameter in module.main.body.parameters]
            expect_joined(module, batch, dict(zip(names, arrays, strict=True)))


def expect_joined(module: Module, batch: Batch, inputs: Mapping[str, np.ndarray]) -> None:
    parts = []
    for rows in (slice(0, 2), slice(2, 5)):
        cuts = [() if axis is None else (*(slice(None),) * axis, rows) for axis in batch.inputs]
        parts.append(
            interpret(module, {name: np.asarray(inputs[name][cut]) for name, cut in zip(inputs, cuts, strict=True)})
        )
    results = zip(zip(*parts, strict=True), interpret(module, inputs), batch.outputs, strict=True)
    for made, expected, axis in results:
        assert axis is not None
        np.testing.assert_array_equal(np.concatenate(list(map(np.asarray, made)), axis), np.asarray(expected))


# Errors


def test_an_error_in_a_stage_names_its_device_and_ends_the_others() -> None:
    model = picking_stages()
    exe = onnxc.compile(model, config=CONFIG)
    with pytest.raises(InputError, match=r"index 9 is outside(.|\n)*on device 1"):
        exe(weight(3, 4), np.array([0, 9]))
    assert np.asarray(exe(weight(3, 4), np.array([0, 2]))).shape == (2, 4)


REFUSED: Mapping[str, tuple[type[OnnxcError], str, dict[str, int]]] = {
    "more stages than devices": (UnsupportedError, "unsupported-pipeline", {"devices": 1}),
    "devices that another stage names": (UnsupportedError, "unsupported-pipeline", {"named": 1}),
    "no parts": (InputError, "microbatch-count", {"microbatches": 0}),
    "parts of one stage": (InputError, "microbatches-without-stages", {"microbatches": 2, "layers": 1}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_executed_is_named(name: str) -> None:
    kind, code, edit = REFUSED[name]
    model = mlp(edit.get("layers", 2), devices=edit.get("devices", 2))
    if "named" in edit:
        annotate(model.graph.node[0], "x0", {}, (1,))
    with pytest.raises(kind) as refused:
        onnxc.compile(model, config=CONFIG, microbatches=edit.get("microbatches"))
    assert refused.value.code == code


def test_bodies_of_several_stages_are_refused() -> None:
    model = mlp()
    out = [helper.make_tensor_value_info("b", 1, ["N", 64])]
    branches = [helper.make_graph([node(name, ["x2"], ["b"])], "b", [], out) for name in ("Neg", "Abs")]
    for stage, branch in enumerate(branches):
        set_stage(branch.node[0], stage)
    model.graph.node.append(node("If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1]))
    model.graph.input.append(helper.make_tensor_value_info("yes", 9, []))
    model.graph.output[0].name = "y"
    with pytest.raises(UnsupportedError, match="stages 0, 1, and run on one"):
        onnxc.compile(model, config=CONFIG)


def test_microbatches_ask_for_a_configuration() -> None:
    with pytest.raises(InputError, match="config says which") as refused:
        onnxc.compile(mlp(1, devices=1), microbatches=2)
    assert refused.value.code == "microbatches-without-stages"
