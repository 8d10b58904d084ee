"""The kernels of a GPU in the file: what is written comes back, and whatever is wrong with it is a DeviceError."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnxc.runtime.artifact import tie_images, write_artifact
from onnxc.runtime.device_code import DeviceCode, DeviceKernel, decode_device_code, encode_device_code
from onnxc.runtime.encoding import DecodeError
from onnxc.runtime.errors import DeviceError, OnnxcError
from onnxc.runtime.load import load, read_artifact, verify_artifact
from onnxc.runtime.program import JsonValue
from tests.runtime.programs import AFFINE, artifact

KERNEL = DeviceKernel(
    key="0123456789abcdef" * 4,
    name="kernel",
    cubin=b"\x7fELF" + bytes(range(256)) * 20,
    parameters=("*fp32", "i64", "*u8"),
    warps=4,
    ctas=1,
    shared_bytes=200_000,
    scratch_bytes=0,
    cooperative=False,
    registers=255,
    stack_bytes=16,
    source='@triton.jit\ndef kernel(a0, s0, y0):\n    """µ"""\n',
)
OTHER = replace(KERNEL, key="f" * 64, cubin=b"", parameters=(), cooperative=True, ctas=2, source="")
CODE = DeviceCode("sm_90", (KERNEL, OTHER))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a.onnxc"
    write_artifact(tie_images(replace(artifact(AFFINE, np.arange(9, dtype=np.float32)), device=CODE)), made)
    return made


def rewrite(path: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """The archive with its members changed; None leaves one out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            changed = change(name, data)
            if changed is not None:
                archive.writestr(name, changed)


def change_kernel(**changes: object) -> JsonValue:
    """The JSON of the code with fields of its first kernel changed."""
    value = json.loads(json.dumps(encode_device_code(CODE)))
    value["kernels"][0] |= changes
    changed: JsonValue = value
    return changed


def decode(value: JsonValue) -> DeviceCode:
    return decode_device_code(value, lambda key: key.encode(), lambda key: key)


@pytest.mark.parametrize("code", [CODE, DeviceCode("sm_100a", ()), None], ids=["two", "none", "absent"])
def test_what_is_read_is_what_was_written(tmp_path: Path, code: DeviceCode | None) -> None:
    write_artifact(tie_images(replace(artifact(AFFINE), device=code)), tmp_path / "a")
    read = read_artifact(tmp_path / "a")
    assert read.device == code
    verify_artifact(tmp_path / "a")
    write_artifact(read, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_each_kernel_has_its_machine_code_and_its_source_as_members(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.read(f"kernels/{KERNEL.key}.cubin") == KERNEL.cubin
        assert archive.read(f"kernels/{KERNEL.key}.py").decode() == KERNEL.source
        assert json.loads(archive.read("manifest.json"))["device"] == "sm_90"
        assert json.loads(archive.read("kernels.json"))["kernels"][0]["registers"] == 255


@pytest.mark.parametrize("name", ["kernels.json", f"kernels/{KERNEL.key}.cubin", f"kernels/{KERNEL.key}.py"])
@pytest.mark.parametrize("damage", [lambda data: None, lambda data: data[:-1], lambda data: data + b"\n"])
def test_a_member_that_is_missing_or_of_another_size_is_named(
    path: Path, name: str, damage: Callable[[bytes], bytes | None]
) -> None:
    rewrite(path, lambda member, data: damage(data) if member == name else data)
    with pytest.raises(DeviceError, match=name) as refused:
        read_artifact(path)
    assert refused.value.code == "artifact-malformed"


def test_a_changed_byte_is_found(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(KERNEL.cubin) + 1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(DeviceError, match=r"\.cubin is not what was written"):
        read_artifact(path)


@pytest.mark.parametrize("device", ["sm_80", 90, ["sm_90"], {}, False])
def test_the_manifest_must_name_the_architecture_of_the_kernels(path: Path, device: object) -> None:
    def change(name: str, data: bytes) -> bytes:
        return json.dumps({**json.loads(data), "device": device}).encode() if name == "manifest.json" else data

    rewrite(path, change)
    with pytest.raises(DeviceError, match=r"manifest\.json: device is"):
        read_artifact(path)


def test_a_manifest_without_a_word_on_devices_is_damaged(path: Path, tmp_path: Path) -> None:
    def change(name: str, data: bytes) -> bytes:
        if name != "manifest.json":
            return data
        return json.dumps({key: value for key, value in json.loads(data).items() if key != "device"}).encode()

    write_artifact(artifact(AFFINE), tmp_path / "b")
    rewrite(tmp_path / "b", change)
    with pytest.raises(DeviceError, match=r"kernels\.json"):
        read_artifact(tmp_path / "b")


@pytest.mark.parametrize(
    "changes",
    [
        {"key": "../../etc/passwd"},
        {"key": "F" * 64},
        {"key": "f" * 64},
        {"key": 1},
        {"name": ""},
        {"name": "a b"},
        {"parameters": "*fp32"},
        {"parameters": ["*fp32", 1]},
        {"parameters": ["fp32*"]},
        {"warps": 0},
        {"warps": True},
        {"warps": 4.0},
        {"ctas": 0},
        {"shared_bytes": -1},
        {"scratch_bytes": 1 << 31},
        {"cooperative": 0},
        {"registers": "24"},
        {"stack_bytes": None},
        {"cubin": "aGk="},
    ],
)
def test_a_field_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    assert decode(change_kernel()).kernels[0].parameters == KERNEL.parameters
    with pytest.raises(DecodeError):
        decode(change_kernel(**changes))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"architecture": "sm_90"},
        {"architecture": "sm_90", "kernels": {}},
        {"architecture": "sm_90", "kernels": [1]},
        {"architecture": "sm_90", "kernels": [{}]},
        {"architecture": "gfx942", "kernels": []},
        {"architecture": 90, "kernels": []},
        {"architecture": "sm_90", "kernels": [], "more": 1},
    ],
)
def test_json_that_is_no_device_code_is_refused(value: JsonValue) -> None:
    with pytest.raises(DecodeError):
        decode(value)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8, 0.95])
def test_a_truncated_file_is_an_error(path: Path, part: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(OnnxcError):
        load(path)
