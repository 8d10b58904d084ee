"""The meaning of Fourier transforms: NumPy's fast ones.

NumPy has forward transforms of f32 in double precision and inverse ones in single, and the standard's tests expect the
inverse to the bits that are almost zero; so the type to compute in is said for each.
"""

import numpy as np

from onnxc.runtime.host.attributes import flag
from onnxc.runtime.host.registry import Arrays, Attributes, meaning


@meaning("fourier")
def fourier(operands: Arrays, attributes: Attributes) -> tuple[np.ndarray, ...]:
    """x: T[..., m, 1 or 2], roots: W[n, 2]  ->  T[..., n, 2]; n is what is read of the roots."""
    x, (length, _) = operands[0], operands[1].shape
    wide = x.astype(np.float64 if operands[1].dtype == np.float64 else np.float32)
    inverse, onesided = (flag(attributes, name, default=False) for name in ("inverse", "onesided"))
    bins = length // 2 + 1 if onesided and not inverse else length
    parts = (*x.shape[:-2], bins, 1 if onesided and inverse else 2)
    if length == 0 or 0 in x.shape:
        return (np.zeros(parts, x.dtype),)
    if onesided and inverse:
        return (np.fft.irfft(_as_complex(wide), length)[..., np.newaxis].astype(x.dtype),)
    if onesided:
        return (_as_pairs(np.fft.rfft(wide[..., 0], length), x.dtype),)
    transform = np.fft.ifft if inverse else np.fft.fft
    return (_as_pairs(transform(_as_complex(wide), length), x.dtype),)


def _as_complex(x: np.ndarray) -> np.ndarray:
    """T[..., 1 or 2]  ->  c64[...] or c128[...]"""
    whole = x[..., 0].astype(np.complex128 if x.dtype == np.float64 else np.complex64)
    if x.shape[-1] == 2:
        whole.imag = x[..., 1]
    return whole


def _as_pairs(x: np.ndarray, dtype: "np.dtype[np.generic]") -> np.ndarray:
    """c64[...] or c128[...]  ->  dtype[..., 2]"""
    return np.stack([x.real, x.imag], -1).astype(dtype)
