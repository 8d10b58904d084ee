"""The file: the same bytes for the same artifact, members that can be mapped, and nothing half written."""

import gc
import json
import signal
import struct
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from onnxc.runtime import artifact as artifact_module
from onnxc.runtime.artifact import PAGE_BYTES, Artifact, tie_images, write_artifact
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.load import read_artifact, verify_artifact
from tests.runtime.programs import AFFINE, HOST, artifact, image

WEIGHTS = np.arange(5000, dtype=np.float32)


def data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    header = path.read_bytes()[info.header_offset : info.header_offset + 30]
    name_bytes, extra_bytes = struct.unpack_from("<2H", header, 26)
    return info.header_offset + 30 + int(name_bytes) + int(extra_bytes)


def test_the_same_artifact_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_artifact(artifact(AFFINE, WEIGHTS), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    written = artifact(AFFINE, WEIGHTS)
    write_artifact(written, tmp_path / "a")
    read = read_artifact(tmp_path / "a")
    assert read.program == written.program
    assert read.images == written.images
    assert (read.provenance, read.report) == (written.provenance, written.report)
    assert {target: sorted(found) for target, found in read.features.items()} == {str(HOST): sorted(HOST.features)}
    np.testing.assert_array_equal(read.weights, written.weights)
    write_artifact(read, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("limit", [zipfile.ZIP64_LIMIT, 4096], ids=["small", "large"])
def test_members_are_stored_and_begin_on_a_page(tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Members beyond the limit have a longer header, which the padding must count.
    monkeypatch.setattr(artifact_module, "LARGE_BYTES", limit // 2)
    path = tmp_path / "a.onnxc"
    write_artifact(artifact(AFFINE, WEIGHTS), path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        members = archive.infolist()
        assert [info.filename for info in members] == [
            "manifest.json", "program.json", "signature.json", "provenance.json", "report.json",
            f"code/{str(HOST).replace(':', '-')}.so", "weights",
        ]  # fmt: skip
        assert json.loads(archive.read("signature.json"))["inputs"] == [
            {"name": "x", "type": "f32[N]", "optional": False}
        ]
    for info in members:
        assert info.compress_type == zipfile.ZIP_STORED
        assert data_offset(path, info) % PAGE_BYTES == 0
    verify_artifact(path)


@pytest.mark.parametrize("size", [0, 1, 63, 4096])
def test_weights_of_any_size_come_back(tmp_path: Path, size: int) -> None:
    weights = np.arange(size).astype(np.uint8)
    write_artifact(tie_images(replace(artifact(AFFINE), weights=weights)), tmp_path / "a")
    for mode in ("mapped", "resident"):
        found = read_artifact(tmp_path / "a", "mapped" if mode == "mapped" else "resident").weights
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, weights)


def test_targets_have_images_of_their_own(tmp_path: Path) -> None:
    images = {"cpu:x86-64-v3": image(), "cpu:x86-64-v4+avx512bf16": image() + b"\0"}
    written = tie_images(replace(artifact(AFFINE), images=images, features={}))
    write_artifact(written, tmp_path / "a")
    read = read_artifact(tmp_path / "a")
    assert read.images == written.images
    assert read.features == {"cpu:x86-64-v3": (), "cpu:x86-64-v4+avx512bf16": ()}


def test_a_path_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="cannot write") as refused:
        write_artifact(artifact(AFFINE), tmp_path / "absent" / "a.onnxc")
    assert refused.value.code == "artifact-unwritable"
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(InputError) as replaced:
        write_artifact(artifact(AFFINE), folder)
    assert replaced.value.code == "not-a-plain-file"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_what_fails_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.onnxc"
    write_artifact(artifact(AFFINE), path)
    before = path.read_bytes()
    broken: Artifact = replace(artifact(AFFINE), report=float("nan"))
    with pytest.raises(ValueError, match="Out of range float"):
        write_artifact(broken, path)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["a.onnxc"]


def test_savers_in_threads_and_processes_publish_whole_files_only(tmp_path: Path) -> None:
    path, sources = tmp_path / "a.onnxc", [tmp_path / "one", tmp_path / "two"]
    contents = [artifact(AFFINE, WEIGHTS * k) for k in (1, 2)]
    for content, source in zip(contents, sources, strict=True):
        write_artifact(content, source)
    write_artifact(contents[0], path)
    command = (sys.executable, "-m", "tests.runtime.saver", str(path))
    processes = [subprocess.Popen([*command, str(source), "20"]) for source in sources]
    with ThreadPoolExecutor(4) as threads:
        saves = [threads.submit(write_artifact, contents[k % 2], path) for k in range(40)]
        while any(process.poll() is None for process in processes) or not all(save.done() for save in saves):
            verify_artifact(path)
    assert [process.wait() for process in processes] == [0, 0]
    assert {save.result().path for save in saves} == {str(path)}
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a.onnxc", "one", "two"]


class LateError(Exception):
    """What a handler of signals raises."""


def raise_late(*_: object) -> None:
    raise LateError


# Where Python is interrupted between opening a file and entering its block, the file is closed when it is collected,
# and Python says so; so does a half made ZipFile.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_saver_that_is_interrupted_leaves_the_file_whole_and_no_part(tmp_path: Path) -> None:
    path, random, content = tmp_path / "a.onnxc", Random(0), artifact(AFFINE, WEIGHTS)
    write_artifact(content, path)
    before = signal.signal(signal.SIGALRM, raise_late)
    interrupted = 0
    try:
        for _ in range(200):
            try:
                # A save takes some milliseconds; one that is longer is interrupted always, which is as good.
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 5e-3))
                write_artifact(content, path)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except LateError:
                interrupted += 1
            assert list(tmp_path.iterdir()) == [path]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.collect()
    assert interrupted > 0
    verify_artifact(path)
