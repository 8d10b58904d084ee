"""Bytes that are widened and made the same bytes again stay what they are."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.frontend.operator_helpers.linear_quantization import quantize
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I8, U8, DType
from onnxc.compiler.ir.module import Value, walk
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.recognize.recognize_requantization import recognize_requantization
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from tests.passes.golden import N, assert_same_meaning, built

DTYPES = (I8, U8)


def dequantized(b: Builder, x: Value, zero: int, scale: float) -> Value:
    return b.mul(b.sub(b.cast(x, F32), zero), scale)


def quantized(b: Builder, x: Value, zero: int, scale: float, dtype: DType) -> Value:
    return quantize(b.div(x, scale), b.scalar(zero, dtype), dtype, b)


def _maximum(b: Builder, x: Value) -> Value:
    return b.reduce_window(x, "max", (1, 2, 2), (1, 2, 1), (0, 1, 0), (0, 0, 0), (1, 1, 1))


BETWEEN: dict[str, Callable[[Builder, Value], Value]] = {
    "nothing": lambda b, x: x,
    "a transpose": lambda b, x: b.transpose(x, (2, 0, 1)),
    "a slice": lambda b, x: b.slice_axis(x, 1, 1, 2),
    "a gather": lambda b, x: b.gather(x, b.constant(np.array([2, 0, 2])), 1),
    "a maximum": _maximum,
    "a joining": lambda b, x: b.concatenate([x, b.transpose(x, (0, 2, 1))], 1),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize("scale", [0.1, 3e-30, 1.7e30])
@pytest.mark.parametrize("between", BETWEEN)
def test_bytes_stay_bytes(between: str, scale: float, zero: int, dtype: DType) -> None:
    def make(b: Builder, x: Value) -> Value:
        return quantized(b, BETWEEN[between](b, dequantized(b, x, zero, scale)), zero, scale, dtype)

    before = canonicalize(built([TensorType(dtype, (N, 4, 4))], make))
    after = recognize_requantization(before)
    verify_module(after)
    assert not {"cast", "round", "div"} & {op.name for op in walk(after.main.body)}
    assert_same_meaning(before, after, (0, 1, 30), rounds=False)


@pytest.mark.parametrize(
    ("zeros", "scales", "dtypes"),
    [((7, 8), (0.1, 0.1), (U8, U8)), ((7, 7), (0.1, 0.2), (U8, U8)), ((7, 7), (0.1, 0.1), (U8, I8))],
)
def test_other_bytes_are_made_of_others(
    zeros: tuple[int, int], scales: tuple[float, float], dtypes: tuple[DType, DType]
) -> None:
    def make(b: Builder, x: Value) -> Value:
        return quantized(b, dequantized(b, x, zeros[0], scales[0]), zeros[1], scales[1], dtypes[1])

    after = recognize_requantization(canonicalize(built([TensorType(dtypes[0], (N, 4))], make)))
    assert "div" in [op.name for op in walk(after.main.body)]


BOUNDED: dict[str, tuple[bool, Callable[[Builder, Value], Value]]] = {
    "maximum": (True, lambda b, x: b.max(x, -128)),
    "choice": (True, lambda b, x: b.select(b.less(-128, x), x, -128)),
    "maximum of another": (False, lambda b, x: b.max(x, -127)),
    "choice above another": (False, lambda b, x: b.select(b.less(-127, x), x, -127)),
    "choice at another": (False, lambda b, x: b.select(b.less(-127, x), x, -128)),
    "choice of another": (False, lambda b, x: b.select(b.less(-128, x), x, -127)),
    "choice by another": (False, lambda b, x: b.select(b.less(-128, b.neg(x)), x, -128)),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_numbers_are_bytes_whose_bounds_are_those_of_bytes(name: str) -> None:
    are_bytes, bounded = BOUNDED[name]

    def make(b: Builder, x: Value) -> Value:
        shifted = b.add(b.round(b.div(dequantized(b, x, 7, 0.1), 0.1)), 7)
        return b.cast(b.min(bounded(b, shifted), 127), I8)

    after = recognize_requantization(canonicalize(built([TensorType(I8, (N, 4, 4))], make)))
    assert ("round" not in {op.name for op in walk(after.main.body)}) == are_bytes
