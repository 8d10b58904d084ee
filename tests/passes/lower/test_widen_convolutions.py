"""Convolutions of 16-bit floats: summed in f32, rounded to the type that was asked for."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.lower.widen_convolutions import widen_convolutions
from tests.passes.golden import N, Pair, check_pair

ONES = (1, 1)
FILTERS = np.random.default_rng(0).integers(-4, 5, (2, 3, 3, 3))


def _convolve(b: Builder, x: Value, w: DType, dtype: DType) -> Value:
    return b.convolution(x, b.constant(FILTERS.astype(w.numpy)), ONES, ONES, ONES, ONES, dtype=dtype)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
@pytest.mark.parametrize("sums", ["narrow", "wide"])
def test_operands_are_widened(dtype: DType, sums: str) -> None:
    result = dtype if sums == "narrow" else F32
    pair = Pair(
        (TensorType(dtype, (N, 3, 4, 4)),),
        lambda b, x: _convolve(b, x, dtype, result),
        lambda b, x: b.cast(_convolve(b, b.cast(x, F32), F32, F32), result),
        rounds=True,
    )
    check_pair(widen_convolutions, pair)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_wide_operands_stay(dtype: DType) -> None:
    pair = Pair((TensorType(dtype, (N, 3, 4, 4)),), lambda b, x: _convolve(b, x, dtype, dtype))
    check_pair(widen_convolutions, pair)
