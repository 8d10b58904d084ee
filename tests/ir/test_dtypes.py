"""All 28 element types: widths, kinds, NumPy counterparts."""

import numpy as np
import pytest

from onnxc.compiler.ir.dtypes import BOOL, DTYPES, F32, I4, STRING, DType, dtype_of

# name: bits in the model, bytes in memory, kind
TABLE = {
    "f64": (64, 8, "float"),
    "f32": (32, 4, "float"),
    "f16": (16, 2, "float"),
    "bf16": (16, 2, "float"),
    "f8e4m3fn": (8, 1, "float"),
    "f8e4m3fnuz": (8, 1, "float"),
    "f8e5m2": (8, 1, "float"),
    "f8e5m2fnuz": (8, 1, "float"),
    "f8e8m0": (8, 1, "float"),
    "f6e2m3": (6, 1, "float"),
    "f6e3m2": (6, 1, "float"),
    "f4e2m1": (4, 1, "float"),
    "i64": (64, 8, "int"),
    "i32": (32, 4, "int"),
    "i16": (16, 2, "int"),
    "i8": (8, 1, "int"),
    "i4": (4, 1, "int"),
    "i2": (2, 1, "int"),
    "u64": (64, 8, "uint"),
    "u32": (32, 4, "uint"),
    "u16": (16, 2, "uint"),
    "u8": (8, 1, "uint"),
    "u4": (4, 1, "uint"),
    "u2": (2, 1, "uint"),
    "bool": (1, 1, "bool"),
    "c64": (64, 8, "complex"),
    "c128": (128, 16, "complex"),
    "string": (0, 8, "string"),
}


def test_there_are_28_element_types() -> None:
    assert {name: (d.bits, d.itemsize, d.kind) for name, d in DTYPES.items()} == TABLE
    assert len(DTYPES) == 28


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_the_numpy_counterpart_leads_back(dtype: DType) -> None:
    assert dtype_of(dtype.numpy) is dtype
    assert np.zeros(2, dtype.numpy).dtype == dtype.numpy
    assert str(dtype) == repr(dtype) == dtype.name


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_type_is_of_one_kind(dtype: DType) -> None:
    flags = [dtype.is_float, dtype.is_integer, dtype.is_bool, dtype.is_string, dtype.is_complex]
    assert sum(flags) == 1


def test_what_has_a_sign() -> None:
    assert {name for name, dtype in DTYPES.items() if not dtype.is_signed} == {
        *("u64", "u32", "u16", "u8", "u4", "u2"),
        *("bool", "string"),
    }


@pytest.mark.parametrize("numpy", [np.dtype("U5"), np.dtype("S1"), np.dtype(object), np.str_])
def test_texts_of_numpy_are_strings(numpy: np.dtype | type) -> None:
    assert dtype_of(numpy) is STRING


@pytest.mark.parametrize("numpy", [np.dtype("datetime64[s]"), np.dtype("longdouble"), np.dtype([("a", "f4")])])
def test_other_types_of_numpy_are_refused(numpy: np.dtype) -> None:
    with pytest.raises(KeyError):
        dtype_of(numpy)


def test_a_scalar_type_will_do() -> None:
    assert dtype_of(np.float32) is F32
    assert dtype_of(np.bool_) is BOOL
    assert dtype_of(I4.numpy.type) is I4
