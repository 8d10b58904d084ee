"""Element types at run time: the names that programs use for them, and their NumPy counterparts.

The same table as compiler/ir/dtypes.py, which the runtime must not import; a test compares the two.
"""

import ml_dtypes
import numpy as np

DType = np.dtype[np.generic]

DTYPES: dict[str, DType] = {
    name: np.dtype(scalar)
    for name, scalar in {
        "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
        "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
        "f8e5m2": ml_dtypes.float8_e5m2, "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "f8e8m0": ml_dtypes.float8_e8m0fnu,
        "f6e2m3": ml_dtypes.float6_e2m3fn, "f6e3m2": ml_dtypes.float6_e3m2fn, "f4e2m1": ml_dtypes.float4_e2m1fn,
        "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "i4": ml_dtypes.int4, "i2": ml_dtypes.int2,
        "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8, "u4": ml_dtypes.uint4,
        "u2": ml_dtypes.uint2, "bool": np.bool_, "c64": np.complex64, "c128": np.complex128, "string": np.object_,
    }.items()
}  # fmt: skip

STRING = DTYPES["string"]

_NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "string"}


def dtype_name(dtype: DType) -> str:
    """The name that a program uses for `dtype`, NumPy's own for what no program can hold."""
    if dtype.kind in "UT":
        return "string"
    return _NAMES.get(dtype, str(dtype))
