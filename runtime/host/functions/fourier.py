"""Discrete Fourier transforms, by NumPy's fast ones: f64 signals in double precision, all others in single.

NumPy's own single precision is what the standard's tests expect, to the bits that are almost zero.
"""

import numpy as np

from onnxc.runtime.errors import InputError
from onnxc.runtime.host.attributes import flag
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_array


@function("fourier_transform")
def fourier_transform(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[..., 1 or 2], length: i64[], axis: i64[]  ->  T[..., 2], of an inverse one-sided transform T[..., 1]

    The last axis holds real and imaginary parts. The signal is cut, or filled up with zeros, to `length`.
    """
    x, length, axis = as_array(operands[0]), *(int(as_array(operand).item()) for operand in operands[1:])
    is_inverse, is_onesided = (flag(attributes, name, default=False) for name in ("inverse", "onesided"))
    if not -x.ndim <= axis < x.ndim - 1 or axis == -1:
        raise InputError(f"DFT: axis {axis} is no signal axis of {list(x.shape)}", code="axis-out-of-range")
    if length < 1:
        raise InputError(f"DFT: the length of the signal is {length}", code="transform-length")
    axis %= x.ndim
    if is_onesided and is_inverse:
        real = np.fft.irfft(_as_complex(x), length, axis)
        return (real[..., np.newaxis].astype(x.dtype),)
    if is_onesided:
        if x.shape[-1] != 1:
            raise InputError("DFT: a one-sided transform takes a real signal", code="complex-signal")
        return (_as_pairs(np.fft.rfft(_computed(x)[..., 0], length, axis), x.dtype),)
    transform = np.fft.ifft if is_inverse else np.fft.fft
    return (_as_pairs(transform(_as_complex(x), length, axis), x.dtype),)


@function("short_time_fourier_transform")
def short_time_fourier_transform(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: T[B, S, 1 or 2], step: i64[], window: T[L]  ->  T[B, frames, bins, 2]: a transform of each windowed frame"""
    x, window = as_array(operands[0]), _computed(as_array(operands[2]))
    step, length = int(as_array(operands[1]).item()), window.size
    is_onesided = flag(attributes, "onesided", default=True)
    if step < 1 or not 1 <= length <= x.shape[1]:
        message = f"STFT: frames of {length} every {step} of a signal of {x.shape[1]} elements"
        raise InputError(message, code="transform-length")
    if is_onesided and x.shape[-1] != 1:
        raise InputError("STFT: a one-sided transform takes a real signal", code="complex-signal")
    signal = _computed(x)[..., 0] if x.shape[-1] == 1 else _as_complex(x)
    frames = np.lib.stride_tricks.sliding_window_view(signal, length, 1)[:, ::step] * window
    transform = np.fft.rfft if is_onesided else np.fft.fft
    return (_as_pairs(transform(frames, axis=-1), x.dtype),)


def _computed(x: np.ndarray) -> np.ndarray:
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _as_complex(x: np.ndarray) -> np.ndarray:
    """T[..., 1 or 2]  ->  c64[...] or c128[...]"""
    parts = _computed(x)
    complex_type = np.complex128 if parts.dtype == np.float64 else np.complex64
    whole = parts[..., 0].astype(complex_type)
    if x.shape[-1] == 2:
        whole.imag = parts[..., 1]
    return whole


def _as_pairs(x: np.ndarray, dtype: "np.dtype[np.generic]") -> np.ndarray:
    """c64[...] or c128[...]  ->  dtype[..., 2]"""
    return np.stack([x.real, x.imag], -1).astype(dtype)
