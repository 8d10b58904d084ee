"""Recurrent layers on a device: one launch for all rounds of both directions, whatever the cell and the sizes."""

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxc
from onnxc.compiler.planning.kernel_plan import Loop, Segment
from onnxc.runtime.errors import DeviceError
from tests.support.fake_gpu import FakeRun, compile_for_fake

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
Attributes = Mapping[str, object]


def layer(kind: str, hidden: int, direction: str, extra: tuple[str, ...], attributes: Attributes) -> ModelProto:
    """One layer over x: [L, B, 5]; `extra` are the optional inputs that it has."""
    random, count = np.random.default_rng(hidden), 2 if direction == "bidirectional" else 1
    packed = GATES[kind] * hidden
    shapes = {"W": (count, packed, 5), "R": (count, packed, hidden), "B": (count, 2 * packed), "P": (count, 3 * hidden)}
    weights = [
        numpy_helper.from_array((random.standard_normal(shape) / 3).astype(np.float32), name)
        for name, shape in shapes.items()
        if name != "P" or "P" in extra
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["L", "B", 5])]
    if "lengths" in extra:
        given.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["B"]))
    if "initial" in extra:
        given.append(helper.make_tensor_value_info("initial", TensorProto.FLOAT, [count, "B", hidden]))
    names = ["x", "W", "R", "B", "lengths", "initial", "", "P"]
    inputs = [name if name in ("x", "W", "R", "B", *extra) else "" for name in names]
    while not inputs[-1]:
        inputs.pop()
    results = ["y", "h", "c"][: 3 if kind == "LSTM" else 2]
    node = helper.make_node(kind, inputs, results, hidden_size=hidden, direction=direction, **attributes)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results]
    graph = helper.make_graph([node], "layer", given, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def feed(model: ModelProto, steps: int, batch: int) -> Mapping[str, np.ndarray]:
    """Inputs; of the sequences the first is empty and the others are not all whole."""
    random = np.random.default_rng((steps, batch))
    made: dict[str, np.ndarray] = {}
    for info in model.graph.input:
        sizes = [{"L": steps, "B": batch}.get(dim.dim_param, dim.dim_value) for dim in info.type.tensor_type.shape.dim]
        made[info.name] = random.standard_normal(sizes).astype(np.float32)
        if info.name == "lengths":
            made[info.name] = (np.arange(batch) % (steps + 1)).astype(np.int32)
    return made


def launched(run: FakeRun) -> list[str]:
    return [run.plan.kernels[launch.general.kernel].kind for step in run.plan.body.steps if isinstance(step, Segment)
            for launch in step.launches]  # fmt: skip


CASES: Mapping[str, tuple[ModelProto, tuple[tuple[int, int], ...]]] = {
    "lstm both ways": (layer("LSTM", 20, "bidirectional", (), {}), ((3, 2), (1, 1), (1, 17))),
    "lstm with all": (
        layer("LSTM", 40, "reverse", ("lengths", "initial", "P"), {"clip": 0.4, "input_forget": 1}),
        ((2, 3), (1, 1)),
    ),
    "lstm of other activations": (
        layer(
            "LSTM", 3, "forward", (),
            {"activations": ["HardSigmoid", "Elu", "Softsign"], "activation_alpha": [0.3, 0.7],
             "activation_beta": [0.4]},
        ),
        ((4, 2),),
    ),
    "gru, reset before": (layer("GRU", 33, "bidirectional", ("lengths",), {}), ((2, 3),)),
    "gru, linear before": (layer("GRU", 33, "forward", (), {"linear_before_reset": 1}), ((2, 18),)),
    "rnn of one unit": (layer("RNN", 1, "bidirectional", (), {}), ((4, 2), (0, 2), (2, 0))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_rounds_of_a_layer_are_one_launch(name: str) -> None:
    model, calls = CASES[name]
    run, reference = compile_for_fake(model), onnxc.compile(model, target="interpreter")
    assert [kind for kind in launched(run) if kind == "recurrence"] == ["recurrence"]
    assert all(isinstance(step, Segment) for step in run.plan.body.steps if "Release" not in type(step).__name__)
    assert run.executable.report()["totals"]["transfers"] == 0  # type: ignore[index, call-overload]
    for steps, batch in calls:
        inputs = feed(model, steps, batch)
        expected = reference.run(inputs)
        actual = run.executable.run(inputs)
        run.driver.check()
        for key, value in expected.items():
            np.testing.assert_allclose(actual[key], value, rtol=0, atol=2e-6, err_msg=f"{key}, {steps} x {batch}")


def behind_images() -> ModelProto:
    """A layer whose steps are the columns of an image of three channels, as where text is read."""
    model, random = layer("LSTM", 12, "forward", (), {}), np.random.default_rng(2)
    shapes = {"k": (32, 3, 3, 3), "k_bias": (32,), "W32": (1, 48, 32)}
    made = [
        numpy_helper.from_array((random.standard_normal(shape) / 5).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    model.graph.initializer.extend([*made, numpy_helper.from_array(np.array([2], np.int64), "lines")])
    model.graph.node[0].input[1] = "W32"
    nodes = [
        helper.make_node("Conv", ["image", "k", "k_bias"], ["filtered"], strides=[4, 1], pads=[1, 1, 0, 1]),
        helper.make_node("Squeeze", ["filtered", "lines"], ["columns"]),
        helper.make_node("Transpose", ["columns"], ["x"], perm=[2, 0, 1]),
        *model.graph.node,
    ]
    given = [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["B", 3, 4, "L"])]
    graph = helper.make_graph(nodes, "read", given, model.graph.output, model.graph.initializer)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_layer_behind_what_is_computed_of_constants_has_its_weights_outside(precision: str) -> None:
    """Filters of three channels are filled up when a model is compiled, behind what makes one kernel of all rounds."""
    model = behind_images()
    run, reference = compile_for_fake(model, precision=precision), onnxc.compile(model, target="interpreter")
    assert "recurrence" in launched(run)
    inputs = feed(model, 3, 2)
    actual = run.executable.run(inputs)
    run.driver.check()
    for key, value in reference.run(inputs).items():
        np.testing.assert_allclose(actual[key], value, rtol=0, atol=2e-6 if precision == "fp32" else 5e-2, err_msg=key)


def test_a_batch_that_is_known_to_be_empty_has_states_without_elements() -> None:
    model = layer("LSTM", 8, "forward", (), {})
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 0
    run = compile_for_fake(model)
    actual = run.executable.run({"x": np.zeros((3, 0, 5), np.float32)})
    run.driver.check()
    assert {key: value.shape for key, value in actual.items()} == {"y": (3, 1, 0, 8), "h": (1, 0, 8), "c": (1, 0, 8)}


def test_a_model_of_two_layers_both_ways_takes_at_most_12_launches_in_a_call() -> None:
    merged = two_layers()
    run = compile_for_fake(merged)
    x = feed(merged, 2, 1)
    expected = onnxc.compile(merged, target="interpreter").run(x)
    actual = run.executable.run(x)
    run.driver.check()
    np.testing.assert_allclose(actual["z"], expected["z"], rtol=0, atol=2e-6)
    assert len(run.driver.launches) <= 12
    cooperative = [launch for launch in run.driver.launches if launch.kernel.cooperative]
    assert [launch.grid for launch in cooperative] == [(6, 1, 1)] * 2


def two_layers() -> ModelProto:
    """The second layer reads what both directions of the first give, side by side."""
    model = layer("LSTM", 36, "bidirectional", (), {})
    width = numpy_helper.from_array(np.array([0, 0, 72], np.int64), "width")
    random = np.random.default_rng(1)
    weights = [numpy_helper.to_array(weight) for weight in model.graph.initializer]
    weights[0] = (random.standard_normal((2, 144, 72)) / 8).astype(np.float32)
    model.graph.initializer.extend([width, *map(numpy_helper.from_array, weights, ("W2", "R2", "B2"))])
    model.graph.node.extend([
        helper.make_node("Transpose", ["y"], ["t"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["t", "width"], ["x2"]),
        helper.make_node("LSTM", ["x2", "W2", "R2", "B2"], ["z"], hidden_size=36, direction="bidirectional"),
    ])  # fmt: skip
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    return model


def test_a_device_without_room_for_all_programs_refuses_them() -> None:
    model = layer("RNN", 40, "forward", (), {})
    run = compile_for_fake(model)
    run.driver.multiprocessors = 2
    with pytest.raises(DeviceError) as error:
        run.executable.run(feed(model, 2, 1))
    assert error.value.code == "launch-resources"


def test_low_precision_loses_no_more_than_its_rounding() -> None:
    model = layer("LSTM", 20, "bidirectional", (), {})
    inputs = feed(model, 5, 3)
    expected = onnxc.compile(model, target="interpreter").run(inputs)["y"]
    run = compile_for_fake(model, precision="bf16")
    # bf16 has 8 bits; the states of five rounds are rounded one after another.
    np.testing.assert_allclose(run.executable.run(inputs)["y"], expected, rtol=0, atol=2e-2)


def test_cells_of_more_units_than_a_card_holds_programs_for_stay_loops() -> None:
    run = compile_for_fake(layer("RNN", 2049, "forward", (), {}))
    assert any(isinstance(step, Loop) for step in run.plan.body.steps)
    assert run.executable.report()["host_steps"]  # type: ignore[index, call-overload]
