"""What a rank with a GPU does in the tests of MPI: as rank_program.py, on fakes of the driver and of NCCL.

`mpirun -n N python -m tests.sharding.gpu_rank_program ACTION FOLDER`. Each process has as many fake devices as there
are ranks, and uses one. What the fakes find wrong ends it.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from unittest import mock

import numpy as np
import numpy.typing as npt

import onnxc
from onnxc.runtime.device_code import DeviceCode
from onnxc.runtime.devices.shards import Shards
from onnxc.runtime.gpu import rank_engine
from onnxc.runtime.gpu.engine import DeviceEngine
from onnxc.runtime.load import read_artifact
from onnxc.runtime.ranks.world import connect
from tests.sharding import rank_program
from tests.sharding.fake_rank_nccl import FakeRankNccl, RankDriver
from tests.sharding.rank_program import bits, refusal
from tests.support.fake_gpu import interpret_launch


class Fakes:
    """What stands in for the driver and for NCCL in this process, for all artifacts of a folder."""

    def __init__(self, folder: Path, devices: int) -> None:
        artifacts = [read_artifact(path) for path in sorted(folder.glob("*.onnxc"))]
        codes = [part.device for artifact in artifacts for part in artifact.segments if part.device is not None]
        kernels = tuple(chain.from_iterable(code.kernels for code in codes))
        code = DeviceCode("sm_90", tuple({kernel.key: kernel for kernel in kernels}.values()))
        self.driver = RankDriver(code, interpret_launch, memory_bytes=1 << 30, devices=devices)
        self.nccl = FakeRankNccl(self.driver)
        driver, nccl = self.driver.driver, self.nccl.nccl
        rank_engine.this_driver = lambda: driver  # type: ignore[assignment]
        rank_engine.this_nccl = lambda: nccl  # type: ignore[assignment]
        link = connect().exchanges._link
        receive = link.receive

        def received(rank: int) -> npt.NDArray[np.uint8] | None:
            self.driver.go_on()
            return receive(rank)

        link.receive = received  # type: ignore[method-assign]


def parity(folder: Path, fakes: Fakes) -> dict[str, object]:
    """Which models give the bits of one process, twice, and what they move in the second call."""
    found: dict[str, object] = {}
    for path in sorted(folder.glob("*.onnxc")):
        exe = onnxc.load(path, devices="mpi")
        first = bits(exe, folder, path.stem)
        fakes.nccl.moved.clear()
        found[path.stem] = [first, bits(exe, folder, path.stem), sorted(fakes.nccl.moved)]
        fakes.driver.check()
    return found


def errors(folder: Path, fakes: Fakes) -> dict[str, object]:
    """What ranks say where one of them is wrong, and whether the next call is right."""
    rank = connect().rank
    exe, pipeline = (onnxc.load(folder / f"{name}.onnxc", devices="mpi") for name in ("scattered", "pipeline"))
    found: dict[str, object] = {"at first": bits(exe, folder, "scattered")}

    def wrong(function: str, result: int) -> str:
        if rank == 1:
            fakes.nccl.fail(function, result)
        return refusal(lambda: bits(exe, folder, "scattered"))

    found["NCCL on device 1"] = wrong("ncclReduceScatter", 2)
    found["joining on device 1"] = wrong("ncclCommInitRankConfig", 1)
    found["after these"] = bits(exe, folder, "scattered")
    if rank == 1:
        fakes.nccl.async_error = 6
    found["an exchange of device 1"] = refusal(lambda: bits(exe, folder, "scattered"))
    fakes.nccl.async_error = 0
    found["the input of device 0"] = refusal(lambda: exe(np.zeros((3 if rank else 5, 64), np.float32)))
    with failing_launches(MemoryError("4 GB") if rank == 1 else None):
        found["memory of device 1 in a pipeline"] = refusal(lambda: bits(pipeline, folder, "pipeline"))
    found["after all"] = [bits(exe, folder, "scattered"), bits(pipeline, folder, "pipeline")]
    fakes.driver.check()
    return found


@contextmanager
def failing_launches(problem: Exception | None = None, seconds: float = 0) -> Iterator[None]:
    """Within it the programs of this process begin late, or fail."""
    original = DeviceEngine.run_in

    def changed(self: DeviceEngine, *arguments: object) -> object:
        time.sleep(seconds)
        if problem is not None:
            raise problem
        return original(self, *arguments)  # type: ignore[arg-type]

    with mock.patch.object(DeviceEngine, "run_in", changed):
        yield


def late(folder: Path, fakes: Fakes) -> dict[str, object]:
    """What all ranks say where the last one comes long after the others."""
    exe, world = onnxc.load(folder / "mlp.onnxc", devices="mpi"), connect()
    found: dict[str, object] = {"at first": bits(exe, folder, "mlp")}
    with failing_launches(seconds=1.5 * world.exchanges.seconds if world.rank == world.size - 1 else 0):
        found["a late device"] = refusal(lambda: bits(exe, folder, "mlp"))
    return found | {"after it": bits(exe, folder, "mlp")}


def missing(folder: Path, fakes: Fakes) -> dict[str, object]:
    """What all ranks say where a process sees too few devices."""
    if connect().rank == 1:
        fakes.driver.devices = 1
    return {"too few devices": refusal(lambda: onnxc.load(folder / "mlp.onnxc", devices="mpi"))}


def local(folder: Path, fakes: Fakes) -> dict[str, object]:
    """A loop of calls whose state stays divided, and the bytes that a call in it copies from and to the host."""
    exe, feed = onnxc.load(folder / "state.onnxc", devices="mpi"), dict(np.load(folder / "state.x.npz"))
    state, expected = exe(feed["s"], feed["x"]), feed["s"] + feed["x"]
    for _ in range(2):
        before = dict(fakes.driver.copied_bytes)
        state, expected = exe(state, feed["x"]), expected + feed["x"]
    copied = {way: fakes.driver.copied_bytes[way] - before[way] for way in before}
    assert isinstance(state, Shards)
    (own,) = state.shards
    fakes.driver.check()
    return {"state": bool((own.host() == expected[own.index]).all()), "copied": copied}


ACTIONS = {"parity": parity, "errors": errors, "late": late, "missing": missing, "local": local}


def main() -> None:
    action, folder = sys.argv[1], Path(sys.argv[2])
    world = connect()
    fakes = Fakes(folder, world.size)
    if action not in ACTIONS:
        rank_program.main()
        return
    (folder / f"rank{world.rank}.json").write_text(json.dumps(ACTIONS[action](folder, fakes)))


if __name__ == "__main__":
    main()
