"""Saved models with pipeline stages: what comes back is what was saved, and wiring that does not fit is refused."""

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import ModelProto

import onnxc
from onnxc.command_line.main import main
from onnxc.runtime.artifact import to_json, write_artifact
from onnxc.runtime.devices.load_pipeline import expect_tensors
from onnxc.runtime.devices.pipeline import Pipeline, decode_pipeline
from onnxc.runtime.errors import DeviceError, InputError, OnnxcError, UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import read_artifact
from onnxc.runtime.program import JsonValue
from tests.runtime.programs import AFFINE
from tests.sharding.annotated import CONFIG
from tests.sharding.test_devices import weight
from tests.sharding.test_ranks import grid
from tests.sharding.ways_back import WAYS_BACK, expect_back

X = weight(5, 16)


@pytest.fixture(scope="module")
def model() -> ModelProto:
    """Two stages, each on two devices, which have halves of its weights."""
    return grid(4)


@pytest.fixture(scope="module")
def exe(model: ModelProto) -> Executable:
    return onnxc.compile(model, config=CONFIG, microbatches=3)


@pytest.fixture(scope="module")
def saved(exe: Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pipeline") / "m.onnxc"
    exe.save(path)
    return path


@pytest.mark.parametrize("way", WAYS_BACK)
def test_what_comes_back_gives_the_same_bits(way: str, exe: Executable, saved: Path) -> None:
    expect_back(way, exe, saved, X)


def test_a_saved_file_is_verified_and_the_same_for_the_same_model(
    model: ModelProto, saved: Path, tmp_path: Path
) -> None:
    onnxc.verify(saved)
    onnxc.compile(model, config=CONFIG, microbatches=3).save(tmp_path / "b")
    data = saved.read_bytes()
    assert (tmp_path / "b").read_bytes() == data
    with zipfile.ZipFile(saved) as archive:
        start = archive.getinfo("segments/1/program.json").header_offset + 100
    (tmp_path / "b").write_bytes(data[:start] + bytes([data[start] ^ 1]) + data[start + 1 :])
    with pytest.raises(DeviceError, match="damaged") as refused:
        onnxc.verify(tmp_path / "b")
    assert refused.value.code == "artifact-malformed"


def test_each_share_is_stored_once_and_whole_inputs_with_the_first_segment(exe: Executable, saved: Path) -> None:
    made = read_artifact(saved)
    assert [segment.weights.nbytes for segment in made.segments] == [0, 0]
    shares = [segment.division.shares for segment in made.segments if segment.division is not None]
    report = exe.report()
    assert isinstance(report, dict)
    assert report["devices"]["held_bytes"] == [share.nbytes for of_devices in shares for share in of_devices]
    with zipfile.ZipFile(saved) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist() if "shares/" in info.filename}
    names = [f"{prefix}shares/{device}" for prefix in ("", "segments/1/") for device in range(2)]
    assert sizes == dict(zip(names, report["devices"]["held_bytes"], strict=True))


def test_weights_are_swapped_for_all_segments(model: ModelProto, tmp_path: Path) -> None:
    exe = onnxc.compile(model, config=CONFIG, freeze_params=False)
    changed = weight(16, 16)[::-1] + 1
    other = exe.with_weights({"w3": changed})
    np.testing.assert_array_equal(np.asarray(other(X)), np.asarray(exe.run({"x0": X, "w3": changed})["x4"]))
    other.save(tmp_path / "a")
    again = onnxc.load(tmp_path / "a")
    np.testing.assert_array_equal(np.asarray(again(X)), np.asarray(other(X)))
    assert not np.array_equal(np.asarray(exe(X)), np.asarray(other(X)))
    assert [segment.weights.nbytes for segment in read_artifact(tmp_path / "a").segments] == [4 * 16 * 16 * 4, 0]


# What does not fit

