"""Rows of 16-bit floats beside weights: widened where they are many, and no others."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.lower.widen_products import FEWEST_ROWS, widen_products_but
from tests.passes.golden import N, Pair, check_pair

WEIGHTS = np.random.default_rng(0).integers(-4, 5, (6, 5))
HALVES = pytest.mark.parametrize("dtype", [F16, BF16], ids=str)


def _weights(b: Builder, dtype: DType) -> Value:
    return b.constant(WEIGHTS.astype(dtype.numpy))


@HALVES
@pytest.mark.parametrize("rows", [FEWEST_ROWS, N])
def test_rows_are_widened_once(dtype: DType, rows: object) -> None:
    pair = Pair(
        (TensorType(dtype, (rows, 6)),),
        lambda b, x: b.dot(x, _weights(b, dtype), "mk,kn->mn", dtype),
        lambda b, x: b.dot(b.cast(x, F32), _weights(b, dtype), "mk,kn->mn", dtype),
        rounds=True,
    )
    check_pair(widen_products_but(()), pair)


@HALVES
def test_rows_of_the_right_operand_and_sums_of_f32(dtype: DType) -> None:
    pair = Pair(
        (TensorType(dtype, (2, 5, 4)),),
        lambda b, x: b.dot(_weights(b, dtype), x, "mk,akn->amn", F32),
        lambda b, x: b.dot(_weights(b, dtype), b.cast(x, F32), "mk,akn->amn", F32),
    )
    check_pair(widen_products_but(()), pair)


@HALVES
def test_few_rows_stay(dtype: DType) -> None:
    pair = Pair(
        (TensorType(dtype, (FEWEST_ROWS - 1, 6)),), lambda b, x: b.dot(x, _weights(b, dtype), "mk,kn->mn", dtype)
    )
    check_pair(widen_products_but(()), pair)


def test_computed_operands_stay() -> None:
    types = TensorType(F16, (N, 6)), TensorType(F16, (6, 9))
    check_pair(widen_products_but(()), Pair(types, lambda b, x, y: b.dot(x, y, "mk,kn->mn", F16)))


def test_what_the_target_multiplies_stays() -> None:
    pair = Pair((TensorType(BF16, (N, 6)),), lambda b, x: b.dot(x, _weights(b, BF16), "mk,kn->mn", BF16))
    check_pair(widen_products_but((BF16,)), pair)


def test_wide_rows_stay() -> None:
    pair = Pair((TensorType(F32, (N, 6)),), lambda b, x: b.dot(x, _weights(b, F32), "mk,kn->mn", F32))
    check_pair(widen_products_but(()), pair)
