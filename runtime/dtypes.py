"""Element types by the names that programs use for them, and back."""

import numpy as np

from onnxc.runtime.program import numpy_dtype

DType = np.dtype[np.generic]

DTYPES: dict[str, DType] = {
    name: numpy_dtype(name)
    for name in (
        "f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f6e2m3", "f6e3m2",
        "f4e2m1", "i64", "i32", "i16", "i8", "i4", "i2", "u64", "u32", "u16", "u8", "u4", "u2", "bool", "c64", "c128",
        "string",
    )
}  # fmt: skip

STRING = DTYPES["string"]

_NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "string"}


def dtype_name(dtype: DType) -> str:
    """The name that a program uses for `dtype`, NumPy's own for what no program can hold."""
    if dtype.kind in "UT":
        return "string"
    name = _NAMES.get(dtype)
    return str(dtype) if name is None else name


def dtype_kind(dtype: DType) -> str:
    """ "bool", "integer", "float", "complex" or "string"; NumPy does not know it of the types of ml_dtypes."""
    name = dtype_name(dtype)
    if name in ("bool", "string"):
        return name
    return {"i": "integer", "u": "integer", "c": "complex"}.get(name[0], "float")
