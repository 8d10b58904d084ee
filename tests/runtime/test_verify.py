"""Verifying: a flipped bit anywhere in the file is told, and the commands say the same."""

import os
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner

import onnxc
from onnxc.command_line.main import main
from onnxc.runtime.artifact import write_artifact
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.load import read_artifact, verify_artifact
from tests.runtime.programs import AFFINE, artifact

WEIGHTS = np.arange(5000, dtype=np.float32)
FLIPS = 24


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "a.onnxc"
    write_artifact(artifact(AFFINE, WEIGHTS), made)
    return made


def regions(path: Path) -> dict[str, range]:
    """The bytes of each part of the file: of each member, of the directory and its end, and the digest."""
    data, found = path.read_bytes(), {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name_bytes, extra_bytes = struct.unpack_from("<2H", data, info.header_offset + 26)
            padding = info.header_offset + 30 + name_bytes
            content = padding + extra_bytes
            found[f"header of {info.filename}"] = range(info.header_offset, padding)
            found[f"padding of {info.filename}"] = range(padding, content)
            found[info.filename] = range(content, content + info.file_size)
        end = len(data) - 22 - len(archive.comment)
        found["directory"] = range(archive.start_dir, end)
        found["end of the directory"] = range(end, end + 22)
        found["digest"] = range(end + 22, len(data))
    assert sum(map(len, found.values())) == len(data)
    return found


def is_damaged(path: Path) -> bool:
    try:
        verify_artifact(path)
    except DeviceError:
        return True
    return False


def test_what_was_written_is_whole(path: Path) -> None:
    onnxc.verify(path)
    digest = read_artifact(path).file
    assert digest is not None
    done = CliRunner().invoke(main, ["verify", str(path)])
    assert (done.exit_code, digest.digest in done.stdout) == (0, True)


def test_a_flipped_bit_anywhere_is_told(path: Path) -> None:
    whole, random = path.read_bytes(), Random(0)
    for name, region in regions(path).items():
        for place in random.sample(region, min(FLIPS, len(region))):
            data = bytearray(whole)
            data[place] ^= 1 << random.randrange(8)
            path.write_bytes(data)
            assert is_damaged(path), f"a flip of byte {place}, in {name}, was not seen"


def test_the_exit_code_and_the_text_tell_what_is_damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for name in ("weights", "report.json"):
        data[regions(path)[name][5]] ^= 1
    path.write_bytes(data)
    done = CliRunner().invoke(main, ["verify", str(path)])
    assert done.exit_code == 1
    assert "report.json is not what was written; weights is not what was written" in done.stderr


@pytest.mark.parametrize("part", ["padding of weights", "digest"])
def test_damage_outside_of_members_is_told_as_such(path: Path, part: str) -> None:
    data, last = bytearray(path.read_bytes()), regions(path)[part][-1]
    # The digest stays one: of hexadecimal digits.
    data[last] = ord("1") if data[last] == ord("0") else ord("0")
    path.write_bytes(data)
    with pytest.raises(DeviceError, match="what lies between the members, or the digest, is not what was written"):
        verify_artifact(path)


def test_what_follows_the_file_is_told(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(DeviceError):
        verify_artifact(path)


def test_a_file_without_its_digest_is_told(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b""
    with pytest.raises(DeviceError, match="does not end with its digest"):
        verify_artifact(path)


def test_what_is_no_program_is_told_although_all_bytes_are_as_written(path: Path) -> None:
    impossible = replace(AFFINE, body=replace(AFFINE.body, slots=0))
    write_artifact(replace(artifact(AFFINE, WEIGHTS), program=impossible), path)
    with pytest.raises(DeviceError, match="slot 0"):
        verify_artifact(path)


@pytest.mark.parametrize("command", ["verify", "inspect", "run", "report"])
def test_the_commands_do_not_wait_for_what_is_no_plain_file(tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    done = CliRunner().invoke(main, [command, str(tmp_path / "fifo")])
    assert (done.exit_code, "error[not-a-plain-file]" in done.stderr) == (1, True)
