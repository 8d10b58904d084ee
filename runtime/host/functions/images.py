"""Decoding images, by Pillow where it is installed."""

import importlib
import io
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.host.attributes import text
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_array

# The channels of a pixel format, and Pillow's name of it.
FORMATS: Mapping[str, tuple[int, str]] = {"RGB": (3, "RGB"), "BGR": (3, "RGB"), "Grayscale": (1, "L")}


class _Image(Protocol):
    def convert(self, mode: str) -> "_Image": ...


class _Pillow(Protocol):
    """What is used of the module PIL.Image."""

    def open(self, file: io.BytesIO) -> _Image: ...


@function("decode_image")
def decode_image(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """encoded: u8[n]  ->  u8[H, W, C], C = 1 for Grayscale, else 3; of size 0 where it cannot be decoded"""
    name = text(attributes, "pixel_format")
    channels, mode = FORMATS[name]
    pillow = _pillow()
    try:
        image = pillow.open(io.BytesIO(as_array(operands[0]).tobytes())).convert(mode)
        pixels = np.asarray(image, np.uint8)
    except Exception:
        # The standard asks for an empty image for any reason, and decoders raise what they like.
        return (np.empty((0, 0, channels), np.uint8),)
    pixels = pixels.reshape(*pixels.shape[:2], channels)
    return (pixels[..., ::-1] if name == "BGR" else pixels,)


def _pillow() -> _Pillow:
    try:
        module: _Pillow = importlib.import_module("PIL.Image")
    except ImportError as problem:
        message = "ImageDecoder needs Pillow, which is not installed: pip install Pillow"
        raise DeviceError(message, code="library-missing") from problem
    return module
