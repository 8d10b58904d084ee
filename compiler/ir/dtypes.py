"""Element types: their names, widths and NumPy counterparts.

All 28 element types of ONNX are here; which number ONNX gives each is the frontend's to know. Types narrower than a
byte take one byte per element in memory, as in ml_dtypes.
"""

from typing import Literal

import ml_dtypes
import numpy as np

from onnxc.runtime.records import record

Kind = Literal["float", "int", "uint", "bool", "complex", "string"]


@record
class DType:
    """An element type; `bits` is its width in the model, `itemsize` its bytes in memory."""

    name: str
    numpy: np.dtype[np.generic]
    bits: int
    kind: Kind

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float", "complex")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_string(self) -> bool:
        return self.kind == "string"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"


def _dtype(name: str, scalar: type, bits: int, kind: Kind) -> DType:
    return DType(name, np.dtype(scalar), bits, kind)


F64 = _dtype("f64", np.float64, 64, "float")
F32 = _dtype("f32", np.float32, 32, "float")
F16 = _dtype("f16", np.float16, 16, "float")
BF16 = _dtype("bf16", ml_dtypes.bfloat16, 16, "float")
F8E4M3FN = _dtype("f8e4m3fn", ml_dtypes.float8_e4m3fn, 8, "float")
F8E4M3FNUZ = _dtype("f8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 8, "float")
F8E5M2 = _dtype("f8e5m2", ml_dtypes.float8_e5m2, 8, "float")
F8E5M2FNUZ = _dtype("f8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 8, "float")
F8E8M0 = _dtype("f8e8m0", ml_dtypes.float8_e8m0fnu, 8, "float")
F6E2M3 = _dtype("f6e2m3", ml_dtypes.float6_e2m3fn, 6, "float")
F6E3M2 = _dtype("f6e3m2", ml_dtypes.float6_e3m2fn, 6, "float")
F4E2M1 = _dtype("f4e2m1", ml_dtypes.float4_e2m1fn, 4, "float")
I64 = _dtype("i64", np.int64, 64, "int")
I32 = _dtype("i32", np.int32, 32, "int")
I16 = _dtype("i16", np.int16, 16, "int")
I8 = _dtype("i8", np.int8, 8, "int")
I4 = _dtype("i4", ml_dtypes.int4, 4, "int")
I2 = _dtype("i2", ml_dtypes.int2, 2, "int")
U64 = _dtype("u64", np.uint64, 64, "uint")
U32 = _dtype("u32", np.uint32, 32, "uint")
U16 = _dtype("u16", np.uint16, 16, "uint")
U8 = _dtype("u8", np.uint8, 8, "uint")
U4 = _dtype("u4", ml_dtypes.uint4, 4, "uint")
U2 = _dtype("u2", ml_dtypes.uint2, 2, "uint")
BOOL = _dtype("bool", np.bool_, 1, "bool")
C64 = _dtype("c64", np.complex64, 64, "complex")
C128 = _dtype("c128", np.complex128, 128, "complex")
STRING = _dtype("string", np.object_, 0, "string")

DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in tuple(globals().values()) if isinstance(dtype, DType)}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES.values()}


def dtype_of(numpy: "np.dtype[np.generic] | type") -> DType:
    """The element type whose NumPy counterpart is `numpy`; NumPy's string types count as `string`.

    Raises KeyError for a NumPy type that no ONNX type corresponds to.
    """
    wanted = np.dtype(numpy)
    if wanted.kind in "UST":
        return STRING
    return _BY_NUMPY[wanted]
