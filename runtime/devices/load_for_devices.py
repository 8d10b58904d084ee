"""From the artifact of a divided program to an executable; only who runs several devices loads this."""

import hashlib
import os

from onnxc.runtime.artifact import Artifact, to_json
from onnxc.runtime.devices.device_choice import RANKS, parse_devices
from onnxc.runtime.devices.devices_engine import DevicesEngine
from onnxc.runtime.devices.division import Division
from onnxc.runtime.encoding import encode_program
from onnxc.runtime.engine import ProgramEngine
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable, LoadAgain
from onnxc.runtime.load import WeightsMode, image_of, make_executable, program_engine, read_artifact, signature_of
from onnxc.runtime.ranks.engine import RanksEngine, RanksExecutable
from onnxc.runtime.ranks.world import connect
from onnxc.runtime.thread_pool import available_threads

__all__ = ["load_in_ranks", "make_for_devices"]


def load_in_ranks(path: str | os.PathLike[str], weights: WeightsMode, threads: int | None) -> Executable:
    """The executable that a file holds, for the ranks of MPI, each of which calls this."""
    with connect().call():
        return make_executable(read_artifact(path, weights), threads, weights=weights, devices=RANKS)


def make_for_devices(
    artifact: Artifact,
    threads: int | None,
    compilations: int,
    again: LoadAgain,
    weights: WeightsMode,
    devices: str | None,
) -> Executable:
    """The artifact ready to be called on all of its devices as one.

    threads: how many a call may use in this process, all of its devices together. devices: None means as many threads
    as there are devices.

    Raises InputError where the program is for another number of devices.
    """
    division = artifact.division
    if division is None:
        message = f"devices is {devices!r}; the model was compiled for one device, without config="
        raise InputError(message, code="devices-without-config")
    count = division.devices if devices is None else parse_devices(devices)
    if count is None:
        return _make_for_ranks(artifact, division, threads, compilations, again, weights)
    _expect_devices(division, count, f"devices is {devices!r}")
    each = max((available_threads() if threads is None else threads) // count, 1)
    added = [division.added_inputs(artifact.program, device, resident=weights == "resident") for device in range(count)]
    engine = DevicesEngine(_local_engine(artifact, each), added)
    return Executable(
        signature_of(artifact),
        engine,
        artifact=artifact,
        report=artifact.report,
        compilations=compilations,
        again=again,
    )


def _make_for_ranks(
    artifact: Artifact,
    division: Division,
    threads: int | None,
    compilations: int,
    again: LoadAgain,
    weights: WeightsMode,
) -> Executable:
    """The part of this rank of an executable that all ranks make at once."""
    world = connect()
    with world.call():
        _expect_devices(division, world.size, f"there are {world.size} ranks; start them with mpirun -n N")
        world.expect_equal(_identity(artifact))
        added = division.added_inputs(artifact.program, world.rank, resident=weights == "resident")
        own = max(available_threads() // world.sharers, 1) if threads is None else threads
        engine = _local_engine(artifact, own)
        return RanksExecutable(
            signature_of(artifact),
            RanksEngine(engine, added, world),
            artifact=artifact,
            report=artifact.report,
            compilations=compilations,
            again=again,
        )


def _expect_devices(division: Division, count: int, came: str) -> None:
    if count != division.devices:
        message = f"{came}, and the model is divided over {division.devices} devices"
        raise InputError(message, code="device-count-differs")


def _local_engine(artifact: Artifact, threads: int) -> ProgramEngine:
    """What runs the program of one device."""
    return program_engine(artifact, image_of(artifact), threads)


def _identity(artifact: Artifact) -> str:
    """What differs where artifacts do: the digest of the file, else that of the program."""
    if artifact.file is not None:
        return artifact.file.digest
    return hashlib.sha256(to_json(encode_program(artifact.program))).hexdigest()
