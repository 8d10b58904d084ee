"""Results left divided: what each device holds of an output, and which elements of the whole that is."""

import asyncio
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import ModelProto, helper

import onnxc
from onnxc.command_line.main import main
from onnxc.runtime.artifact import write_artifact
from onnxc.runtime.devices.shards import Shard, Shards
from onnxc.runtime.errors import DeviceError, InputError, OnnxcError, UnsupportedError
from onnxc.runtime.load import read_artifact
from onnxc.serving.model_config import Configuration
from onnxc.serving.served_model import ServingLimits, WireTensor, open_version
from tests.sharding.annotated import CONFIG, annotate, graph_model, set_stage

FOUR = (0, 1, 2, 3)
PAIRS = {-1: (0, 1), -2: (2, 3)}

Ends = list[tuple[tuple[int, int], ...]]


def relu(
    division: Mapping[int, int], devices: tuple[int, ...] = FOUR, groups: Mapping[int, tuple[int, ...]] | None = None
) -> ModelProto:
    model = graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["N", 6]}, {"y": ["N", 6]}, {}, 4)
    annotate(model.graph.node[0], "y", division, devices, groups)
    return model


def ends(made: Shards) -> Ends:
    """Where the block of each device begins and ends along each axis."""
    return [tuple((each.start, each.stop) for each in shard.index) for shard in made.shards]


LAYOUTS: dict[str, tuple[ModelProto, int, Ends]] = {
    "uneven rows": (relu({0: 4}), 5, [((0, 2), (0, 6)), ((2, 4), (0, 6)), ((4, 5), (0, 6)), ((5, 5), (0, 6))]),
    "no rows": (relu({0: 4}), 0, [((0, 0), (0, 6))] * 4),
    "columns": (relu({1: 4}), 3, [((0, 3), (0, 2)), ((0, 3), (2, 4)), ((0, 3), (4, 6)), ((0, 3), (6, 6))]),
    "both": (relu({0: 2, 1: 2}), 3, [((0, 2), (0, 3)), ((0, 2), (3, 6)), ((2, 3), (0, 3)), ((2, 3), (3, 6))]),
    "copies": (relu({0: 2}, (-1, -2), PAIRS), 3, [((0, 2), (0, 6))] * 2 + [((2, 3), (0, 6))] * 2),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_device_holds_its_block_of_an_output(name: str) -> None:
    model, rows, expected = LAYOUTS[name]
    x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 6)
    exe = onnxc.compile(model, config=CONFIG, outputs="local")
    made = exe(x)
    assert isinstance(made, Shards)
    assert ends(made) == expected
    assert [shard.device for shard in made.shards] == list(FOUR)
    for shard in made.shards:
        np.testing.assert_array_equal(shard.data, x[shard.index], strict=True)
    np.testing.assert_array_equal(made.whole(), x, strict=True)
    assert str(exe) == "<Executable (x: f32[N, 6]) -> (y: f32[N, 6])>"
    assert repr(made) == f"<Shards of f32[{rows}, 6] on 4 devices>"
    report = exe.report()
    assert isinstance(report, Mapping)
    assert isinstance(report["devices"], Mapping)
    assert report["devices"]["collectives"] == []


def test_what_is_not_divided_or_sized_by_data_is_an_array() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("NonZero", ["y"], ["i"]),
             helper.make_node("Cast", ["i"], ["z"], to=1), helper.make_node("Relu", ["z"], ["r"])]  # fmt: skip
    model = graph_model(nodes, {"x": ["N", 6]}, {"y": ["N", 6], "z": [2, "K"], "r": [2, "K"]}, {}, 4)
    annotate(model.graph.node[0], "y", {0: 4}, FOUR)
    annotate(model.graph.node[3], "r", {1: 4}, FOUR)
    y, z, r = onnxc.compile(model, config=CONFIG, outputs="local")(np.eye(5, 6, dtype=np.float32))
    assert isinstance(y, Shards)
    np.testing.assert_array_equal(np.asarray(z), np.stack([np.arange(5.0, dtype=np.float32)] * 2), strict=True)
    np.testing.assert_array_equal(np.asarray(r), np.asarray(z), strict=True)


def test_a_file_keeps_outputs_divided_and_commands_and_servers_put_them_together(tmp_path: Path) -> None:
    exe, x = onnxc.compile(relu({0: 4}), config=CONFIG, outputs="local"), np.ones((5, 6), np.float32)
    exe.save(tmp_path / "a.onnxc")
    for again in (onnxc.load(tmp_path / "a.onnxc", devices="cpu:4"), pickle.loads(pickle.dumps(exe))):
        made = again(x)
        assert isinstance(made, Shards)
        assert ends(made) == LAYOUTS["uneven rows"][2]
    np.save(tmp_path / "x.npy", x)
    asked = ["run", str(tmp_path / "a.onnxc"), "--input", f"x=@{tmp_path / 'x.npy'}", "-o", str(tmp_path / "y.npz")]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], x)
    served = open_version("a", 1, tmp_path / "a.onnxc", Configuration(), ServingLimits())
    np.testing.assert_array_equal(asyncio.run(served.infer({"x": WireTensor("FP32", x)}))["y"], x)


