"""ONNX element types: the number, the name and the place of storage that ONNX gives each `DType`.

How elements look in memory is told by compiler/ir/dtypes.py.
"""

from collections.abc import Mapping
from typing import Literal

from onnxc.compiler.ir import dtypes
from onnxc.compiler.ir.dtypes import DType
from onnxc.runtime.records import record

__all__ = ["ELEMENT_TYPES", "DataField", "ElementType", "code_of", "dtype_of_element_type"]

DataField = Literal["float_data", "int32_data", "int64_data", "uint64_data", "double_data", "string_data"]


@record
class ElementType:
    """One row of TensorProto.DataType; `name` is the one of type strings, as in tensor(float)."""

    code: int
    name: str
    dtype: DType
    field: DataField

    def __str__(self) -> str:
        return self.name

    @property
    def raw_bits(self) -> int:
        """The bits of one element in raw_data and in external files; 0 for strings, which are in neither."""
        return 8 if self.dtype.is_bool else self.dtype.bits

    @property
    def elements_per_entry(self) -> int:
        """How many elements share one entry of `field`: 2 of four bits, 4 of two bits, else 1."""
        return {4: 2, 2: 4}.get(self.dtype.bits, 1)

    @property
    def entries_per_element(self) -> int:
        """How many entries of `field` one element takes: 2 for complex types, else 1."""
        return 2 if self.dtype.is_complex else 1


def _table(*rows: tuple[int, str, DType, DataField]) -> Mapping[int, ElementType]:
    return {row[0]: ElementType(*row) for row in rows}


ELEMENT_TYPES: Mapping[int, ElementType] = _table(
    (1, "float", dtypes.F32, "float_data"),
    (2, "uint8", dtypes.U8, "int32_data"),
    (3, "int8", dtypes.I8, "int32_data"),
    (4, "uint16", dtypes.U16, "int32_data"),
    (5, "int16", dtypes.I16, "int32_data"),
    (6, "int32", dtypes.I32, "int32_data"),
    (7, "int64", dtypes.I64, "int64_data"),
    (8, "string", dtypes.STRING, "string_data"),
    (9, "bool", dtypes.BOOL, "int32_data"),
    (10, "float16", dtypes.F16, "int32_data"),
    (11, "double", dtypes.F64, "double_data"),
    (12, "uint32", dtypes.U32, "uint64_data"),
    (13, "uint64", dtypes.U64, "uint64_data"),
    (14, "complex64", dtypes.C64, "float_data"),
    (15, "complex128", dtypes.C128, "double_data"),
    (16, "bfloat16", dtypes.BF16, "int32_data"),
    (17, "float8e4m3fn", dtypes.F8E4M3FN, "int32_data"),
    (18, "float8e4m3fnuz", dtypes.F8E4M3FNUZ, "int32_data"),
    (19, "float8e5m2", dtypes.F8E5M2, "int32_data"),
    (20, "float8e5m2fnuz", dtypes.F8E5M2FNUZ, "int32_data"),
    (21, "uint4", dtypes.U4, "int32_data"),
    (22, "int4", dtypes.I4, "int32_data"),
    (23, "float4e2m1", dtypes.F4E2M1, "int32_data"),
    (24, "float8e8m0", dtypes.F8E8M0, "int32_data"),
    (25, "uint2", dtypes.U2, "int32_data"),
    (26, "int2", dtypes.I2, "int32_data"),
    (27, "float6e2m3", dtypes.F6E2M3, "int32_data"),
    (28, "float6e3m2", dtypes.F6E3M2, "int32_data"),
)

_CODES = {element.dtype: code for code, element in ELEMENT_TYPES.items()}


def dtype_of_element_type(code: int) -> DType | None:
    """The element type that ONNX gives `code`, None where it gives none."""
    element = ELEMENT_TYPES.get(code)
    return None if element is None else element.dtype


def code_of(dtype: DType) -> int:
    """The number that ONNX gives `dtype`."""
    return _CODES[dtype]
