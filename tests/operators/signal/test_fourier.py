"""DFT and STFT against the sums that define them."""

import numpy as np
import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.runtime.errors import InputError
from tests.operators.host_models import TARGETS, run_ml
from tests.operators.tensor_operators import WAYS, lower_operator, run_operator
from tests.support.arrays import assert_close, assert_same

RANDOM = np.random.default_rng(0)


def transform(x: np.ndarray, length: int, axis: int, *, inverse: bool = False) -> np.ndarray:
    """The complex sums, of a signal that is cut or filled up with zeros."""
    signal = np.moveaxis(x.astype(np.float64), axis, -2)
    whole = signal[..., 0] + 1j * (signal[..., 1] if x.shape[-1] == 2 else 0)
    fitted = np.zeros((*whole.shape[:-1], length), complex)
    kept = min(length, whole.shape[-1])
    fitted[..., :kept] = whole[..., :kept]
    n = np.arange(length)
    turns = np.exp((2j if inverse else -2j) * np.pi * np.outer(n, n) / length)
    return np.moveaxis(fitted @ turns / (length if inverse else 1), -1, axis)


def pairs(x: np.ndarray, dtype: type[np.generic] = np.float32) -> np.ndarray:
    return np.stack([x.real, x.imag], -1).astype(dtype)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("length", [None, 1, 3, 8])
@pytest.mark.parametrize("inverse", [0, 1])
def test_all_axes_and_lengths(parts: int, axis: int, length: int | None, inverse: int) -> None:
    x = RANDOM.standard_normal((2, 5, 4, parts)).astype(np.float32)
    size = length or x.shape[axis % 4]
    expected = pairs(transform(x, size, axis % 4, inverse=bool(inverse)))
    lengths = None if length is None else np.array(length)
    (y,) = run_operator("DFT", {"x": x, "dft_length": lengths}, opset=17, axis=axis, inverse=inverse)
    assert_close(y, expected, terms=8)
    inputs = {"x": x, "dft_length": lengths, "axis": np.array(axis)}
    for way in WAYS:
        (y,) = run_operator("DFT", inputs, opset=20, way=way, parameters=("dft_length", "axis"), inverse=inverse)
        assert_close(y, expected, terms=8)


@pytest.mark.parametrize("inverse", [0, 1])
def test_sizes_are_kept_along_an_axis_that_the_call_tells(inverse: int) -> None:
    inputs = {"x": np.zeros((2, 5, 4, 1), np.float32), "length": None, "axis": np.array(1)}
    module = lower_operator("DFT", inputs, opset=20, way="data", parameters=("axis",), inverse=inverse)
    (x, _), (y,) = module.main.body.parameters, module.main.body.results
    assert y.shape == (*x.shape[:-1], 2)


