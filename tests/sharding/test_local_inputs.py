"""Inputs of divided programs: what each device reads of arrays, and shards that go to their devices as they are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxc
from onnxc.runtime.artifact import write_artifact
from onnxc.runtime.devices.division import Division
from onnxc.runtime.devices.local_inputs import is_laid_out, local_inputs
from onnxc.runtime.devices.shards import Shards
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import read_artifact
from onnxc.runtime.program import Program
from tests.sharding.annotated import CONFIG, annotate, graph_model
from tests.sharding.test_local_outputs import FOUR, LAYOUTS, relu

node = helper.make_node


def compiled(model: ModelProto, folder: Path, **options: object) -> tuple[Executable, Program, Division]:
    """The executable, and what its file says."""
    exe = onnxc.compile(model, config=CONFIG, outputs="local", **options)  # type: ignore[arg-type]
    exe.save(folder / "a.onnxc")
    made = read_artifact(folder / "a.onnxc")
    assert made.division is not None
    return exe, made.program, made.division


def counter(rows: int = 4) -> ModelProto:
    """A state that is divided, to which each call adds what is whole."""
    model = graph_model([node("Add", ["s", "x"], ["t"])], {"s": ["N", 6], "x": [6]}, {"t": ["N", 6]}, {}, rows)
    annotate(model.graph.node[0], "t", {0: rows}, range(rows))
    return model


@pytest.fixture(scope="module")
def counting() -> Executable:
    return onnxc.compile(counter(), config=CONFIG, outputs="local")


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def local_texts(program: Program, division: Division) -> list[str]:
    return [each.text for each in program.inputs[: division.inputs_of_caller(program)]]


def test_the_program_of_a_device_reads_its_block_and_calls_pass_the_whole(tmp_path: Path) -> None:
    exe, program, division = compiled(counter(), tmp_path)
    assert local_texts(program, division) == ["f32[floordiv(N + 3, 4), 6]", "f32[6]"]
    assert [layout is None for layout in division.inputs] == [False, True]
    report = exe.report()
    assert isinstance(report, Mapping)
    assert isinstance(report["devices"], Mapping)
    assert report["devices"]["inputs"] == {"s": "[{d0}, {}]"}
    assert str(exe) == "<Executable (s: f32[N, 6], x: f32[6]) -> (t: f32[N, 6])>"
    made = exe(numbers(5, 6), numbers(6))
    assert isinstance(made, Shards)
    np.testing.assert_array_equal(made.whole(), numbers(5, 6) + numbers(6), strict=True)


@pytest.mark.parametrize("name", LAYOUTS)
def test_shards_as_the_program_reads_them_go_to_their_devices_untouched(name: str, tmp_path: Path) -> None:
    model, rows, _ = LAYOUTS[name]
    exe, _, division = compiled(model, tmp_path)
    made = exe(numbers(rows, 6))
    assert isinstance(made, Shards)
    (layout,) = division.inputs
    assert layout is not None
    assert is_laid_out(made, layout, FOUR)
    room = layout.room(made.shape)
    for shard in made.shards:
        (given,) = local_inputs(division.inputs, (made,), shard.device)
        assert isinstance(given, np.ndarray)
        assert given.shape == room
        assert (given is shard.data) == (shard.data.shape == room)
        inside = tuple(slice(size) for size in shard.data.shape)
        np.testing.assert_array_equal(given[inside], shard.data, strict=True)
        assert np.count_nonzero(given) == np.count_nonzero(shard.data)
        (again,) = local_inputs(division.inputs, (made.whole(),), shard.device)
        assert isinstance(again, np.ndarray)
        assert given.tobytes() == again.tobytes()


def test_a_state_is_never_put_together_in_a_loop_of_calls(
    counting: Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = counting(numbers(5, 6), numbers(6))
    with monkeypatch.context() as patched:
        patched.setattr(Shards, "whole", None)
        patched.setattr(Shards, "__array__", None)
        for _ in range(2):
            state = counting(state, numbers(6))
        state = counting.run({"x": numbers(6), "s": state})["t"]
        state = counting.run({"x": numbers(6), "s": state}, seed=1)["t"]
    assert isinstance(state, Shards)
    np.testing.assert_array_equal(state.whole(), numbers(5, 6) + 5 * numbers(6), strict=True)


def other_layouts(counting: Executable) -> dict[str, object]:
    """The same values as `numbers(5, 6)`, in other forms than the rows of four devices."""
    made = counting(numbers(5, 6), np.zeros(6, np.float32))
    assert isinstance(made, Shards)
    backwards = tuple(replace(each, data=np.asfortranarray(each.data[::-1])[::-1]) for each in made.shards)
    return {
        "an array": numbers(5, 6),
        "columns": onnxc.compile(relu({1: 4}), config=CONFIG, outputs="local")(numbers(5, 6)),
        "copies": onnxc.compile(LAYOUTS["copies"][0], config=CONFIG, outputs="local")(numbers(5, 6)),
        "two devices": onnxc.compile(counter(2), config=CONFIG, outputs="local")(numbers(5, 6), np.zeros(6, "f4")),
        "of unknown layout": replace(made, index=()),
        "strides": replace(made, shards=backwards),
        "another order": replace(made, shards=made.shards[::-1]),
    }


def test_other_layouts_are_put_together(counting: Executable) -> None:
    for name, state in other_layouts(counting).items():
        made = counting(state, numbers(6))
        assert isinstance(made, Shards), name
        np.testing.assert_array_equal(made.whole(), numbers(5, 6) + numbers(6), strict=True, err_msg=name)


def test_what_is_not_as_it_says_is_put_together_or_refused(counting: Executable) -> None:
    exe = counting
    made = exe(numbers(4, 6), numbers(6))
    assert isinstance(made, Shards)
    first, *others = made.shards
    wide = replace(first, data=first.data.astype(np.float64))
    again = exe(replace(made, shards=(wide, *others)), np.zeros(6, np.float32))
    assert isinstance(again, Shards)
    np.testing.assert_array_equal(again.whole(), made.whole(), strict=True)
    narrow = graph_model([node("Relu", ["x"], ["t"])], {"x": [4, 5]}, {"t": [4, 5]}, {}, 4)
    annotate(narrow.graph.node[0], "t", {0: 4}, FOUR)
    refused = {
        "input-dtype": replace(made, dtype=np.dtype(np.float64)),
        "shards-elsewhere": replace(made, shards=made.shards[:3]),
        "input-shape": onnxc.compile(narrow, config=CONFIG, outputs="local")(numbers(4, 5)),
    }
    for code, state in refused.items():
        with pytest.raises(InputError) as problem:
            exe(state, numbers(6))
        assert problem.value.code == code
    with pytest.raises(InputError, match='axis 1 of input "s" is 5, expected 6') as wrong:
        exe(numbers(4, 5), numbers(6))
    assert wrong.value.code == "input-shape"


@pytest.mark.parametrize("rows", [0, 1, 5, 8])
def test_sizes_are_those_of_the_whole(rows: int, tmp_path: Path) -> None:
    """N is in no axis of a block, and a mean divides by it; another input is held against it."""
    nodes = [
        node("Add", ["a", "b"], ["s"]),
        node("ReduceSum", ["s", "axes"], ["y"], keepdims=0),
        node("Shape", ["a"], ["n"], end=1),
        node("Cast", ["n"], ["m"], to=1),
        node("Div", ["y", "m"], ["z"]),
    ]
    axes = {"axes": np.array([0])}
    model = graph_model(nodes, {"a": ["N", 6], "b": ["N", 1]}, {"z": [6]}, axes, 4)
    annotate(model.graph.node[0], "s", {0: 4}, FOUR)
    exe, program, division = compiled(model, tmp_path)
    assert local_texts(program, division) == ["f32[floordiv(N + 3, 4), 6]", "f32[floordiv(N + 3, 4), 1]"]
    a, b = numbers(rows, 6), numbers(rows, 1)
    with np.errstate(all="ignore"):
        expected = (a + b).sum(0) / np.float32(rows)
    np.testing.assert_allclose(np.asarray(exe(a, b)), expected, rtol=1e-6)
    with pytest.raises(InputError) as wrong:
        exe(a, numbers(rows + 1, 1))
    assert wrong.value.code == "sizes-disagree"
    again = onnxc.load(tmp_path / "a.onnxc")
    np.testing.assert_array_equal(np.asarray(again(a, b)), np.asarray(exe(a, b)), strict=True)


def test_what_is_read_whole_too_stays_whole(tmp_path: Path) -> None:
    """As an operand of what is not divided, as an output, and in two divisions."""
    cases: Sequence[Mapping[str, object]] = (
        {"nodes": [node("Relu", ["x"], ["y"]), node("Softmax", ["x"], ["z"], axis=0)]},
        {"nodes": [node("Relu", ["x"], ["y"]), node("Identity", ["x"], ["z"])]},
        {"nodes": [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["z"])], "second": {1: 4}},
    )
    for case in cases:
        nodes = case["nodes"]
        assert isinstance(nodes, list)
        model = graph_model(nodes, {"x": ["N", 6]}, {"y": ["N", 6], "z": ["N", 6]}, {}, 4)
        annotate(model.graph.node[0], "x", {0: 4}, FOUR)
        annotate(model.graph.node[1], "x", case.get("second", {}), FOUR)  # type: ignore[arg-type]
        exe, program, division = compiled(model, tmp_path)
        assert (local_texts(program, division), division.inputs) == (["f32[N, 6]"], ())
        y, _ = exe(numbers(5, 6))
        np.testing.assert_array_equal(np.asarray(y), numbers(5, 6), strict=True)
        again, _ = exe(y)
        np.testing.assert_array_equal(np.asarray(again), numbers(5, 6), strict=True)


def test_inputs_with_defaults_stay_whole(tmp_path: Path) -> None:
    model = graph_model([node("Add", ["x", "w"], ["y"])], {"x": [4, 6], "w": [4, 6]}, {"y": [4, 6]}, {}, 4)
    model.graph.initializer.append(numpy_helper.from_array(numbers(4, 6), "w"))
    annotate(model.graph.node[0], "y", {0: 4}, FOUR)
    exe, program, division = compiled(model, tmp_path, freeze_params=False)
    assert local_texts(program, division) == ["f32[1, 6]", "f32[4, 6]"]
    np.testing.assert_array_equal(np.asarray(exe(numbers(4, 6))), 2 * numbers(4, 6), strict=True)
    np.testing.assert_array_equal(np.asarray(exe(numbers(4, 6), np.ones((4, 6), "f4"))), numbers(4, 6) + 1, strict=True)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_indices_and_texts_come_in_uneven_blocks(count: int) -> None:
    nodes = [node("Gather", ["w", "i"], ["y"]), node("Identity", ["t"], ["u"]), node("Unsqueeze", ["u", "a"], ["v"])]
    model = graph_model(nodes, {}, {"y": ["K", 3]}, {"w": numbers(7, 3) + 1, "a": np.array([1])}, 4)
    model.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, ["K"]))
    model.graph.input.append(helper.make_tensor_value_info("t", TensorProto.STRING, ["K"]))
    model.graph.output.append(helper.make_tensor_value_info("v", TensorProto.STRING, ["K", 1]))
    annotate(model.graph.node[0], "i", {0: 4}, FOUR)
    annotate(model.graph.node[2], "u", {0: 4}, FOUR)
    texts = np.array([f"é{k}" for k in range(count)], object)
    y, v = onnxc.compile(model, config=CONFIG)(np.arange(count)[::-1].copy(), texts)
    np.testing.assert_array_equal(np.asarray(y), (numbers(7, 3) + 1)[:count][::-1], strict=True)
    assert np.asarray(v).tolist() == texts[:, None].tolist()


@pytest.mark.parametrize(
    "edit",
    [{"blocks": ((0, 1, 2, 4), (0, 0, 0, 0))}, {"counts": (4,)}, {"shape": ("s[7]", "6")}, {"dtype": "f64"}],
)
def test_a_file_that_divides_inputs_otherwise_is_damaged(edit: Mapping[str, object], tmp_path: Path) -> None:
    compiled(counter(), tmp_path)
    made = read_artifact(tmp_path / "a.onnxc")
    assert made.division is not None
    state, whole = made.division.inputs
    assert state is not None
    wrong = replace(state, **edit)  # type: ignore[arg-type]
    for inputs in ((wrong, whole), (state,)):
        write_artifact(replace(made, division=replace(made.division, inputs=inputs)), tmp_path / "b")
        with pytest.raises(DeviceError, match="divided") as refused:
            onnxc.load(tmp_path / "b")
        assert refused.value.code == "artifact-malformed"
