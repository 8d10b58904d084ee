"""Quantised u8 as i8: the same values, NaN included, whatever moves, widens or returns the bytes."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, I8, I32, U8, DType
from onnxc.compiler.ir.makers import made_by
from onnxc.compiler.ir.module import Module, Value, walk
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.lower.sign_bytes import sign_bytes
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from tests.passes.golden import N, assert_same_meaning, built


def quantized(b: Builder, x: Value, zero: int = 7) -> Value:
    return b.cast(b.clamp(b.add(b.round(b.div(x, 0.1)), zero), 0, 255), U8)


def _maximum(b: Builder, q: Value) -> Value:
    return b.cast(b.reduce_window(q, "max", (1, 2, 2), (1, 1, 1), (0, 0, 0), (0, 1, 1), (1, 1, 1)), F32)


READERS: dict[str, Callable[[Builder, Value], Value]] = {
    "itself": lambda b, q: q,
    "a zero point": lambda b, q: b.mul(b.sub(b.cast(q, F32), 7.0), 0.1),
    "integers": lambda b, q: b.sub(b.cast(q, I32), 255),
    "a transpose": lambda b, q: b.sub(b.cast(b.transpose(q, (2, 0, 1)), F32), 3.0),
    "a gather": lambda b, q: b.sub(b.cast(b.gather(q, b.constant(np.array([2, 0])), 1), F32), 3.0),
    "a maximum": _maximum,
    "another zero point": lambda b, q: b.sub(b.cast(q, I32), b.cast(b.slice(q, (0, 0, 0), (1, 1, 1)), I32)),
    "a fraction": lambda b, q: b.sub(b.cast(q, F32), 0.5),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_reads_the_bytes_reads_the_same(reader: str) -> None:
    before = canonicalize(built([TensorType(F32, (N, 4, 4))], lambda b, x: READERS[reader](b, quantized(b, x))))
    after = sign_bytes(before)
    verify_module(after)
    assert not [op for op in walk(after.main.body) if op.name == "cast" and op.dtype() == U8]
    assert_same_meaning(before, after, (1, 3, 30), rounds=False)


def _rounded_last(b: Builder, x: Value) -> Value:
    """A zero point as DynamicQuantizeLinear computes it: rounded behind its bounds."""
    return b.cast(b.round(b.clamp(b.div(x, 0.1), 0, 255)), U8)


def _is_less_one_zero_point(module: Module) -> bool:
    """Whether the result is i8, widened, less one value."""
    (result,) = module.main.body.results
    difference = made_by(result, "sub")
    widened = None if difference is None else made_by(difference.operands[0], "cast")
    return widened is not None and widened.operands[0].dtype == I8


@pytest.mark.parametrize("wide", [F32, I32], ids=str)
def test_zero_points_that_are_rounded_behind_their_bounds_are_signed(wide: DType) -> None:
    def build(b: Builder, x: Value) -> Value:
        zero = _rounded_last(b, b.reduce(x, "max", (0, 1)))
        return b.sub(b.cast(quantized(b, x), wide), b.cast(zero, wide))

    before = canonicalize(built([TensorType(F32, (N, 4))], build))
    after = sign_bytes(before)
    verify_module(after)
    assert not [op for op in walk(after.main.body) if op.name == "cast" and op.dtype() == U8]
    assert _is_less_one_zero_point(after)
    assert_same_meaning(before, after, (1, 3, 30), rounds=False)


@pytest.mark.parametrize("wide", [F32, I32], ids=str)
@pytest.mark.parametrize("shape", [(), (1, 1), (4,), (N, 4)], ids=str)
def test_the_offset_joins_bytes_that_a_caller_gives(shape: tuple[Dim, ...], wide: DType) -> None:
    def build(b: Builder, x: Value, zero: Value) -> Value:
        return b.sub(b.cast(quantized(b, x), wide), b.cast(zero, wide))

    before = canonicalize(built([TensorType(F32, (N, 4)), TensorType(U8, shape)], build))
    after = sign_bytes(before)
    verify_module(after)
    assert _is_less_one_zero_point(after)
    assert_same_meaning(before, after, (0, 1, 30), rounds=False)


def test_floats_that_were_no_bytes_are_not_added_in_another_order() -> None:
    before = canonicalize(built([TensorType(F32, (N, 4))], lambda b, x: b.sub(b.sub(x, -128.0), 3.0)))
    assert print_module(sign_bytes(before)) == print_module(before)