@pytest.mark.parametrize("length", [6, 7])
@pytest.mark.parametrize("target", TARGETS)
def test_one_side_of_a_real_signal_and_back(length: int, target: str) -> None:
    x = RANDOM.standard_normal((2, length, 1)).astype(np.float32)
    options = {"version": 20, "domain": "", "target": target, "symbolic": True, "onesided": 1}
    (half,) = run_ml("DFT", {"x": x}, **options)
    assert_close(half, pairs(transform(x, length, 1)[:, : length // 2 + 1]), terms=length)
    (back,) = run_ml("DFT", {"x": half, "length": np.array(length)}, inverse=1, **options)
    assert_close(back, x, terms=length)


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("target", TARGETS)
def test_half_a_spectrum_of_sizes_that_the_call_tells(axis: int, target: str) -> None:
    x = RANDOM.standard_normal((6, 4, 1)).astype(np.float32)
    half = pairs(transform(x, x.shape[axis], axis % 3)).take(range(x.shape[axis] // 2 + 1), axis)
    inputs = {"x": half, "length": np.array(x.shape[axis]), "axis": np.array(axis)}
    options = {"domain": "", "target": target, "symbolic": True, "inverse": 1, "onesided": 1}
    assert_close(*run_ml("DFT", inputs, version=20, **options), x, terms=8)
    assert_close(*run_ml("DFT", {"x": half}, version=17, axis=axis, **options), x, terms=8)


def test_the_length_of_a_real_signal_is_even_by_default() -> None:
    (y,) = run_operator("DFT", {"x": np.ones((1, 4, 2), np.float32)}, opset=20, inverse=1, onesided=1)
    assert isinstance(y, np.ndarray)
    assert y.shape == (1, 6, 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_floats(dtype: type[np.generic]) -> None:
    x = RANDOM.standard_normal((2, 5, 1)).astype(dtype)
    (y,) = run_operator("DFT", {"x": x}, opset=20)
    assert_close(y, pairs(transform(x, 5, 1), dtype), terms=5)


@pytest.mark.parametrize("axis", [-1, 2, -4])
def test_the_axis_of_the_parts_is_no_signal_axis(axis: int) -> None:
    x = np.zeros((2, 3, 1), np.float32)
    with pytest.raises(DiagnosedModelError, match="axis is"):
        run_operator("DFT", {"x": x}, opset=17, axis=axis)
    inputs = {"x": x, "dft_length": None, "axis": np.array(axis)}
    with pytest.raises(InputError, match="is no signal axis"):
        run_operator("DFT", inputs, opset=20, way="data", parameters=("axis",))


def test_one_side_of_a_complex_signal_is_refused() -> None:
    with pytest.raises(DiagnosedModelError, match="one-sided transform of a complex signal"):
        run_operator("DFT", {"x": np.zeros((2, 3, 2), np.float32)}, opset=20, onesided=1)


# STFT


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("step", "length", "windowed"), [(3, 4, True), (1, 5, False), (4, None, True), (2, 11, True)])
def test_frames(way: str, parts: int, step: int, length: int | None, windowed: bool) -> None:
    x = RANDOM.standard_normal((2, 11, parts)).astype(np.float32)
    size = length or 4
    window = RANDOM.standard_normal(size).astype(np.float32) if windowed else None
    lengths = None if length is None else np.array(length)
    inputs = {"signal": x, "frame_step": np.array(step), "window": window, "frame_length": lengths}
    onesided = int(parts == 1)
    weights = np.ones(size) if window is None else window
    starts = range(0, 11 - size + 1, step)
    expected = np.stack(
        [transform(x[:, start : start + size] * weights[:, np.newaxis], size, 1) for start in starts], 1
    )
    bins = size // 2 + 1 if onesided else size
    parameters = ("frame_step", "frame_length")
    (y,) = run_operator("STFT", inputs, opset=17, way=way, parameters=parameters, onesided=onesided)
    assert_close(y, pairs(expected[:, :, :bins]), terms=8)


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("way", WAYS)
def test_a_signal_without_an_axis_of_parts_is_real(way: str, batch: int) -> None:
    x = RANDOM.standard_normal((batch, 9)).astype(np.float32)
    further = {"frame_step": np.array(2), "window": np.hanning(4).astype(np.float32)}
    flat, with_parts = (
        run_operator("STFT", {"signal": signal, **further}, opset=17, way=way, parameters=("frame_step",))
        for signal in (x, x[:, :, np.newaxis])
    )
    assert flat[0].shape == (batch, 3, 3, 2)
    assert_same(flat[0], with_parts[0])


@pytest.mark.parametrize("shape", [(9,), (2, 9, 3), (2, 9, 1, 1)])
def test_a_signal_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    inputs = {"signal": np.zeros(shape, np.float32), "frame_step": np.array(2), "window": np.ones(4, np.float32)}
    with pytest.raises(DiagnosedModelError, match="signal-shape"):
        run_operator("STFT", inputs, opset=17)


def test_a_frame_may_not_be_longer_than_the_signal() -> None:
    inputs = {"signal": np.zeros((1, 3, 1), np.float32), "frame_step": np.array(1), "window": np.ones(4, np.float32)}
    with pytest.raises(InputError, match="shorter than a frame"):
        run_operator("STFT", inputs, opset=17, way="symbolic", parameters=("frame_step",))


def test_a_batch_of_nothing() -> None:
    inputs = {"signal": np.zeros((0, 4, 1), np.float32), "frame_step": np.array(2), "window": np.ones(2, np.float32)}
    assert_same(*run_operator("STFT", inputs, opset=17), np.zeros((0, 2, 2, 2), np.float32))
