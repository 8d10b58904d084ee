"""From the artifact of a divided program to an executable; only who runs several devices loads this."""

import hashlib
import importlib
import os
from typing import TYPE_CHECKING

from onnxc.runtime.artifact import Artifact, to_json
from onnxc.runtime.devices.device_choice import RANKS, expect_kind, parse_devices
from onnxc.runtime.devices.devices_engine import DevicesEngine
from onnxc.runtime.devices.divided_executable import DividedExecutable
from onnxc.runtime.devices.division import Division
from onnxc.runtime.devices.load_pipeline import pipeline_engine, ranks_pipeline_engine
from onnxc.runtime.devices.pipeline_engine import PipelineEngine
from onnxc.runtime.encoding import encode_program
from onnxc.runtime.engine import ProgramEngine
from onnxc.runtime.errors import InputError
from onnxc.runtime.executable import Executable, LoadAgain
from onnxc.runtime.load import WeightsMode, image_of, make_executable, program_engine, read_artifact, signature_of
from onnxc.runtime.ranks.engine import RanksEngine, RanksExecutable, RanksPipelineEngine
from onnxc.runtime.ranks.world import World, connect
from onnxc.runtime.thread_pool import available_threads

if TYPE_CHECKING:
    from onnxc.runtime.gpu.driver import Driver

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
    driver: "Driver | None" = None,
) -> Executable:
    """The artifact ready to be called on all of its devices as one.

    threads: how many a call may use in this process, all of its devices together. devices: None means as many threads
    as there are devices, or GPUs where the code is for these; driver: that of the GPUs, None for this machine's.

    Raises InputError where the program is for another number of devices, or another kind.
    """
    division = artifact.division
    if division is None:
        message = f"devices is {devices!r}; the model was compiled for one device, without config="
        raise InputError(message, code="devices-without-config")
    held = artifact.pipeline or division
    count = held.devices if devices is None else parse_devices(devices)
    expect_kind(devices, "cpu" if artifact.device is None else "cuda")
    if count is None:
        return _make_for_ranks(artifact, division, threads, compilations, again, weights, driver)
    _expect_devices(held.devices, count, f"devices is {devices!r}")
    if artifact.device is not None:
        # Programs for the CPU do without all that is needed for GPUs.
        make = importlib.import_module("onnxc.runtime.gpu.several").make_for_gpus
        made: Executable = make(artifact, division, compilations, again, driver)
        return made
    each = max((available_threads() if threads is None else threads) // count, 1)
    engine = _engine_of_threads(artifact, division, each, resident=weights == "resident")
    return DividedExecutable(
        signature_of(artifact),
        engine,
        artifact=artifact,
        report=artifact.report,
        compilations=compilations,
        again=again,
    )


def _engine_of_threads(
    artifact: Artifact, division: Division, threads: int, *, resident: bool
) -> DevicesEngine | PipelineEngine:
    """What runs all devices in this process, each in `threads` threads."""
    if artifact.pipeline is not None:
        return pipeline_engine(artifact, artifact.pipeline, threads, resident=resident)
    program = artifact.program
    added = [division.added_inputs(program, device, resident=resident) for device in range(division.devices)]
    return DevicesEngine(_local_engine(artifact, threads), added, division.inputs, division.outputs)


def _make_for_ranks(
    artifact: Artifact,
    division: Division,
    threads: int | None,
    compilations: int,
    again: LoadAgain,
    weights: WeightsMode,
    driver: "Driver | None",
) -> Executable:
    """The part of this rank of an executable that all ranks make at once."""
    world = connect()
    with world.call():
        held = artifact.pipeline or division
        _expect_devices(held.devices, world.size, f"there are {world.size} ranks; start them with mpirun -n N")
        world.expect_equal(_identity(artifact))
        own = max(available_threads() // world.sharers, 1) if threads is None else threads
        engine = _engine_of_rank(artifact, division, own, world, driver, resident=weights == "resident")
        world.meet("load")
        return RanksExecutable(
            signature_of(artifact),
            engine,
            artifact=artifact,
            report=artifact.report,
            compilations=compilations,
            again=again,
        )


def _engine_of_rank(
    artifact: Artifact, division: Division, threads: int, world: World, driver: "Driver | None", *, resident: bool
) -> RanksEngine | RanksPipelineEngine:
    if artifact.device is not None:
        make = importlib.import_module("onnxc.runtime.gpu.rank_engine").gpu_engine_of_rank
        made: RanksEngine | RanksPipelineEngine = make(artifact, division, world, driver)
        return made
    if artifact.pipeline is not None:
        return ranks_pipeline_engine(artifact, artifact.pipeline, threads, world, resident=resident)
    added = division.added_inputs(artifact.program, world.rank, resident=resident)
    return RanksEngine(_local_engine(artifact, threads), added, world, division.inputs, division.outputs)


def _expect_devices(devices: int, count: int, came: str) -> None:
    if count != devices:
        message = f"{came}, and the model is divided over {devices} devices"
        raise InputError(message, code="device-count-differs")


def _local_engine(artifact: Artifact, threads: int) -> ProgramEngine:
    """What runs the program of one device."""
    return program_engine(artifact, image_of(artifact), threads)


def _identity(artifact: Artifact) -> str:
    """What differs where artifacts do: the digest of the file, else that of the program."""
    if artifact.file is not None:
        return artifact.file.digest
    return hashlib.sha256(to_json(encode_program(artifact.program))).hexdigest()
