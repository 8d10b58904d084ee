"""Models come, change and go while requests are on their way; no answer is lost, wrong or of a bad version."""

import asyncio
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc

from onnxc.runtime.errors import DeviceError, InputError, ModelError, OnnxcError
from onnxc.serving import model_registry, served_model
from onnxc.serving.model_registry import ModelRegistry
from onnxc.serving.repository import Repository
from onnxc.serving.served_model import ServedModel, ServingLimits, WireTensor, open_version
from onnxc.serving.serving_errors import ServingError
from tests.serving.live_server import LiveServer, centred, scaled, write_version
from tests.support.models import model_from_text

ROWS = np.arange(8, dtype=np.float32).reshape(2, 4)


def registry_of(root: Path) -> ModelRegistry:
    return ModelRegistry(Repository(root), ServingLimits(threads=1))


def answer(registry: ModelRegistry, name: str, version: str = "") -> np.ndarray:
    model = registry.find(name, version)
    return asyncio.run(model.infer({"x": WireTensor("FP32", ROWS)}))["y"]


def test_a_bad_version_never_replaces_a_good_one(tmp_path: Path) -> None:
    write_version(tmp_path, "m", 1, scaled(2))
    registry = registry_of(tmp_path)
    registry.load_all()
    (tmp_path / "m" / "2").mkdir()
    (tmp_path / "m" / "2" / "model.onnxc").write_bytes((tmp_path / "m" / "1" / "model.onnxc").read_bytes()[:5000])
    with pytest.raises(DeviceError):
        registry.load("m")
    np.testing.assert_array_equal(answer(registry, "m"), 2 * ROWS)
    states = [(entry.version, entry.state) for entry in registry.index(ready_only=False)]
    assert states == [("1", "READY"), ("2", "UNAVAILABLE")]
    write_version(tmp_path, "m", 2, scaled(5))
    registry.poll()
    np.testing.assert_array_equal(answer(registry, "m"), 5 * ROWS)
    assert registry.versions("m") == (2,)