@pytest.mark.parametrize(
    "edit",
    [
        {"blocks": ((0, 1, 2, 4), (0, 0, 0, 0))},
        {"blocks": ((0, 1, 2), (0, 0, 0))},
        {"counts": (0, 1)},
        {"counts": (4,)},
        {"shape": ("s[7]", "6")},
        {"shape": ("print()", "6")},
        {"dtype": "f64"},
    ],
)
def test_a_file_that_divides_outputs_otherwise_is_damaged(edit: Mapping[str, object], tmp_path: Path) -> None:
    onnxc.compile(relu({0: 4}), config=CONFIG, outputs="local").save(tmp_path / "a")
    made = read_artifact(tmp_path / "a")
    assert made.division is not None
    (output,) = made.division.outputs
    assert output is not None
    wrong = replace(output, **edit)  # type: ignore[arg-type]
    write_artifact(replace(made, division=replace(made.division, outputs=(wrong,))), tmp_path / "b")
    with pytest.raises(DeviceError, match="output 'y' is not divided so over 4 devices") as refused:
        onnxc.load(tmp_path / "b")
    assert refused.value.code == "artifact-malformed"


def test_shards_are_not_written_into_an_array() -> None:
    exe, x = onnxc.compile(relu({0: 4}), config=CONFIG, outputs="local"), np.ones((4, 6), np.float32)
    with pytest.raises(InputError, match="the output is a Shards") as refused:
        exe.run({"x": x}, out={"y": np.empty((4, 6), np.float32)})
    assert refused.value.code == "output-shape"


@pytest.mark.parametrize("name", LAYOUTS)
def test_shards_are_inputs_of_calls_however_they_are_divided(name: str) -> None:
    model, rows, _ = LAYOUTS[name]
    exe = onnxc.compile(model, config=CONFIG, outputs="local")
    x = np.arange(rows * 6, dtype=np.float32).reshape(rows, 6)
    made = exe(x)
    for taking in (exe, onnxc.compile(relu({1: 4}), config=CONFIG), onnxc.compile(plain())):
        again = taking(made)
        np.testing.assert_array_equal(again.whole() if isinstance(again, Shards) else again, x, strict=True)
    np.testing.assert_array_equal(np.asarray(made), x, strict=True)
    np.testing.assert_array_equal(np.asarray(made, np.float64), x.astype(np.float64), strict=True)


def test_a_loop_of_calls_keeps_its_state_as_shards() -> None:
    nodes = [helper.make_node("Add", ["s", "x"], ["t"])]
    model = graph_model(nodes, {"s": ["N", 6], "x": [6]}, {"t": ["N", 6]}, {}, 4)
    annotate(model.graph.node[0], "t", {0: 4}, FOUR)
    exe = onnxc.compile(model, config=CONFIG, outputs="local")
    state: object = np.zeros((5, 6), np.float32)
    for step in range(3):
        state = exe(state, np.full(6, step, np.float32))
    assert isinstance(state, Shards)
    np.testing.assert_array_equal(state.whole(), np.full((5, 6), 3, np.float32), strict=True)


def plain() -> ModelProto:
    return graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["N", 6]}, {"y": ["N", 6]}, {}, 1)


def test_shards_that_an_input_cannot_be_are_refused() -> None:
    exe = onnxc.compile(relu({0: 4}), config=CONFIG, outputs="local")
    made = exe(np.ones((4, 6), np.float32))
    assert isinstance(made, Shards)
    refused = {
        "input-dtype": replace(made, dtype=np.dtype(np.float64)),
        "input-rank": Shards((), np.dtype(np.float32), (Shard(0, (), np.ones((), np.float32)),)),
        "input-shape": onnxc.compile(narrow(), config=CONFIG, outputs="local")(np.ones((4, 5), np.float32)),
        "shards-elsewhere": replace(made, shards=made.shards[:3]),
    }
    for code, shards in refused.items():
        with pytest.raises(InputError) as problem:
            exe(shards)
        assert problem.value.code == code
    with pytest.raises(ValueError, match="in several arrays"):
        np.array(made, copy=False)


def narrow() -> ModelProto:
    model = graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [4, 5]}, {"y": [4, 5]}, {}, 4)
    annotate(model.graph.node[0], "y", {0: 4}, FOUR)
    return model


def staged() -> ModelProto:
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Neg", ["h"], ["y"])]
    model = graph_model(nodes, {"x": ["N", 6]}, {"y": ["N", 6]}, {}, 2)
    for stage, each in enumerate(model.graph.node):
        set_stage(each, stage)
    return model


REFUSED: dict[str, tuple[str, type[OnnxcError], ModelProto, dict[str, object]]] = {
    "a word": ("unknown-outputs", InputError, relu({}), {"config": CONFIG, "outputs": "sharded"}),
    "no text": ("option-type", InputError, relu({}), {"config": CONFIG, "outputs": None}),
    "one device": ("outputs-without-config", InputError, relu({}), {"outputs": "local"}),
    "stages": ("unsupported-outputs", UnsupportedError, staged(), {"config": CONFIG, "outputs": "local"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_left_divided_is_refused(name: str) -> None:
    code, kind, model, options = REFUSED[name]
    with pytest.raises(kind) as refused:
        onnxc.compile(model, **options)  # type: ignore[arg-type]
    assert refused.value.code == code
