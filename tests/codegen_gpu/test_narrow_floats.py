"""Floats of 8 bits on a GPU: casts bit for bit those of the standard, products by tensor cores, nothing on the host."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxc
from onnxc.compiler.codegen_gpu.transfers import find_transfers
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F16, F32, I32, DType
from onnxc.compiler.ir.module import Value
from tests.codegen_gpu.support import SM_80, SM_90, Device, make, sample
from tests.support.fake_gpu import compile_for_fake

FLOATS = (F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ)


def around_every_number(dtype: DType) -> np.ndarray:
    """All numbers of a type, what lies halfway between neighbours, their neighbours in f32, and what is special."""
    numbers = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float32)
    finite = np.unique(numbers[np.isfinite(numbers)])
    halfway = (finite[1:] + finite[:-1]) / 2
    edge = finite[-1] + (finite[-1] - finite[-2]) * np.array([0.49, 0.5, 0.51, 1, 2], np.float32)
    exact = np.concatenate([numbers, halfway, edge, -edge, [np.inf, -np.inf, np.nan, -0.0, 1e-45, 3e38]])
    exact = exact.astype(np.float32)
    return np.concatenate([exact, np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(-np.inf))])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_casts_are_those_of_the_meaning_bit_for_bit(dtype: DType) -> None:
    x = around_every_number(dtype)

    def build(ir: Builder, x: Value) -> list[Value]:
        saturated, exact = ir.cast(x, dtype), ir.cast(x, dtype, saturate=False)
        return [saturated, exact, ir.cast(exact, F32), ir.cast(ir.add(saturated, exact), F16), ir.cast(exact, I32)]

    device = Device(make([f"f32[{x.size}]"], build))
    assert set(device.kernels()) == {"pointwise"}
    device.check(x, bound=0.0)


@pytest.mark.parametrize(("dtype", "numpy"), [(F8E4M3FN, ml_dtypes.float8_e4m3fn), (F8E5M2, ml_dtypes.float8_e5m2)])
def test_what_ml_dtypes_casts_without_saturation_is_the_same(dtype: DType, numpy: type) -> None:
    x = around_every_number(dtype)
    device = Device(make([f"f32[{x.size}]"], lambda ir, x: ir.cast(x, dtype, saturate=False)))
    (found,) = device(x)
    with np.errstate(all="ignore"):
        wanted = x.astype(numpy)
    is_number = ~np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(found.view(np.uint8)[is_number], wanted.view(np.uint8)[is_number])
    assert np.isnan(found.astype(np.float32)[~is_number]).all()