def test_what_is_passed_over_in_the_repository_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_version(tmp_path, "m", 1, scaled(2))
    for folder in ("my model", "m/01", "m/v2", "m/3", "m/assets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "m" / "3" / "net.onnx").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("no folder")
    monkeypatch.setattr(model_registry.LOG, "propagate", True)
    registry = registry_of(tmp_path)

    def told() -> list[str]:
        lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        caplog.clear()
        return lines

    registry.load_all()
    number = "a version is a number from 1 on, without a 0 ahead of it"
    assert told() == [
        f"'m/01' is passed over: {number}",
        "'m/3' is passed over: there is no model.onnxc or model.onnx in it",
        f"'m/assets' is passed over: {number}",
        f"'m/v2' is passed over: {number}",
        "'my model' is passed over: a name begins with a letter, a digit or _, and has no others but - and .",
    ]
    assert registry.versions("m") == (1,)
    registry.poll()
    assert told() == []
    (tmp_path / "m" / "v2").rmdir()
    registry.poll()
    (tmp_path / "m" / "v2").mkdir()
    registry.poll()
    assert told() == [f"'m/v2' is passed over: {number}"]


def test_models_are_loaded_side_by_side_and_a_bad_one_is_only_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, factor in (("a", 2), ("b", 3)):
        write_version(tmp_path, name, 1, scaled(factor))
    (tmp_path / "c" / "1").mkdir(parents=True)
    (tmp_path / "c" / "1" / "model.onnxc").write_bytes(b"none")
    both = threading.Barrier(2)

    def opened(name: str, *rest: object) -> ServedModel:
        if name != "c":
            # Nobody gets further alone.
            both.wait(20)
        return open_version(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(model_registry, "open_version", opened)
    monkeypatch.setattr(model_registry, "available_threads", lambda: 3)
    registry = registry_of(tmp_path)
    registry.load_all()
    for name, factor in (("a", 2), ("b", 3)):
        np.testing.assert_array_equal(answer(registry, name), factor * ROWS)
    states = [(entry.name, entry.state) for entry in registry.index(ready_only=False)]
    assert states == [("a", "READY"), ("b", "READY"), ("c", "UNAVAILABLE")]


def test_the_policy_says_which_versions_are_served(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        write_version(tmp_path, "m", version, scaled(version))
    config = tmp_path / "m" / "config.pbtxt"
    config.write_text('version_policy: { specific: { versions: [1, 3] } } backend: "onnxruntime" unknown_key: 3')
    registry = registry_of(tmp_path)
    registry.load("m")
    assert registry.versions("m") == (1, 3)
    np.testing.assert_array_equal(answer(registry, "m", "1"), ROWS)
    kept = registry.find("m", "1")
    config.write_text(
        "version_policy: { all {} } max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 5 }"
    )
    registry.poll()
    assert registry.versions("m") == (1, 2, 3)
    with pytest.raises(ServingError, match="unknown-version"):
        registry.find("m", "9")
    assert (registry.find("m", "1").rules.max_rows, registry.find("m", "1").rules.delay_ns) == (8, 5000)
    # Who had found a version before goes on with it.
    np.testing.assert_array_equal(asyncio.run(kept.infer({"x": WireTensor("FP32", ROWS)}))["y"], ROWS)
    most = 2**64 - 1
    config.write_text(
        f"max_batch_size: -1 dynamic_batching {{ max_queue_delay_microseconds: {most}"
        f" default_queue_policy {{ default_timeout_microseconds: {most} }} }}"
    )
    registry.poll()
    rules = registry.find("m").rules
    assert (rules.max_rows, rules.delay_ns, rules.timeout_ns) == (64, 60 * 10**9, 365 * 24 * 3600 * 10**9)
    config.write_text("version_policy {")
    with pytest.raises(InputError, match="model-config"):
        registry.load("m")
    assert registry.versions("m") == (3,)


NO_VERSION = {
    "config": ("version_policy {", True, "model-config"),
    "policy": ("version_policy: { specific: { versions: [7] } }", True, "chooses none of its versions: 1"),
    "empty": ("", False, "has no version with a model file"),
}


@pytest.mark.parametrize("name", NO_VERSION)
def test_a_model_of_which_no_version_can_be_chosen_is_in_the_index_with_the_reason(name: str, tmp_path: Path) -> None:
    """It keeps nobody from being polled, and is served once it is mended."""
    config, has_version, reason = NO_VERSION[name]
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.pbtxt").write_text(config)
    if has_version:
        write_version(tmp_path, "m", 1, scaled(2))
    registry = registry_of(tmp_path)
    registry.load_all()
    (entry,) = registry.index(ready_only=False)
    assert (entry.name, entry.version, entry.state) == ("m", "", "UNAVAILABLE")
    assert reason in entry.reason
    with pytest.raises(ServingError, match=rf"model 'm' is not served: .*{reason}"):
        registry.find("m")
    with pytest.raises(OnnxcError, match=reason):
        registry.load("m")
    write_version(tmp_path, "n", 1, scaled(3))
    registry.poll()
    np.testing.assert_array_equal(answer(registry, "n"), 3 * ROWS)
    (tmp_path / "m" / "config.pbtxt").unlink()
    write_version(tmp_path, "m", 1, scaled(2))
    registry.poll()
    np.testing.assert_array_equal(answer(registry, "m"), 2 * ROWS)
    assert [each.state for each in registry.index(ready_only=False)] == ["READY", "READY"]


def test_a_link_to_itself_beside_a_model_is_passed_over(tmp_path: Path) -> None:
    write_version(tmp_path, "m", 1, scaled(2))
    (tmp_path / "m" / "1" / "loop").symlink_to("loop")
    registry = registry_of(tmp_path)
    registry.load_all()
    np.testing.assert_array_equal(answer(registry, "m"), 2 * ROWS)
    write_version(tmp_path, "m", 2, scaled(3))
    registry.poll()
    np.testing.assert_array_equal(answer(registry, "m"), 3 * ROWS)


def test_a_configuration_that_breaks_leaves_the_model_served(tmp_path: Path) -> None:
    write_version(tmp_path, "m", 1, scaled(2))
    registry = registry_of(tmp_path)
    registry.load_all()
    (tmp_path / "m" / "config.pbtxt").write_text("version_policy {")
    registry.poll()
    np.testing.assert_array_equal(answer(registry, "m"), 2 * ROWS)
    states = [(entry.version, entry.state) for entry in registry.index(ready_only=False)]
    assert states == [("1", "READY"), ("", "UNAVAILABLE")]


def test_what_has_failed_is_not_tried_again_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 1 goes and version 2 is bad: version 1 is served on, and polls look at nothing twice."""
    write_version(tmp_path, "m", 1, scaled(2))
    registry = registry_of(tmp_path)
    registry.load_all()
    shutil.rmtree(tmp_path / "m" / "1")
    (tmp_path / "m" / "2").mkdir()
    (tmp_path / "m" / "2" / "model.onnxc").write_bytes(b"none")
    opened: list[int] = []

    def counted(name: str, version: int, *rest: object) -> ServedModel:
        opened.append(version)
        return open_version(name, version, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(model_registry, "open_version", counted)
    for _ in range(3):
        registry.poll()
    assert opened == [2]
    np.testing.assert_array_equal(answer(registry, "m"), 2 * ROWS)
    write_version(tmp_path, "m", 2, scaled(5))
    registry.poll()
    assert (opened, registry.versions("m")) == ([2, 2], (2,))
    np.testing.assert_array_equal(answer(registry, "m"), 5 * ROWS)


def known_rows(registry: ModelRegistry) -> list[int]:
    return [call.rows for call in registry.find("m").batcher.known_calls()]


def test_a_new_version_knows_how_long_the_calls_take_that_the_one_before_was_asked_for(tmp_path: Path) -> None:
    write_version(tmp_path, "m", 1, scaled(2))
    registry = registry_of(tmp_path)
    registry.load_all()
    assert known_rows(registry) == []
    answer(registry, "m")
    assert known_rows(registry) == [2]
    write_version(tmp_path, "m", 2, scaled(5))
    registry.poll()
    assert known_rows(registry) == [2]
    (call,) = registry.find("m").batcher.known_calls()
    assert (call.shapes(7), registry.find("m").statistics.requests()["success"].count) == ({"x": (7, 4)}, 0)
    # Calls that another version cannot make, and such as take too long, are left out.
    write_version(tmp_path, "m", 3, scaled(6).replace("4] x", "5] x").replace("4] y", "5] y"))
    registry.poll()
    assert known_rows(registry) == []
    write_version(tmp_path, "m", 4, scaled(7).replace("x", "z"))
    registry.find("m").batcher.rehearse(call.kind, 64, {"x": np.zeros((64, 5), np.float32)})
    registry.poll()
    assert known_rows(registry) == []


def test_calls_that_took_too_long_are_not_rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_version(tmp_path, "m", 1, scaled(2))
    registry = registry_of(tmp_path)
    registry.load_all()
    answer(registry, "m")
    monkeypatch.setattr(served_model, "_LONGEST_REHEARSAL_NS", 0)
    write_version(tmp_path, "m", 2, scaled(5))
    registry.poll()
    assert known_rows(registry) == []


def test_rows_are_joined_only_where_that_is_proved(tmp_path: Path) -> None:
    write_version(tmp_path, "free", 1, scaled(2))
    write_version(tmp_path, "bound", 1, centred())
    config = tmp_path / "bound" / "config.pbtxt"
    config.write_text("max_batch_size: 8 dynamic_batching {}")
    registry = registry_of(tmp_path)
    registry.load_all()
    assert (registry.find("free").batch, registry.find("free").rules.max_rows) == ("batch", 64)
    assert (registry.find("bound").batch, registry.find("bound").rules.max_rows) == ("", 1)


def test_a_model_file_is_compiled_in_a_process_of_its_own_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNXC_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "repository" / "m" / "1"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"no model")
    registry = registry_of(tmp_path / "repository")
    with pytest.raises(ModelError):
        registry.load("m")
    (folder / "model.onnx").write_bytes(model_from_text(scaled(4)).SerializeToString())
    registry.load("m")
    np.testing.assert_array_equal(answer(registry, "m"), 4 * ROWS)
    (kept,) = (tmp_path / "cache" / "artifacts").iterdir()
    written = kept.stat().st_mtime_ns, kept.stat().st_ino
    registry_of(tmp_path / "repository").load("m")
    assert kept.stat().st_ino == written[1]


def test_names_are_never_paths(tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    write_version(tmp_path, "outside", 1, scaled(2))
    registry = registry_of(tmp_path / "repository")
    for name in ("../outside", "..", "", "/etc", "a/b", ".hidden"):
        with pytest.raises(ServingError, match="unknown-model"):
            registry.load(name)
        with pytest.raises(ServingError, match="unknown-model"):
            registry.unload(name)


@contextmanager
def reloading(server: LiveServer, versions: range) -> Iterator[None]:
    """New versions of "reloaded" come one after the other; version v multiplies by v. Some are bad first."""

    def reload() -> None:
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            for version in versions:
                folder = server.repository / "reloaded" / str(version)
                folder.mkdir()
                (folder / "model.onnxc").write_bytes(b"half a file")
                with pytest.raises(tritonclient.utils.InferenceServerException):
                    client.load_model("reloaded")
                write_version(server.repository, "reloaded", version, scaled(version))
                client.load_model("reloaded")

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(reload)
        yield
        done.result(60)


def test_no_request_is_lost_while_models_are_replaced(server: LiveServer) -> None:
    write_version(server.repository, "reloaded", 1, scaled(1))
    ended = threading.Event()

    def ask(seed: int) -> list[int]:
        seen, value = [], float(seed)
        with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            is_last = False
            while not is_last:
                is_last = ended.is_set()
                value += 16
                given = tritonclient.grpc.InferInput("x", [1, 4], "FP32")
                given.set_data_from_numpy(np.full((1, 4), value, np.float32))
                result = client.infer("reloaded", [given])
                version = int(result.get_response().model_version)
                np.testing.assert_array_equal(result.as_numpy("y"), np.full((1, 4), version * value, np.float32))
                seen.append(version)
        return seen

    with tritonclient.grpc.InferenceServerClient(server.grpc) as client, ThreadPoolExecutor(8) as threads:
        client.load_model("reloaded")
        asking = [threads.submit(ask, seed) for seed in range(8)]
        try:
            with reloading(server, range(2, 7)):
                pass
        finally:
            ended.set()
        seen = [answer.result(60) for answer in asking]
        assert all(versions == sorted(versions) and versions[-1] == 6 for versions in seen)
        client.unload_model("reloaded")


def test_errors_of_the_index_are_ours(tmp_path: Path) -> None:
    with pytest.raises(OnnxcError, match="no-repository"):
        Repository(tmp_path / "absent")
