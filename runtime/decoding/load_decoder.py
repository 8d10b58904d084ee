"""Decoders from artifacts: what their provenance says of them, and the sampler that it holds."""

import base64
import binascii
import os
from dataclasses import replace

from onnxc.runtime.artifact import Artifact, artifact_bytes
from onnxc.runtime.decoding.decoder import Decoder
from onnxc.runtime.decoding.description import Description, decode_description
from onnxc.runtime.errors import DeviceError, InputError
from onnxc.runtime.load import DECODER, WeightsMode, make_executable, read_artifact, read_bytes
from onnxc.runtime.program import JsonValue

__all__ = ["load_decoder", "make_decoder", "with_decoder"]

SAMPLER = "sampler"


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
    # As a list, which is not shown to people.
    code = [base64.b64encode(artifact_bytes(sampler)).decode()]
    provenance = {**artifact.provenance, DECODER: description.encoded(), SAMPLER: code}
    return replace(artifact, provenance=provenance)


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
        sampler = base64.b64decode(_only_text(artifact.provenance[SAMPLER]), validate=True)
    except (KeyError, ValueError, binascii.Error) as problem:
        message = f"what the file says of its decoder is damaged: {problem}"
        raise DeviceError(message, code="decoder-damaged") from problem
    executable = make_executable(artifact, threads)
    return Decoder(
        executable, make_executable(read_bytes(sampler, "mapped"), threads), description, artifact, max_length
    )


def _only_text(value: JsonValue) -> str:
    if not isinstance(value, list | tuple) or len(value) != 1 or not isinstance(value[0], str):
        raise ValueError("the sampler is not one text")
    return value[0]
