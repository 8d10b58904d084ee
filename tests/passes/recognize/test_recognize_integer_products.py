"""Products of quantised tensors become products of their integers, with the same sums to the last bit."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, I32, DType
from onnxc.compiler.ir.module import Module, Op, Value, walk
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.ir.verifier import verify_module
from onnxc.compiler.passes.notes import collect_notes
from onnxc.compiler.passes.recognize.recognize_integer_products import (
    MOST_PRODUCTS,
    recognize_integer_products_but,
    recognize_signed_products,
)
from onnxc.compiler.passes.simplify.canonicalize import canonicalize
from tests.passes.golden import Make, N, assert_same_meaning, built, f32, i8, text_of, u8

# Builders carry out what is done to constants of up to 1,024 elements.
BYTES = np.random.default_rng(0).integers(-128, 128, (64, 24))
WEIGHTS = BYTES.astype(np.int8)
UNSIGNED = (BYTES + 128).astype(np.uint8)
PER_COLUMN = np.random.default_rng(1).integers(1, 9, 24).astype(np.float32)
FILTERS = np.random.default_rng(2).integers(-128, 128, (24, 8, 3, 2)).astype(np.int8)


recognize_integer_products = recognize_integer_products_but(lambda op: False)


def integers(types: Sequence[TensorType], make: Make, sizes: Sequence[int] = (0, 1, 3)) -> tuple[Module, Op]:
    """The module that the pass makes and the product in it, after asserting that it means the same."""
    before = canonicalize(built(types, make))
    after = recognize_integer_products(before)
    verify_module(after)
    assert_same_meaning(before, after, sizes, rounds=True)
    return after, next(op for op in walk(after.main.body) if op.name in ("dot", "convolution"))


def described(op: Op) -> str:
    return f"{op.operands[0].dtype} by {op.operands[1].dtype} -> {op.dtype()}"


def count(module: Module, name: str) -> int:
    return sum(op.name == name for op in walk(module.main.body))


def dequantized(b: Builder, x: Value, zero: Value | int, scale: Value | float, axis: int | None = None) -> Value:
    """(x - zero) * scale in f32; a vector of scales belongs to `axis`."""
    axes = () if axis is None else (axis,)
    difference = b.sub(b.cast(x, F32), b.cast(zero, F32) if isinstance(zero, Value) else zero)
    return b.mul(difference, b.broadcast(scale, axes, x.shape) if isinstance(scale, Value) else scale)


def shifted(b: Builder, x: Value, zero: Value | int) -> Value:
    """x - zero in i32."""
    return b.sub(b.cast(x, I32), b.cast(zero, I32) if isinstance(zero, Value) else zero)


@pytest.mark.parametrize("a", [i8(N, 64), u8(N, 64)], ids=str)
@pytest.mark.parametrize("weights", [WEIGHTS, UNSIGNED], ids=["i8", "u8"])
@pytest.mark.parametrize("zeros", [(0, 0), (3, 0), (0, 3), (128, 7)])
def test_a_product_of_shifted_integers_takes_them_as_they_are(
    a: TensorType, weights: np.ndarray, zeros: tuple[int, int]
) -> None:
    def make(b: Builder, x: Value) -> Value:
        return b.dot(shifted(b, x, zeros[0]), shifted(b, b.constant(weights), zeros[1]), "mk,kn->mn", I32)

    after, dot = integers([a], make)
    assert described(dot) == f"{a.dtype} by {'i8' if weights is WEIGHTS else 'u8'} -> i32"
    assert count(after, "reduce") == (1 if zeros[1] else 0)


def test_zero_points_that_a_call_decides_stay_operands() -> None:
    def make(b: Builder, x: Value, zero: Value) -> Value:
        return b.dot(shifted(b, x, zero), b.cast(b.constant(WEIGHTS), I32), "mk,kn->mn", I32)

    after, dot = integers([u8(N, 64), u8()], make)
    assert described(dot) == "u8 by i8 -> i32"
    assert count(after, "reduce") == 0


def test_weights_about_128_become_signed_and_need_no_sum_of_rows() -> None:
    def make(b: Builder, x: Value) -> Value:
        return b.dot(shifted(b, x, 3), shifted(b, b.constant(UNSIGNED), 128), "mk,kn->mn", I32)

    after, dot = integers([u8(N, 64)], make)
    assert described(dot) == "u8 by i8 -> i32"
    assert count(after, "reduce") == 0


def test_floats_that_were_integers_are_multiplied_as_integers_and_scaled_once() -> None:
    def make(b: Builder, x: Value) -> Value:
        w = dequantized(b, b.constant(WEIGHTS), 0, b.constant(PER_COLUMN), axis=1)
        return b.dot(dequantized(b, x, 130, 0.25), w, "mk,kn->mn")

    after, dot = integers([u8(N, 64)], make)
    assert described(dot) == "u8 by i8 -> i32"
    assert count(after, "dot") == 1


def test_a_scale_for_each_row_of_transposed_weights_follows_the_transpose() -> None:
    def make(b: Builder, x: Value) -> Value:
        w = dequantized(b, b.constant(np.ascontiguousarray(WEIGHTS.T)), 0, b.constant(PER_COLUMN), axis=0)
        return b.dot(dequantized(b, x, 0, 0.25), b.transpose(w, [1, 0]), "mk,kn->mn")

    assert described(integers([i8(N, 64)], make)[1]) == "i8 by i8 -> i32"


def test_both_operands_may_be_computed_and_moved_on_their_way() -> None:
    def make(b: Builder, x: Value, y: Value) -> Value:
        keys = b.transpose(b.reshape(dequantized(b, y, 100, 0.5), (N, 2, 32)), [1, 0, 2])
        queries = b.transpose(b.reshape(dequantized(b, x, 7, 0.25), (N, 2, 32)), [1, 0, 2])
        return b.dot(queries, keys, "hmk,hnk->hmn")

    after, dot = integers([u8(N, 64), u8(N, 64)], make)
    assert described(dot) == "u8 by u8 -> i32"
    assert count(after, "reduce") == 2


@pytest.mark.parametrize("operand", [i8(N, 8, 5, 4), u8(N, 8, 5, 4)], ids=str)
@pytest.mark.parametrize("zero", [0, 11])
@pytest.mark.parametrize("padding", [0, 1])
def test_convolutions_are_padded_with_the_zero_point(operand: TensorType, zero: int, padding: int) -> None:
    def make(b: Builder, x: Value) -> Value:
        w = dequantized(b, b.constant(FILTERS), 0, b.constant(PER_COLUMN), axis=0)
        x = dequantized(b, x, zero, 0.25)
        return b.convolution(x, w, (2, 1), (padding, 0), (padding, 1), (1, 1))

    after, convolution = integers([operand], make)
    assert described(convolution) == f"{operand.dtype} by i8 -> i32"
    assert count(after, "pad") == bool(zero)


def test_integer_convolutions_take_a_zero_point_that_a_call_decides() -> None:
    def make(b: Builder, x: Value, zero: Value) -> Value:
        w = b.cast(b.constant(FILTERS), I32)
        return b.convolution(shifted(b, x, zero), w, (1, 1), (1, 1), (1, 1), (1, 1), dtype=I32)

    assert described(integers([u8(N, 8, 5, 4), u8()], make)[1]) == "u8 by i8 -> i32"


@pytest.mark.parametrize("per_filter", [False, True])
@pytest.mark.parametrize("zero", [0, 11, None])
@pytest.mark.parametrize(("strides", "padding", "dilations"), [((1, 1), 0, (1, 1)), ((2, 1), 1, (1, 2))])
def test_zero_points_of_filters_take_sums_of_windows(
    per_filter: bool, zero: int | None, strides: tuple[int, int], padding: int, dilations: tuple[int, int]
) -> None:
    """As dynamic quantisation to u8 writes them; None is a zero point that a call decides."""
    zeros = np.arange(100, 124).astype(np.int32) if per_filter else np.array(117, np.int32)

    def make(b: Builder, x: Value, decided: Value) -> Value:
        w = b.cast(b.constant((FILTERS.astype(np.int16) + 128).astype(np.uint8)), I32)
        w = b.sub(w, b.broadcast(b.constant(zeros), (0,) * per_filter, w.shape))
        x = shifted(b, x, decided if zero is None else zero)
        return b.convolution(x, w, strides, (padding, 0), (padding, 1), dilations, dtype=I32)

    types = [u8(N, 8, 5, 6), u8()]
    after, convolution = integers(types, make)
    assert described(convolution) == "u8 by u8 -> i32"
    assert [count(after, name) for name in ("reduce", "reduce_window")] == [1, 1]
    before = canonicalize(built(types, make))
    of_signed = recognize_signed_products(before)
    assert_same_meaning(before, of_signed, (0, 1, 3), rounds=True)
    signed = next(op for op in walk(of_signed.main.body) if op.name == "convolution")
    assert described(signed) == "i8 by i8 -> i32"


def test_few_filters_whose_zero_point_has_been_subtracted_are_bytes_again() -> None:
    filters = FILTERS[:2].astype(np.int32) - 11

    def make(b: Builder, x: Value) -> Value:
        return b.convolution(shifted(b, x, 3), b.constant(filters), (1, 1), (1, 1), (1, 1), (1, 1), dtype=I32)

    assert np.ptp(filters) <= 255 < np.abs(filters).max() + 128
    assert described(integers([u8(N, 8, 5, 4)], make)[1]) == "u8 by u8 -> i32"


@pytest.mark.parametrize("first", [-128, -(2**31), 2**31 - 258, -256])
def test_integers_that_are_no_bytes_less_a_byte_stay_what_they_are(first: int) -> None:
    count = 258 if first == -128 else 200
    filters = np.resize(first + np.arange(count), (2, 129, 1, 1)).astype(np.int32)

    def make(b: Builder, x: Value) -> Value:
        return b.convolution(shifted(b, x, 3), b.constant(filters), (1, 1), (0, 0), (0, 0), (1, 1), dtype=I32)

    assert described(integers([u8(N, 129, 2, 2)], make)[1]) == "i32 by i32 -> i32"


def test_zero_points_of_many_filters_are_0_as_those_of_few() -> None:
    filters, zeros = np.ones((2000, 1, 1, 1), np.int8), np.zeros(2000, np.int8)

    def make(b: Builder, x: Value) -> Value:
        scale = b.broadcast(b.constant(np.full(2000, 0.5, np.float32)), (0,), filters.shape)
        zero = b.broadcast(b.cast(b.constant(zeros), F32), (0,), filters.shape)
        w = b.mul(b.sub(b.cast(b.constant(filters), F32), zero), scale)
        return b.convolution(dequantized(b, x, 0, 0.25), w, (1, 1), (0, 0), (0, 0), (1, 1))

    assert described(integers([u8(N, 1, 2, 2)], make)[1]) == "u8 by i8 -> i32"


@pytest.mark.parametrize("zero", [0, 9])
def test_filters_of_one_channel_each_take_bytes(zero: int) -> None:
    filters = np.random.default_rng(3).integers(-128, 128, (150, 1, 3, 3)).astype(np.int8)
    scales = np.random.default_rng(4).integers(1, 9, 150).astype(np.float32)

    def make(b: Builder, x: Value) -> Value:
        w = dequantized(b, b.constant(filters), 0, b.constant(scales), axis=0)
        return b.convolution(dequantized(b, x, zero, 0.25), w, (1, 2), (1, 1), (1, 1), (1, 1), groups=150)

    after, convolution = integers([u8(N, 150, 4, 5)], make)
    assert described(convolution) == "u8 by i8 -> i32"
    assert count(after, "pad") == bool(zero)


def test_integers_of_channels_by_themselves_are_summed_exactly_as_floats() -> None:
    def make(b: Builder, x: Value, w: Value) -> Value:
        operands = shifted(b, x, 255), shifted(b, w, -128)
        return b.convolution(*operands, (1, 1), (1, 1), (1, 1), (1, 1), groups=4, dtype=I32)

    assert described(integers([u8(N, 4, 5, 4), i8(4, 1, 3, 3)], make)[1]) == "f32 by f32 -> f32"


@pytest.mark.parametrize(("groups", "channels", "form"), [
    (2, 30, "u8 by i8 -> i32"), (2, 28, "f32 by f32 -> f32"), (9, 30, "f64 by f64 -> f64"),
])  # fmt: skip
@pytest.mark.parametrize("zeros", [(0, 0), (9, 0), (9, 3)])
def test_groups_of_many_products_take_bytes_each_by_itself(
    groups: int, channels: int, form: str, zeros: tuple[int, int]
) -> None:
    filters = np.random.default_rng(3).integers(-120, 121, (4 * groups, channels, 3, 3)).astype(np.int8)

    def make(b: Builder, x: Value) -> Value:
        operands = shifted(b, x, zeros[0]), shifted(b, b.constant(filters), zeros[1])
        return b.convolution(*operands, (1, 2), (1, 0), (1, 1), (1, 1), groups=groups, dtype=I32)

    after, convolution = integers([u8(N, groups * channels, 4, 5)], make)
    assert described(convolution) == form
    assert count(after, "convolution") == (groups if form == "u8 by i8 -> i32" else 1)


def test_scales_of_filters_go_with_their_group() -> None:
    filters = np.random.default_rng(3).integers(-120, 121, (8, 40, 3, 3)).astype(np.int8)
    scales = np.random.default_rng(4).integers(1, 9, 8).astype(np.float32)

    def make(b: Builder, x: Value) -> Value:
        w = dequantized(b, b.constant(filters), 0, b.constant(scales), axis=0)
        return b.convolution(dequantized(b, x, 9, 0.25), w, (1, 1), (1, 1), (1, 1), (1, 1), groups=2)

    after, convolution = integers([u8(N, 80, 3, 3)], make)
    assert described(convolution) == "u8 by i8 -> i32"
    assert count(after, "convolution") == 2


def _refusals(types: Sequence[TensorType], make: Make) -> list[str]:
    with collect_notes() as notes:
        recognize_integer_products(canonicalize(built(types, make)))
    return [note.reason for note in notes]


def _along_k(b: Builder, x: Value) -> Value:
    w = dequantized(b, b.constant(WEIGHTS), 0, b.constant(np.arange(1, 65, dtype=np.float32)), axis=0)
    return b.dot(dequantized(b, x, 0, 0.5), w, "mk,kn->mn")


def _scaled_by(scale: float) -> Callable[[Builder, Value], Value]:
    def make(b: Builder, x: Value) -> Value:
        return b.dot(dequantized(b, x, 0, scale), dequantized(b, b.constant(WEIGHTS), 0, scale), "mk,kn->mn")

    return make


def _very_deep(b: Builder, x: Value, y: Value) -> Value:
    return b.dot(dequantized(b, x, 0, 0.5), dequantized(b, y, 0, 0.5), "mk,kn->mn")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_along_k, "a scale or zero point varies along what is summed"),
        (_scaled_by(1e-30), "the product of the scales is not a normal number"),
        (_scaled_by(float("inf")), "the product of the scales is not a normal number"),
    ],
)
def test_what_would_be_another_result_is_refused(make: Make, reason: str) -> None:
    assert _refusals([i8(N, 64)], make) == [reason]


@pytest.mark.parametrize(
    ("depth", "reasons"), [(MOST_PRODUCTS, []), (MOST_PRODUCTS + 1, ["the sum may not fit in i32"])]
)
def test_no_more_products_than_fit_in_i32_take_the_place_of_floats(depth: Dim, reasons: list[str]) -> None:
    assert _refusals([u8(N, depth), u8(depth, 2)], _very_deep) == reasons


@pytest.mark.parametrize("dtype", [F32, I32], ids=str)
def test_products_of_other_operands_are_left_alone(dtype: DType) -> None:
    types = [TensorType(dtype, (N, 8)), TensorType(dtype, (8, 2))]
    before = canonicalize(built(types, lambda b, x, y: b.dot(x, y, "mk,kn->mn")))
    assert text_of(recognize_integer_products(before)) == text_of(before)


def test_convolutions_of_floats_may_stay_and_those_of_integers_may_not() -> None:
    def floats(b: Builder, x: Value) -> Value:
        return _convolved(b, dequantized(b, x, 3, 0.25), dequantized(b, b.constant(FILTERS), 0, 0.5))

    def words(b: Builder, x: Value) -> Value:
        return _convolved(b, shifted(b, x, 3), shifted(b, b.constant(FILTERS), 0))

    results = list[str]()
    with collect_notes() as notes:
        for make in (floats, words):
            after = recognize_integer_products_but(lambda op: True)(canonicalize(built([i8(N, 8, 5, 5)], make)))
            results += [described(op) for op in walk(after.main.body) if op.name == "convolution"]
    assert results == ["f32 by f32 -> f32", "i8 by i8 -> i32"]
    assert [note.reason for note in notes] == ["as floats, the convolution takes fewer products"]


def _convolved(b: Builder, x: Value, w: Value) -> Value:
    return b.convolution(x, w, (1, 1), (1, 1), (1, 1), (1, 1), dtype=x.dtype)


def test_a_scale_that_a_call_decides_is_refused_for_floats() -> None:
    def make(b: Builder, x: Value, scale: Value) -> Value:
        return b.dot(dequantized(b, x, 0, scale), dequantized(b, b.constant(WEIGHTS), 0, 0.5), "mk,kn->mn")

    assert _refusals([i8(N, 64), f32()], make) == ["a scale is not known before a call"]
