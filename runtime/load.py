"""Loading: from a file or an artifact to an executable. No work on graphs is done here, and nothing is compiled.

What a file says is checked before it is believed; a file that is damaged, foreign, or made for another machine is a
DeviceError. The weights are mapped, not read, so their bytes are not checked; `verify_artifact` does that.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from onnxc.runtime.artifact import (
    DIVISION,
    KERNELS,
    PIPELINE,
    PROGRAM,
    PROVENANCE,
    REPORT,
    Artifact,
    artifact_path,
    divided_bytes,
)
from onnxc.runtime.cpu import Image, host_features, load_image
from onnxc.runtime.devices.device_choice import RANKS
from onnxc.runtime.devices.local_layout import whole_signature
from onnxc.runtime.devices.pipeline import Pipeline
from onnxc.runtime.encoding import DecodeError, decode_program
from onnxc.runtime.engine import ProgramEngine, launches_of
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.files.archive import Archive
from onnxc.runtime.files.plain_files import open_plain_file
from onnxc.runtime.files.saved_file import SavedFile, stated_digest
from onnxc.runtime.image_ties import is_tied, program_digest
from onnxc.runtime.program import JsonValue
from onnxc.runtime.signature import Signature, first_inputs, program_signature, without_random_state
from onnxc.runtime.thread_pool import pool_handle
from onnxc.runtime.unavailable import UnavailableEngine

if TYPE_CHECKING:
    from onnxc.runtime.gpu.driver import Driver

__all__ = [
    "DECODER",
    "load",
    "load_again",
    "make_compiled",
    "make_executable",
    "own_signature",
    "program_engine",
    "read_artifact",
    "read_bytes",
    "read_whole_artifact",
    "signature_of",
    "verify_artifact",
]

DECODER = "decoder"
"""Under this name the provenance of an artifact says that it is a decoder, and what its inputs are for."""

WeightsMode = Literal["mapped", "resident"]


def load(
    path: str | os.PathLike[str],
    weights: WeightsMode = "mapped",
    threads: int | None = None,
    *,
    device: int = 0,
    graphs: bool = True,
    driver: "Driver | None" = None,
    devices: str | None = None,
) -> Executable:
    """The executable that a file holds.

    weights: "mapped" shares the pages of the file between processes and reads them when they are needed; "resident"
    copies them once, into huge pages where the system has them. The rest is as for `make_executable`.
    """
    if devices == RANKS:
        # Before anything can fail in one of them: the others are told then.
        load_in_ranks = importlib.import_module("onnxc.runtime.devices.load_for_devices").load_in_ranks
        made: Executable = load_in_ranks(path, weights, threads)
        return made
    artifact = read_artifact(path, weights)
    if DECODER in artifact.provenance:
        # Its calls write into what they are passed.
        message = "the file holds a decoder; onnxc.load_decoder reads it"
        raise InputError(message, code="decoder-file")
    return make_executable(
        artifact, threads, device=device, graphs=graphs, driver=driver, weights=weights, devices=devices
    )


def make_executable(
    artifact: Artifact,
    threads: int | None = None,
    compilations: int = 0,
    *,
    device: int = 0,
    graphs: bool = True,
    driver: "Driver | None" = None,
    weights: WeightsMode = "mapped",
    devices: str | None = None,
) -> Executable:
    """The artifact ready to be called on this machine.

    threads: how many a call may use, where the code is for the CPU. device: the number of the CUDA device, where the
    code is for one; graphs: whether repeated calls there become CUDA graphs; driver: None is the one of this machine.
    weights: how they are kept where the executable is unpickled. devices: what the devices of a divided program are,
    "cpu:4" or "mpi"; None means threads of this process.

    Raises DeviceError; code for a GPU never runs on the CPU.
    """
    again = partial(load_again, weights=weights, threads=threads, device=device, graphs=graphs, devices=devices)
    if artifact.division is not None or devices is not None:
        # Programs for one device do without all that is needed for several.
        make_divided = importlib.import_module("onnxc.runtime.devices.load_for_devices").make_for_devices
        divided: Executable = make_divided(artifact, threads, compilations, again, weights, devices, driver)
        return divided
    image = image_of(artifact)
    locations, signature = locations_of(artifact), signature_of(artifact)
    if artifact.device is not None:
        # Programs for the CPU do without all that is needed for a device.
        make = importlib.import_module("onnxc.runtime.gpu.load").make_device_executable
        made: Executable = make(artifact, image, signature, locations, compilations, again, device, graphs, driver)
        return made
    engine = program_engine(artifact, image, threads)
    report = artifact.report
    return Executable(signature, engine, artifact=artifact, report=report, compilations=compilations, again=again)


def image_of(artifact: Artifact) -> Image | None:
    """The code of the artifact that this machine executes; None where it has none."""
    return load_image(artifact.images[_fitting_target(artifact)]) if launches_of(artifact.program.body) else None


def signature_of(artifact: Artifact) -> Signature:
    """What a call of the artifact must pass."""
    program, division, pipeline = artifact.program, artifact.division, artifact.pipeline
    signature = own_signature(artifact)
    whole = signature if division is None else first_inputs(signature, division.inputs_of_caller(program))
    if division is not None:
        whole = whole_signature(whole, division.inputs, division.outputs)
    if pipeline is None:
        return without_random_state(whole)
    results = [own_signature(segment).outputs for segment in artifact.segments]
    made = zip(pipeline.roles, results, strict=True)
    outputs = {
        output: info for role, infos in made for output, info in zip(role.outputs, infos[role.sent :], strict=True)
    }
    first = without_random_state(first_inputs(whole, pipeline.inputs))
    return replace(first, outputs=tuple(outputs[output] for output in sorted(outputs)))


def own_signature(artifact: Artifact) -> Signature:
    """The inputs and outputs of the program, those included that no caller passes or sees."""
    return program_signature(artifact.program, _texts(artifact.provenance.get("frozen_inputs")))


def locations_of(artifact: Artifact) -> tuple[str, ...]:
    """The nodes that data may be illegal for, by the numbers that kernels have for them."""
    return _texts(artifact.provenance.get("locations"))


def program_engine(artifact: Artifact, image: Image | None, threads: int | None) -> ProgramEngine:
    """What runs the artifact, whose code is for the CPU, in `threads` threads."""
    handle = None if image is None else pool_handle(image, threads)
    return ProgramEngine(artifact.program, image, handle, artifact.weights, locations_of(artifact))


def load_again(
    source: SavedFile | bytes | Artifact,
    *,
    weights: WeightsMode,
    threads: int | None,
    device: int,
    graphs: bool,
    devices: str | None = None,
) -> Executable:
    """The executable that was pickled, from the file of its artifact or the bytes of it; or one of another artifact.

    Raises DeviceError where the file holds another artifact by now, or what runs it is not here.
    """
    if isinstance(source, Artifact):
        return make_compiled(
            source, threads, compilations=0, weights=weights, device=device, graphs=graphs, devices=devices
        )
    if isinstance(source, bytes):
        artifact = read_bytes(source, weights)
    else:
        artifact = read_artifact(source.path, weights)
        if artifact.file != source:
            message = f'"{source.path}" is not the file any more that it was when the executable was pickled'
            raise DeviceError(message, code="artifact-changed")
    return make_executable(artifact, threads, device=device, graphs=graphs, weights=weights, devices=devices)


def make_compiled(
    artifact: Artifact,
    threads: int | None = None,
    compilations: int = 1,
    *,
    weights: WeightsMode = "mapped",
    device: int = 0,
    graphs: bool = True,
    devices: str | None = None,
) -> Executable:
    """What was just compiled, ready to be called; or only to be saved, where it is for a GPU that is not here.

    Then a call raises the DeviceError that says what is missing.
    """
    try:
        return make_executable(
            artifact, threads, compilations, device=device, graphs=graphs, weights=weights, devices=devices
        )
    except DeviceError as problem:
        if artifact.device is None:
            raise
        engine = UnavailableEngine(artifact.program, artifact.weights, problem)
        signature = signature_of(artifact)
        again = partial(load_again, weights=weights, threads=threads, device=device, graphs=graphs)
        return Executable(
            signature, engine, artifact=artifact, report=artifact.report, compilations=compilations, again=again
        )


def read_artifact(path: str | os.PathLike[str], weights: WeightsMode = "mapped") -> Artifact:
    """The artifact in a file.

    Raises InputError for what is no path, or leads to no plain file, DeviceError for what is wrong with the file.
    """
    if weights not in ("mapped", "resident"):
        raise InputError(f'weights is {weights!r}, expected "mapped" or "resident"', code="weights-mode")
    with _open_archive(path) as archive:
        return _read_file(archive, weights)


def read_whole_artifact(path: str | os.PathLike[str]) -> Artifact:
    """The artifact in a file whose every member is what was written: all of them are read, weights included.

    Raises as `read_artifact`.
    """
    with _open_archive(path) as archive:
        damaged = archive.damaged_members()
        if damaged:
            raise archive.malformed("; ".join(damaged))
        return _read_file(archive, "mapped")


def read_bytes(data: bytes, weights: WeightsMode) -> Artifact:
    """The artifact whose file would hold these bytes; they are in memory as a file, so that weights are mapped."""
    with open(os.memfd_create("onnxc", os.MFD_CLOEXEC), "w+b") as file:
        file.write(data)
        file.flush()
        with Archive(file, "the pickled artifact") as archive:
            return _read(archive, weights)


def verify_artifact(path: str | os.PathLike[str]) -> str:
    """The digest of a file whose every byte is what was written; all of them are read.

    Raises DeviceError, which says what is damaged.
    """
    with _open_archive(path) as archive:
        problems = archive.problems()
        if problems:
            raise archive.malformed("; ".join(problems))
        _read(archive, "mapped")
        return stated_digest(archive.file)


def _read_file(archive: Archive, weights: WeightsMode) -> Artifact:
    """The artifact, which knows its file."""
    file = SavedFile(os.path.realpath(archive.name), stated_digest(archive.file))
    return replace(_read(archive, weights), file=file)


def _open_archive(path: str | os.PathLike[str]) -> Archive:
    name = artifact_path(path)
    return Archive(open_plain_file(name, what="the artifact"), name)


def _read(archive: Archive, weights: WeightsMode) -> Artifact:
    pipeline = archive.pipeline()
    if pipeline is None:
        return _read_program(archive, weights)
    # Who runs some segments reads the weights of these.
    first = _read_program(archive, "mapped", pipeline, pipeline.roles[0].devices)
    others = [
        _read_program(archive.segment(ordinal), "mapped", None, role.devices)
        for ordinal, role in enumerate(pipeline.roles[1:], 1)
    ]
    made = replace(first, others=tuple(others))
    programs = [
        replace(segment.program, inputs=segment.program.inputs[: segment.division.inputs_of_caller(segment.program)])
        for segment in made.segments
        if segment.division is not None
    ]
    try:
        pipeline.expect_programs(programs)
    except ValueError as problem:
        raise archive.malformed(f"{PIPELINE}: {problem}") from problem
    return made


def _read_program(
    archive: Archive,
    weights: WeightsMode,
    pipeline: Pipeline | None = None,
    devices: Sequence[int] | None = None,
) -> Artifact:
    """The artifact but the segments behind it, in `pipeline`. devices: what the program calls those that run it."""
    images = {image.target: archive.member(image.member) for image in archive.images}
    encoded, provenance, report = (archive.json(name) for name in (PROGRAM, PROVENANCE, REPORT))
    device = archive.device_code()
    data = archive.weights(resident=weights == "resident")
    try:
        program = decode_program(encoded, data.nbytes)
    except DecodeError as problem:
        raise archive.malformed(f"{PROGRAM}: {problem}") from problem
    if not isinstance(provenance, Mapping):
        raise archive.malformed(f"{PROVENANCE} is no object")
    kernels = b"" if device is None else archive.member(KERNELS)
    division = archive.division(program, devices)
    if division is None and devices is not None:
        raise archive.malformed(f"a segment has no {DIVISION}")
    divided = divided_bytes(division, pipeline)
    digest = program_digest(archive.member(PROGRAM), kernels, divided, data.nbytes)
    for image in archive.images:
        if not is_tied(images[image.target], digest):
            raise archive.malformed(f"{image.member} was not compiled for this program and these weights")
    features = {image.target: image.features for image in archive.images}
    return Artifact(program, images, data, provenance, report, features, device, division, pipeline)


def _fitting_target(artifact: Artifact) -> str:
    """The target whose image this machine can execute, the one that uses most of it."""
    lacking = {target: set(artifact.features.get(target, ())) - host_features() for target in artifact.images}
    fitting = [target for target in artifact.images if not lacking[target]]
    if fitting:
        return max(fitting, key=lambda target: len(artifact.features.get(target, ())))
    listed = "; ".join(f"{target} needs {', '.join(sorted(features))}" for target, features in lacking.items())
    message = f"this machine cannot execute the code in the artifact: {listed or 'there is none'}"
    raise DeviceError(message, code="image-features")


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()
