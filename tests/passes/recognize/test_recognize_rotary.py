"""Rotary embedding from swapped halves."""

from collections.abc import Callable

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.recognize.recognize_rotary import recognize_rotary
from tests.passes.golden import M, N, f32, i64
from tests.passes.recognition import names, reasons, recognized

FREQUENCIES = np.array([1, 0.1, 0.01], np.float32)
Table = Callable[[Builder, Value], Value]


def swapped(b: Builder, x: Value) -> Value:
    """(-x₂, x₁)"""
    last, half = x.rank - 1, x.shape[-1] // 2
    first, second = (b.slice_axis(x, last, start, half) for start in (0, half))
    return b.concatenate([b.neg(second), first], last)


def angles(b: Builder) -> Value:
    """f32[M, 6]: position times frequency, twice over"""
    position = b.cast(b.reshape(b.iota((M,), 0, I64), (M, 1)), F32)
    half = b.mul(position, b.constant(FREQUENCIES))
    return b.concatenate([half, half], 1)


def rotated(b: Builder, x: Value, cos: Value, sin: Value) -> Value:
    return b.add(b.mul(x, cos), b.mul(swapped(b, x), sin))


def by_angles(b: Builder, x: Value) -> Value:
    return rotated(b, x, b.unary("cos", angles(b)), b.unary("sin", angles(b)))


def by_scaled_angles(b: Builder, x: Value) -> Value:
    return rotated(b, x, b.mul(b.unary("cos", angles(b)), 1.5), b.mul(b.unary("sin", angles(b)), 1.5))


def commuted(b: Builder, x: Value) -> Value:
    return b.add(b.mul(b.unary("sin", angles(b)), swapped(b, x)), b.mul(b.unary("cos", angles(b)), x))


@pytest.mark.parametrize("make", [by_angles, by_scaled_angles, commuted])
@pytest.mark.parametrize("shape", [(N, 2, M, 6), (M, 6), (1, M, 6)])
def test_rotary_by_computed_angles(make: Callable[[Builder, Value], Value], shape: tuple[int, ...]) -> None:
    after = recognized(recognize_rotary, [f32(*shape)], make)
    rotary = next(op for op in after.main.body.ops if op.name == "rotary")
    assert not rotary.flag("interleaved")
    assert rotary.operands[1].shape == (*shape[:-1], 3)
    assert not {"neg", "concatenate"} & set(names(after))


def test_rotary_by_tables() -> None:
    table = np.concatenate([np.random.default_rng(1).normal(0, 1, (9, 3)).astype(np.float32)] * 2, 1)

    def make(b: Builder, x: Value, positions: Value) -> Value:
        cos, sin = (b.reshape(b.gather(b.constant(t), positions, 0), (N, 1, M, 6)) for t in (table, table * 2))
        return rotated(b, x, cos, sin)

    after = recognized(recognize_rotary, [f32(N, 2, M, 6), i64(N, M)], make, odd=False)
    assert "rotary" in names(after)
    tables = [op.array() for op in after.main.body.ops if op.name == "constant" and op.array().ndim == 2]
    assert {array.shape for array in tables} <= {(9, 3), (9, 6)}


def test_a_rotated_part_of_a_head() -> None:
    def make(b: Builder, x: Value) -> Value:
        part = b.slice_axis(x, 1, 0, 6)
        return b.concatenate([by_angles(b, part), b.slice_axis(x, 1, 6, 4)], 1)

    assert "rotary" in names(recognized(recognize_rotary, [f32(M, 10)], make))


def different_halves(b: Builder, x: Value) -> Value:
    position = b.cast(b.reshape(b.iota((M,), 0, I64), (M, 1)), F32)
    table = b.unary("cos", b.mul(position, b.constant(np.arange(6, dtype=np.float32))))
    return rotated(b, x, table, table)


def test_halves_that_may_differ_are_refused() -> None:
    assert reasons(recognize_rotary, [f32(N, M, 6)], different_halves) == [
        "the two halves of the cosines or sines are not known to be equal"
    ]


def test_halves_with_another_use_are_refused() -> None:
    def make(b: Builder, x: Value) -> tuple[Value, ...]:
        turned = swapped(b, x)
        return b.add(b.mul(x, b.unary("cos", angles(b))), b.mul(turned, b.unary("sin", angles(b)))), turned

    assert reasons(recognize_rotary, [f32(M, 6)], make) == ["the halves or their products are used elsewhere, too"]


def not_negated(b: Builder, x: Value) -> Value:
    halves = [b.slice_axis(x, 1, start, 3) for start in (3, 0)]
    turned = b.concatenate(halves, 1)
    return b.add(b.mul(x, b.unary("cos", angles(b))), b.mul(turned, b.unary("sin", angles(b))))


def of_another(b: Builder, x: Value) -> Value:
    return b.add(b.mul(b.exp(x), b.unary("cos", angles(b))), b.mul(swapped(b, x), b.unary("sin", angles(b))))


def thirds(b: Builder, x: Value) -> Value:
    turned = b.concatenate([b.neg(b.slice_axis(x, 1, 2, 4)), b.slice_axis(x, 1, 0, 2)], 1)
    return b.add(b.mul(x, b.unary("cos", angles(b))), b.mul(turned, b.unary("sin", angles(b))))


@pytest.mark.parametrize("make", [not_negated, of_another, thirds])
def test_other_sums_stay(make: Callable[[Builder, Value], Value]) -> None:
    assert "rotary" not in names(recognized(recognize_rotary, [f32(M, 6)], make))
