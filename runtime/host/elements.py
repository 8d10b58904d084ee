"""Element types that NumPy does not compute in itself: which wider type they are computed in, and the way back."""

from collections.abc import Callable

import ml_dtypes
import numpy as np

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)

# The type a value is computed in; what is absent is computed as it is.
WIDER: dict[np.dtype, np.dtype] = {
    np.dtype(np.float16): F32,
    np.dtype(ml_dtypes.bfloat16): F32,
    np.dtype(ml_dtypes.float8_e4m3fn): F32,
    np.dtype(ml_dtypes.float8_e4m3fnuz): F32,
    np.dtype(ml_dtypes.float8_e5m2): F32,
    np.dtype(ml_dtypes.float8_e5m2fnuz): F32,
    np.dtype(ml_dtypes.float8_e8m0fnu): F32,
    np.dtype(ml_dtypes.float6_e2m3fn): F32,
    np.dtype(ml_dtypes.float6_e3m2fn): F32,
    np.dtype(ml_dtypes.float4_e2m1fn): F32,
    np.dtype(ml_dtypes.int4): np.dtype(np.int8),
    np.dtype(ml_dtypes.int2): np.dtype(np.int8),
    np.dtype(ml_dtypes.uint4): np.dtype(np.uint8),
    np.dtype(ml_dtypes.uint2): np.dtype(np.uint8),
}


def wider(dtype: np.dtype) -> np.dtype:
    """The type that values of `dtype` are computed in."""
    return WIDER.get(dtype, dtype)


def widen(x: np.ndarray) -> np.ndarray:
    """`x` in the type it is computed in, exactly; `x` itself where that is its own."""
    return x.astype(wider(x.dtype), copy=False)


def narrow(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A computed value back in `dtype`: floats round to nearest even, integers wrap. Scalars become rank-0 arrays."""
    return np.asarray(x).astype(dtype, copy=False)


def is_integer(dtype: np.dtype) -> bool:
    """Whether `dtype` is one of the signed or unsigned integers."""
    return wider(dtype).kind in "iu"


def is_float(dtype: np.dtype) -> bool:
    """Whether `dtype` is one of the real floating-point types."""
    return wider(dtype).kind == "f"


def finite_range(dtype: np.dtype) -> tuple[float, float]:
    """The least and the greatest finite value of a float type."""
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return float(limits.min), float(limits.max)


def value_range(dtype: np.dtype) -> tuple[float | int | bool, float | int | bool]:
    """What no value of `dtype` is less and none is greater than: infinities where the type has them."""
    if dtype.kind == "b":
        return False, True
    if is_integer(dtype):
        limits = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
        return int(limits.min), int(limits.max)
    has_infinity = np.isinf(np.array(np.inf, F32).astype(dtype).astype(F64))
    return (-np.inf, np.inf) if has_infinity else finite_range(dtype)


def in_double(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """An elementary function that computes f32 in f64 and rounds once, and other types in themselves.

    NumPy's own f32 functions differ in the last bits from one vector unit to the next; a folded constant must not.
    """

    def evaluate(*operands: np.ndarray) -> np.ndarray:
        if operands[0].dtype != F32:
            return function(*operands)
        return np.asarray(function(*(x.astype(F64) for x in operands))).astype(F32)

    return evaluate
