"""Divided programs on GPUs of several processes, under mpirun: fakes of the driver and of an NCCL between processes."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

from onnxc.runtime.values import host_value
from tests.sharding.annotated import CONFIG
from tests.sharding.test_devices import weight, whole
from tests.sharding.test_ranks import LOST, MODELS, pytestmark, start, told
from tests.support.arrays import assert_close
from tests.support.fake_gpus import compile_for_fakes

__all__ = ["pytestmark"]

FEEDS = {"mlp": {"z": weight(8, 64)}, "state": {"s": weight(6, 6), "x": weight(6)}}

OF_FOUR = ("mlp", "scattered", "sequence", "exchanged", "pipeline", "grid", "gpt2", "experts")
OF_TWO = ("mlp", "block", "pipeline", "llama", "state")

Exchanged = list[tuple[str, int]]


Saved = tuple[Path, dict[str, Exchanged]]


def save_all(folder: Path, devices: int, names: Sequence[str]) -> Saved:
    """The artifacts, inputs, and the outputs of GPUs of one process; what these exchange in a call."""
    feeds = {name: FEEDS.get(name, MODELS[name][1]) for name in names}
    options = {name: {"outputs": "local"} if name == "state" else {} for name in names}
    return folder, {name: save(folder, name, MODELS[name][0](devices), feeds[name], **options[name]) for name in names}


def save(folder: Path, name: str, model: ModelProto, feed: dict[str, np.ndarray], **options: object) -> Exchanged:
    run = compile_for_fakes(model, CONFIG, **options)
    made = {key: np.asarray(host_value(value)) for key, value in run.executable.run(feed).items()}
    for key, value in whole(model).run(feed).items():
        assert_close(made[key], np.asarray(value), terms=256, magnitude=2.0**12)
    run.executable.save(folder / f"{name}.onnxc")
    np.savez(folder / f"{name}.x.npz", **feed)
    np.savez(folder / f"{name}.y.npz", **made)
    return run.nccl.moved


def run_ranks(folder: Path, ranks: int, action: str) -> list[dict[str, object]]:
    done = start(ranks, "tests.sharding.gpu_rank_program", action, str(folder))
    assert done.returncode == 0, done.stderr[-4000:]
    return told(folder, ranks)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return save_all(tmp_path_factory.mktemp("four"), 4, OF_FOUR)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return save_all(tmp_path_factory.mktemp("two"), 2, OF_TWO)


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_give_the_bits_of_one_process_and_exchange_as_much(ranks: int, two: Saved, four: Saved) -> None:
    folder, expected = two if ranks == 2 else four
    found = run_ranks(folder, ranks, "parity")
    for name in expected:
        moved = [each[name][2] for each in found]  # type: ignore[index]
        assert [each[name][:2] for each in found] == [[True, True]] * ranks, name  # type: ignore[index]
        collectives = sorted([how, size] for how, size in expected[name] if how != "ncclSend")
        sent = sorted([how, size] for how, size in expected[name] if how == "ncclSend")
        assert sorted(each for rank in moved for each in rank if each[0] == "ncclSend") == sent, name
        if not sent:
            assert moved == [collectives] * ranks, name


def test_a_state_that_stays_divided_stays_on_the_devices(two: Saved) -> None:
    """Of a call only the other input is copied to the device: six floats, in one line."""
    for found in run_ranks(two[0], 2, "local"):
        assert found == {"state": True, "copied": {"HtoD": 256, "DtoH": 0, "DtoD": 0}}


def test_what_is_wrong_in_one_rank_is_an_error_in_all(four: Saved) -> None:
    expected = {
        "NCCL on device 1": r"nccl-error: .*ncclReduceScatter failed to enqueue reduce_scatter(.|\n)*on device 1",
        "joining on device 1": r"nccl-error: .*failed to join a communicator: ncclUnhandledCudaError(.|\n)*on device 1",
        "an exchange of device 1": r"nccl-error: .*ncclRemoteError \(6\)(.|\n)*on device 1",
        "the input of device 0": r"collectives-differ: .*devices bring \[192, 320\] elements to reduce_scatter",
        "memory of device 1 in a pipeline": r"out-of-memory: (.|\n)*4 GB(.|\n)*on device 1",
    }
    for found in run_ranks(four[0], 4, "errors"):
        assert (found["at first"], found["after these"], found["after all"]) == (True, True, [True, True])
        for what, pattern in expected.items():
            assert re.match(pattern, str(found[what])), (what, found[what])


def test_a_rank_that_sees_no_gpu_for_itself_is_named_by_all(two: Saved) -> None:
    for found in run_ranks(two[0], 2, "missing"):
        text = str(found["too few devices"])
        assert re.match(r"no-cuda-device: .*CUDA device 1 is needed(.|\n)*sees 1 (.|\n)*on device 1", text), text


def test_a_rank_that_comes_late_is_named_and_all_go_on(two: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXC_COMM_TIMEOUT", "4")
    first, last = run_ranks(two[0], 2, "late")
    assert (first["at first"], first["after it"], last["after it"]) == (True, True, True)
    for found in (first, last):
        text = str(found["a late device"])
        assert re.match(r"device-stalled: .*device 1 did not come to all_reduce within 4 s(.|\n)*on device 0", text), (
            text
        )


@pytest.mark.parametrize(
    ("how", "name", "ranks", "leaver", "why"),
    [
        ("kill", "mlp", 4, 1, "has died"),
        ("kill", "pipeline", 2, 1, "has died"),
        ("stop", "grid", 4, 2, "has not shown any life for 5 s"),
    ],
)
def test_a_rank_that_is_lost_within_a_call_is_named_by_the_others(
    how: str, name: str, ranks: int, leaver: int, why: str, two: Saved, four: Saved
) -> None:
    folder, _ = two if ranks == 2 else four
    done = start(ranks, "tests.sharding.gpu_rank_program", how, str(folder), name, str(leaver))
    assert done.returncode != 0
    lost = LOST.format(device=leaver)
    for rank in set(range(ranks)) - {leaver}:
        assert re.search(rf"rank {rank} says error\[device-\w+\]: {lost}{why}", done.stderr), done.stderr


def test_a_machine_without_nccl_names_the_rank(two: Saved) -> None:
    """No fakes stand in: this machine has neither a driver nor NCCL, or not as many GPUs."""
    done = start(2, "onnxc", "run", str(two[0] / "mlp.onnxc"), "--devices", "mpi")
    assert done.returncode != 0
    assert re.search(r"error\[(no-cuda-\w+|nccl-missing|wrong-architecture)\]: (.|\n)*on device \d", done.stderr)
