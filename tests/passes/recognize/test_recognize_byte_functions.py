"""Functions of one byte become tables; what reads anything else, or costs little, stays."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I8, I64, U8, DType
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Module, Op, Value, walk
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.recognize.recognize_byte_functions import recognize_byte_functions
from tests.passes.golden import Make, N, assert_same_meaning, built, f32, i8, text_of, u8

SCALE = 0.1
BYTES = pytest.mark.parametrize("dtype", [I8, U8], ids=str)


def floats(b: Builder, x: Value, zero: float = 3.0, scale: float = SCALE) -> Value:
    """(x - zero) * scale in f32"""
    return b.mul(b.sub(b.cast(x, F32), zero), scale)


def quantized(b: Builder, x: Value, dtype: DType, scale: float | Value = SCALE) -> Value:
    """x / scale, rounded and cut off to a type of 8 bits."""
    least, most = (-128.0, 127.0) if dtype == I8 else (0.0, 255.0)
    return b.cast(b.min(b.max(b.add(b.round(b.div(x, scale)), 5.0), least), most), dtype)


def sigmoid(b: Builder, x: Value) -> Value:
    return b.reciprocal(b.add(b.exp(b.neg(x)), 1.0))


def gated(dtype: DType) -> Make:
    """x * sigmoid(x), each of both rounded to bytes"""

    def make(b: Builder, x: Value) -> Value:
        gate = quantized(b, sigmoid(b, floats(b, x)), dtype, 1 / 256)
        return quantized(b, b.mul(floats(b, x), floats(b, gate, 5.0, 1 / 256)), dtype)

    return make


def tables(types: Sequence[TensorType], make: Make) -> tuple[Module, list[Op]]:
    """The module that the pass makes, and its look-ups, after asserting that it means the same."""
    before = built(types, make)
    after = recognize_byte_functions(before)
    verify_module(after)
    assert_same_meaning(before, after, (0, 1, 300), rounds=False)
    return after, [op for op in walk(after.main.body) if op.name == "gather"]


@BYTES
@pytest.mark.parametrize("source", [i8(2, N), u8(2, N), i8(), u8(0)], ids=str)
def test_what_is_computed_of_a_byte_is_one_table(source: TensorType, dtype: DType) -> None:
    after, (look_up,) = tables([source], gated(dtype))
    table = look_up.operands[0]
    assert table.type == TensorType(dtype, (256,))
    assert {op.name for op in walk(after.main.body)} <= {"bitcast", "cast", "constant", "gather"}


def test_every_byte_is_looked_up_as_it_is_computed() -> None:
    every = np.arange(256, dtype=np.uint8)
    for dtype in (I8, U8):
        for source in (I8, U8):
            before = built([TensorType(source, (256,))], gated(dtype))
            after = recognize_byte_functions(before)
            (wanted,), (found,) = (interpreted(module, every.view(source.numpy)) for module in (before, after))
            np.testing.assert_array_equal(found, wanted)
            assert len(np.unique(wanted)) > 20


def interpreted(module: Module, x: np.ndarray) -> Sequence[np.ndarray]:
    return [np.asarray(result) for result in interpret(module, {"x": x, "sizes": np.zeros((1, 1), bool)})]


def _of_two(b: Builder, x: Value, y: Value) -> Value:
    return quantized(b, b.mul(sigmoid(b, floats(b, x)), floats(b, y)), U8)


def _of_floats(b: Builder, x: Value) -> Value:
    return quantized(b, sigmoid(b, x), U8)


def _by_columns(b: Builder, x: Value) -> Value:
    scales = b.broadcast(b.constant(np.arange(1, 4, dtype=np.float32)), (1,), x.shape)
    return quantized(b, sigmoid(b, floats(b, x)), U8, scales)


def _of_few_places(b: Builder, x: Value) -> Value:
    places = b.constant(np.linspace(-4, 4, 100, dtype=np.float32))
    return quantized(b, sigmoid(b, b.gather(places, b.cast(x, I64), 0)), U8)


def _cheap(b: Builder, x: Value) -> Value:
    return quantized(b, b.max(floats(b, x), 0.0), U8)


def _of_wider_shape(b: Builder, x: Value) -> Value:
    return quantized(b, sigmoid(b, b.broadcast(floats(b, x), (1,), (4, *x.shape))), U8)


def _to_words(b: Builder, x: Value) -> Value:
    return b.cast(b.round(sigmoid(b, floats(b, x))), I64)


@pytest.mark.parametrize(
    ("types", "make"),
    [
        ([u8(N), u8(N)], _of_two),
        ([f32(N)], _of_floats),
        ([u8(N, 3)], _by_columns),
        ([u8(N)], _of_few_places),
        ([u8(N)], _cheap),
        ([u8(N)], _to_words),
    ],
    ids=[
        "two operands",
        "floats",
        "a scale for each column",
        "places that a byte may be beyond",
        "few instructions",
        "no bytes",
    ],
)
def test_other_functions_stay(types: Sequence[TensorType], make: Callable[..., Value]) -> None:
    before = built(types, make)
    assert text_of(recognize_byte_functions(before)) == text_of(before)


def test_what_is_repeated_is_looked_up_behind_it_or_not_at_all() -> None:
    tables([u8(N)], _of_wider_shape)


def test_bytes_that_are_computed_of_floats_are_the_source() -> None:
    after, look_ups = tables([f32(N)], lambda b, x: gated(U8)(b, quantized(b, x, U8)))
    assert len(look_ups) == 1
    assert sum(op.name == "div" for op in walk(after.main.body)) == 1
