"""Loading: what a file must be, what is said where it is not, and that what is loaded does what was saved."""

import json
import os
import stat
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

import onnxc.runtime.load
from onnxc.runtime.artifact import FORMAT_VERSION, to_json, write_artifact
from onnxc.runtime.errors import DeviceError, InputError, OnnxcError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import load, make_executable, read_artifact, verify_artifact
from tests.runtime.programs import AFFINE, BIAS, HOST, SCALE, artifact, image
from tests.support.arrays import assert_same

X = np.array([1.0, -2.0, 0.5], np.float32)
Y = X * np.float32(SCALE) + np.float32(BIAS)
WEIGHTS = np.arange(5000, dtype=np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a.onnxc"
    write_artifact(artifact(AFFINE, WEIGHTS), made)
    return made


def rewrite(path: Path, change: Callable[[str, bytes], bytes | None], compress: bool = False) -> None:
    """The archive with its members changed; None leaves one out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            changed = change(name, data)
            if changed is not None:
                archive.writestr(name, changed)


def change_manifest(key: str, value: object) -> Callable[[str, bytes], bytes | None]:
    def change(name: str, data: bytes) -> bytes:
        return json.dumps({**json.loads(data), key: value}).encode() if name == "manifest.json" else data

    return change


def refused(path: Path) -> DeviceError:
    with pytest.raises(DeviceError) as error:
        load(path)
    assert str(path) in str(error.value)
    return error.value


@pytest.mark.parametrize("weights", ["mapped", "resident"])
def test_what_is_loaded_does_what_was_saved(path: Path, weights: str) -> None:
    exe = load(path, "mapped" if weights == "mapped" else "resident", threads=1)
    assert_same(np.asarray(exe(X)), Y)
    assert exe.stats.compilations == 0
    assert exe.report() == "a report"
    assert [str(info) for info in (*exe.inputs, *exe.outputs)] == ["x: f32[N]", "y: f32[N]"]


@pytest.mark.parametrize("weights", ["mapped", "resident"])
def test_weights_cannot_be_written_to(path: Path, weights: str) -> None:
    found = read_artifact(path, "mapped" if weights == "mapped" else "resident").weights
    assert not found.flags.writeable
    assert found.ctypes.data % 64 == 0
    np.testing.assert_array_equal(found[64:].view(np.float32), WEIGHTS)


def test_what_was_loaded_can_be_saved_again(path: Path, tmp_path: Path) -> None:
    load(path).save(tmp_path / "b.onnxc")
    assert (tmp_path / "b.onnxc").read_bytes() == path.read_bytes()
    # Onto itself, while it is mapped.
    exe = load(path)
    exe.save(path)
    assert_same(np.asarray(exe(X)), Y)
    assert (tmp_path / "b.onnxc").read_bytes() == path.read_bytes()


def test_loading_and_calling_needs_no_compiler(path: Path) -> None:
    code = f"""
import sys, numpy, onnxc
exe = onnxc.load({str(path)!r})
assert exe(numpy.ones(3, numpy.float32)).tolist() == [{SCALE + BIAS}] * 3
slow = {{"llvmlite", "google", "onnx", "ml_dtypes", "tempfile", "html", "difflib"}}
loaded = [name for name in sys.modules if name.split(".")[0] in slow]
loaded += [name for name in sys.modules if name.startswith("onnxc.compiler")]
assert not loaded, loaded
"""
    root = Path(onnxc.runtime.load.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_wrong_weights_mode_is_an_input_error(path: Path) -> None:
    with pytest.raises(InputError, match='expected "mapped" or "resident"'):
        load(path, "lazy")  # type: ignore[arg-type]


def test_a_wrong_number_of_threads_is_an_input_error(path: Path) -> None:
    with pytest.raises(InputError, match="threads is 0"):
        load(path, threads=0)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.onnxc") as missing:
        load(tmp_path / "absent.onnxc")
    assert isinstance(missing.value, InputError)


@pytest.mark.parametrize("path", [None, 3, b"a", b"\0", "a\0b", "a" * 300])
def test_what_is_no_path_is_neither_loaded_nor_saved(path: object) -> None:
    for use in (load, make_executable(artifact(AFFINE)).save, verify_artifact):
        with pytest.raises(InputError) as error:
            use(path)
        assert error.value.code == "bad-path"


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full", "/dev", "fifo"])
def test_what_is_no_plain_file_is_neither_loaded_nor_saved(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for use in (load, make_executable(artifact(AFFINE)).save, verify_artifact):
        with pytest.raises(InputError) as error:
            use(tmp_path / path)
        assert error.value.code == "not-a-plain-file"
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize("data", [b"", b"hello", b"\x08\x07\x12", bytes(5000)])
def test_a_file_of_another_kind_is_no_artifact(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(data)
    assert refused(path).code == "not-an-artifact"


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (b"\x08\x07\x12", "an ONNX model: compile it with onnxc.compile"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"", "not a zip file"),
    ],
)
def test_a_file_of_another_kind_is_said_with_what_to_do(tmp_path: Path, data: bytes, advice: str) -> None:
    path = tmp_path / "x.onnxc"
    path.write_bytes(data)
    assert advice in str(refused(path))


def test_another_zip_archive_is_no_artifact(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", b"x")
    assert refused(path).code == "not-an-artifact"
    assert "torch.onnx.export" in str(refused(path))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", b"{}")
    assert refused(path).code == "not-an-artifact"


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_damaged(path: Path, part: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    assert refused(path).code == "artifact-malformed"


def test_another_version_is_told(path: Path) -> None:
    for version in (FORMAT_VERSION - 1, FORMAT_VERSION + 1, None, str(FORMAT_VERSION)):
        rewrite(path, change_manifest("version", version))
        assert refused(path).code == "artifact-version"


@pytest.mark.parametrize("name", ["program.json", "provenance.json", "report.json", "code", "weights"])
def test_a_missing_member_is_named(path: Path, name: str) -> None:
    rewrite(path, lambda member, data: None if member.startswith(name) else data)
    error = refused(path)
    assert error.code == "artifact-malformed"
    assert name in str(error)


@pytest.mark.parametrize("name", ["program.json", "provenance.json", "report.json", "code"])
def test_a_changed_member_is_found(path: Path, name: str) -> None:
    with zipfile.ZipFile(path) as archive:
        (member,) = (member for member in archive.namelist() if member.startswith(name))
        content = archive.read(member)
    data = path.read_bytes()
    place = data.index(content) + len(content) // 2
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert f"{member} is not what was written" in str(refused(path))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sizes", None),
        ("sizes", {}),
        ("sizes", {"weights": 1}),
        ("sizes", {"weights": "1"}),
        ("sizes", {"program.json": 1}),
        ("images", None),
        ("images", [1]),
        ("images", [{"target": 1}]),
        ("images", [{"target": "cpu", "member": "../x", "features": []}]),
        ("device", "sm_90"),
        ("device", 90),
    ],
)
def test_a_wrong_manifest_is_damaged(path: Path, key: str, value: object) -> None:
    rewrite(path, change_manifest(key, value))
    assert refused(path).code == "artifact-malformed"


def test_compressed_members_are_refused(path: Path) -> None:
    rewrite(path, lambda _, data: data, compress=True)
    assert refused(path).code == "artifact-malformed"


def test_unaligned_weights_are_refused(path: Path) -> None:
    # One of two archives whose manifests differ by a space in length has them off a cache line.
    for space in (b" ", b"  "):
        rewrite(path, lambda member, data, space=space: space + data if member == "manifest.json" else data)
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo("weights")
        lengths = struct.unpack_from("<2H", path.read_bytes(), info.header_offset + 26)
        if (info.header_offset + 30 + sum(lengths)) % 64:
            break
    assert "on no cache line" in str(refused(path))


def test_a_changed_weight_is_found_by_verifying(path: Path) -> None:
    verify_artifact(path)
    data = bytearray(path.read_bytes())
    data[data.rindex(WEIGHTS[-100:].tobytes())] ^= 1
    path.write_bytes(data)
    load(path)
    with pytest.raises(DeviceError, match="weights is not what was written"):
        verify_artifact(path)


def test_a_program_of_a_hostile_hand_runs_nothing(path: Path) -> None:
    made = artifact(AFFINE, WEIGHTS)
    body = AFFINE.body
    (step,) = body.steps
    hostile = replace(AFFINE, body=replace(body, steps=(replace(step, arena_bytes="__import__('os').abort()"),)))  # type: ignore[call-arg]
    write_artifact(replace(made, program=hostile), path)
    error = refused(path)
    assert error.code == "artifact-malformed"
    assert "abort" in str(error)


def test_an_image_for_other_instructions_is_refused(path: Path) -> None:
    features = {str(HOST): ("avx1024", *HOST.features)}
    with pytest.raises(DeviceError, match=r"cannot execute .* needs avx1024") as error:
        make_executable(replace(artifact(AFFINE), features=features))
    assert error.value.code == "image-features"


def test_the_image_that_uses_most_of_the_machine_is_taken() -> None:
    first = HOST.features[0]
    images = {"plain": b"no image", "best": image(), "beyond": b"no image"}
    features = {"plain": (), "best": (first,), "beyond": (first, "avx1024")}
    exe = make_executable(replace(artifact(AFFINE), images=images, features=features))
    assert_same(np.asarray(exe(X)), Y)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: b"", "image-malformed"),
        (lambda data: data[:100], "image-truncated"),
        (lambda data: data[:18] + b"\xf3\0" + data[20:], "image-architecture"),
    ],
)
def test_a_wrong_image_is_a_device_error(change: Callable[[bytes], bytes], code: str) -> None:
    with pytest.raises(DeviceError) as error:
        make_executable(replace(artifact(AFFINE), images={str(HOST): change(image())}))
    assert error.value.code == code


def test_an_entry_that_the_image_lacks_is_a_device_error() -> None:
    (step,) = AFFINE.body.steps
    other = replace(AFFINE, body=replace(AFFINE.body, steps=(replace(step, entry="absent"),)))  # type: ignore[call-arg]
    with pytest.raises(DeviceError, match="absent"):
        make_executable(artifact(other))


def test_any_damage_is_an_error_or_does_not_matter(path: Path) -> None:
    """Only what is not code: nothing could make damaged machine code safe, and its checksum guards it."""
    whole, random = path.read_bytes(), Random(0)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.randrange(256)
        if random.random() < 0.3:
            del data[random.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            exe: Executable = load(path, threads=1)
            y = exe(X)
        except OnnxcError:
            continue
        assert_same(y, Y)


def test_json_has_one_spelling() -> None:
    assert to_json({"b": [1, 2.5], "a": None}) == b'{"a":null,"b":[1,2.5]}\n'