WRONG: Mapping[str, tuple[str, type[OnnxcError], Callable[[Path], object]]] = {
    "the devices of a stage": ("device-count-differs", InputError, lambda path: onnxc.load(path, devices="cpu:2")),
    "devices that are none": ("unknown-devices", InputError, lambda path: onnxc.load(path, devices="gpu")),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_devices_are_refused(name: str, saved: Path) -> None:
    code, kind, load = WRONG[name]
    with pytest.raises(kind) as refused:
        load(saved)
    assert refused.value.code == code


EDITS: Mapping[str, Callable[[Pipeline], Pipeline]] = {
    "nothing is sent": lambda p: replace(p, transfers=()),
    "other devices": lambda p: replace(p, roles=(p.roles[0], replace(p.roles[1], devices=(0, 1)))),
    "fewer inputs": lambda p: replace(p, inputs=0),
    "whole calls": lambda p: replace(p, split=None),
}


@pytest.mark.parametrize("name", EDITS)
def test_other_wiring_is_not_that_of_the_code(name: str, saved: Path, tmp_path: Path) -> None:
    made = read_artifact(saved)
    assert made.pipeline is not None
    write_artifact(replace(made, pipeline=EDITS[name](made.pipeline)), tmp_path / "a")
    with pytest.raises(DeviceError) as refused:
        onnxc.load(tmp_path / "a")
    assert refused.value.code == "artifact-malformed"


ROLE = {"devices": [0], "sent": 1, "outputs": []}
LAST = {"devices": [1], "sent": 0, "outputs": [0]}
SENT = {"source": 0, "result": 0, "target": 1, "pairs": [[0, 1]]}
SPLIT = {"inputs": [0], "outputs": [0], "most": 2, "least": 1}
FITS: Mapping[str, JsonValue] = {"inputs": 1, "roles": [ROLE, LAST], "transfers": [SENT], "split": SPLIT}
MALFORMED: Mapping[str, JsonValue] = {
    "no object": [],
    "other fields": {**FITS, "more": 1},
    "no segments": {**FITS, "roles": [], "transfers": []},
    "no count": {**FITS, "inputs": True},
    "below 0": {**FITS, "inputs": -1},
    "a role of no devices": {**FITS, "roles": [ROLE, {**LAST, "devices": []}]},
    "a device twice": {**FITS, "roles": [ROLE, {**LAST, "devices": [1, 1]}]},
    "too many devices": {**FITS, "roles": [ROLE, {**LAST, "devices": [1 << 40]}]},
    "an output twice": {**FITS, "roles": [{**ROLE, "outputs": [0]}, LAST]},
    "back": {**FITS, "transfers": [{**SENT, "source": 1, "target": 0}]},
    "to nobody": {**FITS, "transfers": [{**SENT, "target": 2}]},
    "what is not sent": {**FITS, "transfers": [{**SENT, "result": 1}]},
    "from a device of another segment": {**FITS, "transfers": [{**SENT, "pairs": [[1, 1]]}]},
    "not to all devices": {**FITS, "transfers": [{**SENT, "pairs": []}]},
    "no pairs": {**FITS, "transfers": [{**SENT, "pairs": [[0, 1, 2]]}]},
    "no parts": {**FITS, "split": {**SPLIT, "most": 0}},
    "parts of nothing": {**FITS, "split": {**SPLIT, "inputs": [None]}},
    "parts of other inputs": {**FITS, "split": {**SPLIT, "inputs": [0, 0]}},
}


@pytest.mark.parametrize("name", MALFORMED)
def test_wiring_that_does_not_fit_together_is_refused(name: str) -> None:
    made = decode_pipeline(FITS)
    assert (made.devices, decode_pipeline(json.loads(to_json(made.encode())))) == (2, made)
    with pytest.raises(ValueError, match=r"\w"):
        decode_pipeline(MALFORMED[name])


def test_ranks_send_tensors_only(saved: Path) -> None:
    made = read_artifact(saved)
    expect_tensors(made)
    sequence = replace(made.program.outputs[0], dtype="", text="seq(f32[N])")
    with pytest.raises(UnsupportedError, match=r"a segment makes seq\(f32\[N\]\)") as refused:
        expect_tensors(replace(made, program=replace(made.program, outputs=(sequence,))))
    assert refused.value.code == "unsupported-pipeline"


def test_programs_of_other_types_are_not_those_of_the_wiring() -> None:
    sender, receiver = AFFINE, replace(AFFINE, inputs=(*AFFINE.inputs, *AFFINE.outputs))
    made = replace(decode_pipeline(FITS), inputs=len(AFFINE.inputs))
    made.expect_programs([sender, receiver])
    other = replace(receiver, inputs=(*AFFINE.inputs, *(replace(each, dtype="i64") for each in AFFINE.outputs)))
    for programs in ([receiver, receiver], [sender, sender], [sender, other], [replace(sender, outputs=()), receiver]):
        with pytest.raises(ValueError, match="segment"):
            made.expect_programs(programs)


def test_the_commands_take_pipelines(model: ModelProto, exe: Executable, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    made, run = tmp_path / "m.onnxc", CliRunner()
    compiled = ["compile", str(tmp_path / "m.onnx"), "--config", CONFIG]
    done = run.invoke(main, [*compiled, "-o", str(made)])
    assert done.exit_code == 0, done.output
    np.save(tmp_path / "x.npy", X)
    out = tmp_path / "y.npz"
    done = run.invoke(main, ["run", str(made), "--input", f"x0=@{tmp_path / 'x.npy'}", "-o", str(out)])
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(np.load(out)["x4"], np.asarray(onnxc.load(made)(X)))
    told = run.invoke(main, ["inspect", str(made)]).output
    assert "x4" in told
    done = run.invoke(main, [*compiled, "--stop-after", "plan"])
    assert done.output.count("\nplan ") + done.output.startswith("plan ") == 2
