"""Decoders from artifacts: what their provenance says of them, and the sampler that it holds."""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import replace

from onnxc.runtime.artifact import Artifact, artifact_bytes
from onnxc.runtime.decoding.decoder import Decoder
from onnxc.runtime.decoding.description import Description, decode_description
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.load import DECODER, WeightsMode, make_executable, read_artifact, read_bytes

__all__ = ["load_decoder", "make_decoder", "with_decoder"]


def load_decoder(
    path: str | os.PathLike[str],
    weights: WeightsMode = "mapped",
    threads: int | None = None,
    max_length: int | None = None,
) -> Decoder:
    """The decoder that a file holds."""
    return make_decoder(read_artifact(path, weights), threads, max_length)


def with_decoder(artifact: Artifact, description: Description, sampler: Artifact) -> Artifact:
    """The artifact, which says that it is a decoder, and holds the sampler."""
    said = {**description.encoded(), "sampler": base64.b64encode(artifact_bytes(sampler)).decode()}
    return replace(artifact, provenance={**artifact.provenance, DECODER: said})


def make_decoder(artifact: Artifact, threads: int | None = None, max_length: int | None = None) -> Decoder:
    """The decoder of an artifact.

    Raises InputError where it is none, DeviceError where what it says of itself is damaged.
    """
    said = artifact.provenance.get(DECODER)
    if said is None:
        message = "the file holds no decoder, as onnxc.compile_decoder makes it; onnxc.load reads it"
        raise InputError(message, code="no-decoder")
    try:
        description = decode_description(said, artifact.program)
        assert isinstance(said, Mapping)
        sampler = base64.b64decode(str(said["sampler"]), validate=True)
    except (KeyError, ValueError, binascii.Error) as problem:
        message = f"what the file says of its decoder is damaged: {problem}"
        raise DeviceError(message, code="decoder-damaged") from problem
    executable = make_executable(artifact, threads)
    return Decoder(
        executable, make_executable(read_bytes(sampler, "mapped"), threads), description, artifact, max_length
    )
