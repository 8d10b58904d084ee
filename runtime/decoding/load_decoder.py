"""Decoders from artifacts: what their provenance says of them, and the sampler that it holds."""

import base64
import binascii
import importlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from onnxc.runtime.artifact import Artifact, artifact_bytes
from onnxc.runtime.decoding.cache_memory import HostCacheMemory, MakeCacheMemory
from onnxc.runtime.decoding.decoder import Decoder
from onnxc.runtime.decoding.description import Description, decode_description
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import DECODER, WeightsMode, make_compiled, make_executable, read_artifact, read_bytes
from onnxc.runtime.program import JsonValue

if TYPE_CHECKING:
    from onnxc.runtime.gpu.driver import Driver

__all__ = ["load_decoder", "make_compiled_decoder", "make_decoder", "with_decoder"]

SAMPLER = "sampler"


def load_decoder(
    path: str | os.PathLike[str],
    weights: WeightsMode = "mapped",
    threads: int | None = None,
    max_length: int | None = None,
    device: int = 0,
) -> Decoder:
    """The decoder that a file holds."""
    return make_decoder(read_artifact(path, weights), threads, max_length, device=device)


def with_decoder(artifact: Artifact, description: Description, sampler: Artifact) -> Artifact:
    """The artifact, which says that it is a decoder, and holds the sampler."""
    # As a list, which is not shown to people.
    code = [base64.b64encode(artifact_bytes(sampler)).decode()]
    provenance = {**artifact.provenance, DECODER: description.encoded(), SAMPLER: code}
    return replace(artifact, provenance=provenance)


def make_decoder(
    artifact: Artifact,
    threads: int | None = None,
    max_length: int | None = None,
    *,
    device: int = 0,
    driver: "Driver | None" = None,
) -> Decoder:
    """The decoder of an artifact.

    device: the number of the CUDA device, where the code is for one; driver: None is the one of this machine.

    Raises InputError where it is none, DeviceError where what it says of itself is damaged.
    """
    make = partial(make_executable, artifact, threads, device=device, driver=driver)
    return _decoder(artifact, make, threads, max_length)


def make_compiled_decoder(artifact: Artifact, threads: int | None = None, max_length: int | None = None) -> Decoder:
    """What was just compiled, ready to generate; or only to be saved, where it is for a GPU that is not here.

    Then a session that is fed raises the DeviceError that says what is missing.
    """
    return _decoder(artifact, partial(make_compiled, artifact, threads, 0), threads, max_length)


def _decoder(
    artifact: Artifact, make: Callable[[], Executable], threads: int | None, max_length: int | None
) -> Decoder:
    """The decoder of an artifact whose executable `make` gives."""
    said = artifact.provenance.get(DECODER)
    if said is None:
        message = "the file holds no decoder, as onnxc.compile_decoder makes it; onnxc.load reads it"
        raise InputError(message, code="no-decoder")
    try:
        description = decode_description(said, artifact.program)
        sampler = base64.b64decode(_only_text(artifact.provenance[SAMPLER]), validate=True)
    except (KeyError, ValueError, binascii.Error) as problem:
        message = f"what the file says of its decoder is damaged: {problem}"
        raise DeviceError(message, code="decoder-damaged") from problem
    executable = make()
    picks = make_executable(read_bytes(sampler, "mapped"), threads)
    return Decoder(executable, picks, description, _memory_beside(executable, artifact), artifact, max_length)


def _memory_beside(executable: Executable, artifact: Artifact) -> MakeCacheMemory:
    """What makes the memory of caches where the executable runs."""
    if artifact.device is None:
        return HostCacheMemory
    # Decoders for the CPU do without all that is needed for a device.
    module = importlib.import_module("onnxc.runtime.gpu.cache_memory")
    memory_beside: Callable[[Executable], MakeCacheMemory] = module.memory_beside
    return memory_beside(executable)


def _only_text(value: JsonValue) -> str:
    if not isinstance(value, list | tuple) or len(value) != 1 or not isinstance(value[0], str):
        raise ValueError("the sampler is not one text")
    return value[0]
