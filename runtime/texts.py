"""Texts among the weights: a length in bytes, as 8 bytes, then JSON."""

import json

import numpy as np
import numpy.typing as npt

from onnxc.runtime.errors import DeviceError

__all__ = ["LENGTH_BYTES", "decode_texts", "encode_texts"]

LENGTH_BYTES = 8


def encode_texts(array: np.ndarray) -> npt.NDArray[np.uint8]:
    """The bytes that an array of texts takes among the weights."""
    data = json.dumps(array.reshape(-1).tolist()).encode()
    return np.frombuffer(len(data).to_bytes(LENGTH_BYTES, "little") + data, np.uint8)


def decode_texts(weights: np.ndarray, offset: int, shape: tuple[int, ...]) -> np.ndarray:
    """The array of texts at a place in the weights; DeviceError where there is none of this shape."""
    start = offset + LENGTH_BYTES
    length = int.from_bytes(weights[offset:start].tobytes(), "little")
    try:
        decoded = json.loads(weights[start : start + length].tobytes())
        if not isinstance(decoded, list) or not all(isinstance(text, str) for text in decoded):
            raise ValueError("no list of texts")
        array = np.empty(len(decoded), object)
        array[:] = decoded
        return array.reshape(shape)
    except (ValueError, RecursionError) as problem:
        raise DeviceError(
            f"the texts at byte {offset} of the weights are damaged", code="artifact-malformed"
        ) from problem
