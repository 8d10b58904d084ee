"""ImageDecoder: what comes out with Pillow, and what is said without it."""

import importlib.util
import io

import numpy as np
import pytest

from onnxc.runtime.errors import DeviceError
from onnxc.runtime.host.functions import FUNCTIONS, images
from tests.operators.host_models import TARGETS, run_ml
from tests.support.arrays import assert_same

PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
NEEDS_PILLOW = pytest.mark.skipif(importlib.util.find_spec("PIL") is None, reason="Pillow is not installed")


def portable_pixmap(pixels: np.ndarray) -> np.ndarray:
    """The pixels in the PPM format, which is plain bytes behind a header."""
    height, width, _ = pixels.shape
    return np.frombuffer(f"P6 {width} {height} 255\n".encode() + pixels.tobytes(), np.uint8)


@NEEDS_PILLOW
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("pixel_format", "expected"), [("RGB", PIXELS), ("BGR", PIXELS[..., ::-1])])
def test_pixels(target: str, pixel_format: str, expected: np.ndarray) -> None:
    encoded = {"x": portable_pixmap(PIXELS)}
    (y,) = run_ml("ImageDecoder", encoded, version=20, domain="", target=target, pixel_format=pixel_format)
    assert_same(y, expected)


@NEEDS_PILLOW
def test_grey() -> None:
    (y,) = FUNCTIONS["decode_image"]([portable_pixmap(np.full((2, 3, 3), 7, np.uint8))], {"pixel_format": "Grayscale"})
    assert isinstance(y, np.ndarray)
    assert_same(y, np.full((2, 3, 1), 7, np.uint8))


@NEEDS_PILLOW
@pytest.mark.parametrize(("pixel_format", "channels"), [("RGB", 3), ("Grayscale", 1)])
def test_what_cannot_be_decoded_is_empty(pixel_format: str, channels: int) -> None:
    (y,) = FUNCTIONS["decode_image"]([np.arange(9, dtype=np.uint8)], {"pixel_format": pixel_format})
    assert isinstance(y, np.ndarray)
    assert_same(y, np.empty((0, 0, channels), np.uint8))


def test_without_pillow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(images.importlib, "import_module", missing)
    with pytest.raises(DeviceError, match="pip install Pillow"):
        FUNCTIONS["decode_image"]([portable_pixmap(PIXELS)], {"pixel_format": "RGB"})


class _Picture:
    """Stands in for Pillow."""

    @staticmethod
    def open(file: io.BytesIO) -> "_Picture":
        return _Picture()

    def convert(self, mode: str) -> np.ndarray:
        return PIXELS if mode == "RGB" else PIXELS[..., 0]


@pytest.mark.parametrize(
    ("pixel_format", "expected"), [("RGB", PIXELS), ("BGR", PIXELS[..., ::-1]), ("Grayscale", PIXELS[..., :1])]
)
def test_channels(monkeypatch: pytest.MonkeyPatch, pixel_format: str, expected: np.ndarray) -> None:
    monkeypatch.setattr(images.importlib, "import_module", lambda name: _Picture)
    (y,) = FUNCTIONS["decode_image"]([np.zeros(1, np.uint8)], {"pixel_format": pixel_format})
    assert isinstance(y, np.ndarray)
    assert_same(y, expected)
