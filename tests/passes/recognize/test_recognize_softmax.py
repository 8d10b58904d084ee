"""Softmax and log_softmax from exponentials and sums."""

from collections.abc import Callable

import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F16, F32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.passes.recognize.recognize_softmax import recognize_softmax
from tests.passes.golden import N, f16, f32
from tests.passes.recognition import names, reasons, recognized


def shifted(b: Builder, x: Value, axis: int) -> Value:
    return b.sub(x, b.reduce(x, "max", [axis], keepdims=True))


def softmax(b: Builder, x: Value, axis: int = 1) -> Value:
    e = b.exp(shifted(b, x, axis))
    return b.div(e, b.reduce(e, "sum", [axis], keepdims=True))


def softmax_by_reciprocal(b: Builder, x: Value, axis: int = 1) -> Value:
    e = b.exp(shifted(b, x, axis))
    return b.mul(b.reciprocal(b.reduce(e, "sum", [axis], keepdims=True)), e)


def log_softmax(b: Builder, x: Value, axis: int = 1) -> Value:
    s = shifted(b, x, axis)
    return b.sub(s, b.log(b.reduce(b.exp(s), "sum", [axis], keepdims=True)))


@pytest.mark.parametrize("spelling", [softmax, softmax_by_reciprocal])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_is_found_along_any_axis(spelling: Callable[[Builder, Value, int], Value], axis: int) -> None:
    after = recognized(recognize_softmax, [f32(2, N, 3)], lambda b, x: spelling(b, x, axis))
    assert names(after) == ["softmax"]
    assert after.main.body.ops[-1].int("axis") == axis


@pytest.mark.parametrize("shape", [(1, 4), (N, 1, 4), (1, N)])
def test_units_do_not_hide_a_softmax(shape: tuple[int, ...]) -> None:
    last = len(shape) - 1
    assert names(recognized(recognize_softmax, [f32(*shape)], lambda b, x: softmax(b, x, last))) == ["softmax"]


def test_log_softmax_is_found() -> None:
    after = recognized(recognize_softmax, [f32(N, 3)], log_softmax)
    assert names(after) == ["log_softmax"]


@pytest.mark.parametrize("spelling", [softmax, log_softmax])
def test_casts_around_a_16_bit_softmax_are_taken_in(spelling: Callable[[Builder, Value], Value]) -> None:
    after = recognized(recognize_softmax, [f16(N, 3)], lambda b, x: b.cast(spelling(b, b.cast(x, F32)), F16))
    assert names(after) == [spelling.__name__]


def test_casts_between_different_types_stay() -> None:
    types = [TensorType(BF16, (N, 3))]
    after = recognized(recognize_softmax, types, lambda b, x: b.cast(softmax(b, b.cast(x, F32)), F16))
    assert names(after) == ["cast", "softmax", "cast"]


def test_without_the_maximum_it_is_left_alone() -> None:
    def make(b: Builder, x: Value) -> Value:
        e = b.exp(x)
        return b.div(e, b.reduce(e, "sum", [1], keepdims=True))

    assert reasons(recognize_softmax, [f32(N, 3)], make) == ["the maximum is not subtracted, so that it may overflow"]


def test_exponentials_with_another_use_are_left_alone() -> None:
    def make(b: Builder, x: Value) -> tuple[Value, ...]:
        e = b.exp(shifted(b, x, 1))
        return b.div(e, b.reduce(e, "sum", [1], keepdims=True)), e

    assert reasons(recognize_softmax, [f32(N, 3)], make) == ["the exponentials are used elsewhere, too"]


@pytest.mark.parametrize("axes", [[0], [0, 1]])
def test_sums_along_other_axes_are_no_softmax(axes: list[int]) -> None:
    def make(b: Builder, x: Value) -> Value:
        e = b.exp(shifted(b, x, 1))
        return b.div(e, b.reduce(e, "sum", axes, keepdims=True))

    assert "softmax" not in names(recognized(recognize_softmax, [f32(2, 3)], make))


def test_the_sum_of_something_else_is_no_softmax() -> None:
    def make(b: Builder, x: Value, y: Value) -> Value:
        return b.div(b.exp(shifted(b, x, 1)), b.reduce(b.exp(shifted(b, y, 1)), "sum", [1], keepdims=True))

    assert "softmax" not in names(recognized(recognize_softmax, [f32(2, 3), f32(2, 3)], make))
