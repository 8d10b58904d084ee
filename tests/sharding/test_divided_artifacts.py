"""Saved programs of several devices: what comes back is what was saved, and what is wrong with a file is found."""

import zipfile
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import ModelProto

import onnxc
from onnxc.command_line.main import main
from onnxc.runtime.artifact import write_artifact
from onnxc.runtime.devices.division import Division, decode_division, divide_weights
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import read_artifact
from onnxc.runtime.program import JsonValue, Parameter
from tests.runtime.programs import AFFINE, artifact, body, host, program
from tests.sharding.annotated import CONFIG
from tests.sharding.test_devices import column_then_row, told, weight
from tests.sharding.ways_back import WAYS_BACK, expect_back

X = weight(5, 8)


@pytest.fixture(scope="module")
def model() -> ModelProto:
    return column_then_row(10)


@pytest.fixture(scope="module")
def exe(model: ModelProto) -> Executable:
    return onnxc.compile(model, config=CONFIG, devices="cpu:4")


@pytest.fixture(scope="module")
def saved(exe: Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("divided") / "m.onnxc"
    exe.save(path)
    return path


@pytest.mark.parametrize("way", WAYS_BACK)
def test_what_comes_back_gives_the_same_bits(way: str, exe: Executable, saved: Path) -> None:
    expect_back(way, exe, saved, X)


def test_the_file_has_the_shares_of_each_device_apart(exe: Executable, saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist() if "shares/" in info.filename}
    program = read_artifact(saved).program
    # Three columns of eight, of one, and three rows of eight, as kernels read them, each from a cache line on.
    shapes = [tuple(map(int, parameter.shape or ())) for parameter in program.inputs[2:]]
    assert sum("in panels" in parameter.name for parameter in program.inputs[2:]) >= 1
    assert sizes == {f"shares/{device}": sum(-(-prod(shape) * 4 // 64) * 64 for shape in shapes) for device in range(4)}
    onnxc.verify(saved)
    devices = told(exe)
    assert devices["share_bytes"] == [4 * (8 * 3 + 3 + 3 * 8)] * 4
    assert devices["held_bytes"] == [read_artifact(saved).weights.nbytes + sizes["shares/0"]] * 4


def test_a_device_reads_its_own_shares_only(saved: Path) -> None:
    made = read_artifact(saved)
    division = made.division
    assert division is not None
    whole = [division.added_inputs(made.program, device, resident=False) for device in range(4)]
    assert [int(ordinal) for ordinal, *_ in whole] == [0, 1, 2, 3]
    alone = Division(division.share_count, (*[np.empty(0, np.uint8)] * 2, *division.shares[2:3]))
    for mine, expected in zip(alone.added_inputs(made.program, 2, resident=True), whole[2], strict=True):
        np.testing.assert_array_equal(mine, expected)


def test_the_same_model_gives_the_same_file(model: ModelProto, saved: Path, tmp_path: Path) -> None:
    onnxc.compile(model, config=CONFIG).save(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == saved.read_bytes()


ORDINAL, TEXTS, FLOAT = (
    Parameter("device", "i64", (), "i64[]"),
    Parameter("t", "string", ("2",), "string[2]"),
    Parameter("f", "f32", (), "f32[]"),
)


def test_texts_are_shares_too() -> None:
    texts = [np.array(["a", "bc"], object), np.array(["", "ü"], object)]
    division = divide_weights([[text, np.array(device, np.float32)] for device, text in enumerate(texts)])
    program = replace(AFFINE, inputs=(ORDINAL, TEXTS, FLOAT))
    for device, text in enumerate(texts):
        _, made, number = division.added_inputs(program, device, resident=False)
        assert (made.tolist(), float(number)) == (text.tolist(), float(device))


WRONG: dict[str, tuple[str, type[Exception], Callable[[Path], object]]] = {
    "more devices": ("device-count-differs", InputError, lambda path: onnxc.load(path, devices="cpu:8")),
    "devices that are none": ("unknown-devices", InputError, lambda path: onnxc.load(path, devices="gpu")),
    "no text": ("option-type", InputError, lambda path: onnxc.load(path, devices=4)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_other_devices_are_refused(name: str, saved: Path) -> None:
    code, kind, load = WRONG[name]
    with pytest.raises(kind) as refused:
        load(saved)
    assert getattr(refused.value, "code", None) == code


def test_a_model_of_one_device_has_no_devices(tmp_path: Path) -> None:
    write_artifact(artifact(AFFINE), tmp_path / "a")
    with pytest.raises(InputError, match="compiled for one device") as refused:
        onnxc.load(tmp_path / "a", devices="cpu:4")
    assert refused.value.code == "devices-without-config"


@pytest.mark.parametrize("edit", [lambda d: Division(d.share_count, d.shares[:3]), lambda d: Division(0, d.shares)])
def test_another_division_is_not_that_of_the_code(
    edit: Callable[[Division], Division], saved: Path, tmp_path: Path
) -> None:
    made = read_artifact(saved)
    assert made.division is not None
    write_artifact(replace(made, division=edit(made.division)), tmp_path / "a")
    with pytest.raises(DeviceError) as refused:
        onnxc.load(tmp_path / "a")
    assert refused.value.code == "artifact-malformed"


def test_shares_that_end_too_early_are_damaged(saved: Path, tmp_path: Path) -> None:
    made = read_artifact(saved)
    assert made.division is not None
    short = Division(made.division.share_count, tuple(share[:64] for share in made.division.shares))
    write_artifact(replace(made, division=short), tmp_path / "a")
    with pytest.raises(DeviceError, match="the shares end within share") as refused:
        onnxc.load(tmp_path / "a")
    assert refused.value.code == "artifact-malformed"


MALFORMED: dict[str, JsonValue] = {
    "no object": [],
    "no shares": {"devices": 2},
    "no devices": {"devices": 0, "shares": 1},
    "too many devices": {"devices": 1 << 40, "shares": 1},
    "no number": {"devices": True, "shares": 1},
    "more shares than inputs": {"devices": 2, "shares": 9},
    "an ordinal that is none": {"devices": 2, "shares": 0},
    "other groups": {"devices": 3, "shares": 1},
}


@pytest.mark.parametrize("name", [*MALFORMED, "groups that are none"])
def test_a_division_that_does_not_fit_is_refused(name: str) -> None:
    groups: JsonValue = "all" if name == "groups that are none" else [[0, 1]]
    exchange = host("all_reduce", [0], [2], kind="sum", groups=groups)
    divided = program(body(3, [0, 1], [2], [exchange]))
    divided = replace(divided, inputs=(ORDINAL, FLOAT))
    with pytest.raises(ValueError, match=r"devices|shares|ordinal|groups"):
        decode_division(MALFORMED.get(name, {"devices": 2, "shares": 1}), divided)
    if name != "groups that are none":
        assert decode_division({"devices": 2, "shares": 1}, divided) == (2, 1, (), ())


def test_the_commands_take_a_configuration(model: ModelProto, saved: Path, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    made, run = tmp_path / "m.onnxc", CliRunner()
    done = run.invoke(main, ["compile", str(tmp_path / "m.onnx"), "--config", CONFIG, "-o", str(made)])
    assert done.exit_code == 0, done.output
    np.save(tmp_path / "x.npy", X)
    for devices in ([], ["--devices", "cpu:4"]):
        out = tmp_path / "y.npz"
        done = run.invoke(main, ["run", str(made), *devices, "--input", f"x=@{tmp_path / 'x.npy'}", "-o", str(out)])
        assert done.exit_code == 0, done.output
        np.testing.assert_array_equal(np.load(out)["y"], np.asarray(onnxc.load(saved)(X)))
    told = run.invoke(main, ["inspect", str(made)]).output
    assert "share0" not in told
    assert "4, as a mesh of d0=4" in told
    assert "all_reduce" in told
    done = run.invoke(main, ["run", str(made), "--config", CONFIG])
    assert done.exit_code == 2
    assert "--config" in done.output
    assert "are for models" in done.output
