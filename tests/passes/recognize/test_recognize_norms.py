"""Layer and RMS normalisation in the spellings of exporters; instance and group normalisation as special cases."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import F16, F32
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.passes.recognize.recognize_layer_norm import recognize_layer_norm
from onnxc.compiler.passes.recognize.recognize_rms_norm import recognize_rms_norm
from tests.passes.golden import M, N, f16, f32
from tests.passes.recognition import names, reasons, recognized

Normal = Callable[[Builder, Value, Value], Value]

SCALE, BIAS = np.array([0.5, 2, -1, 3], np.float32), np.array([1, 0, -2, 0.25], np.float32)


def both(module: Module) -> Module:
    return recognize_rms_norm(recognize_layer_norm(module))


def by_div(b: Builder, x: Value, radicand: Value) -> Value:
    return b.div(x, b.sqrt(radicand))


def by_reciprocal(b: Builder, x: Value, radicand: Value) -> Value:
    return b.mul(x, b.reciprocal(b.sqrt(radicand)))


def by_power(b: Builder, x: Value, radicand: Value) -> Value:
    return b.mul(b.pow(radicand, -0.5), x)


def by_half_power(b: Builder, x: Value, radicand: Value) -> Value:
    return b.div(x, b.pow(radicand, 0.5))


def by_inner_reciprocal(b: Builder, x: Value, radicand: Value) -> Value:
    return b.mul(x, b.sqrt(b.reciprocal(radicand)))


SPELLINGS = [by_div, by_reciprocal, by_power, by_half_power, by_inner_reciprocal]


def mean(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    return b.mean(x, axes, keepdims=True)


def mean_by_factor(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    count = product(x.shape[axis] for axis in axes)
    assert isinstance(count, int)
    return b.mul(b.reduce(x, "sum", axes, keepdims=True), 1 / count)


def standardized(
    b: Builder,
    x: Value,
    axes: Sequence[int],
    normal: Normal = by_div,
    square: float | None = None,
    average: object = mean,
) -> Value:
    assert callable(average)
    centred = b.sub(x, average(b, x, axes))
    squared = b.mul(centred, centred) if square is None else b.pow(centred, square)
    return normal(b, centred, b.add(average(b, squared, axes), 1e-5))


def scaled(b: Builder, x: Value, scale: np.ndarray | None = SCALE, bias: np.ndarray | None = BIAS) -> Value:
    product = x if scale is None else b.mul(x, b.constant(scale.astype(x.dtype.numpy)))
    return product if bias is None else b.add(b.constant(bias.astype(x.dtype.numpy)), product)


def only(module: Module, name: str) -> Op:
    assert names(module) == [name]
    return next(op for op in module.main.body.ops if op.name == name)


@pytest.mark.parametrize("normal", SPELLINGS)
@pytest.mark.parametrize("square", [None, 2.0])
def test_layer_norm_in_every_spelling(normal: Normal, square: float | None) -> None:
    after = recognized(
        recognize_layer_norm, [f32(N, 3, 4)], lambda b, x: scaled(b, standardized(b, x, [2], normal, square))
    )
    norm = only(after, "layer_norm")
    assert (norm.int("axis"), norm.float("epsilon")) == (2, np.float32(1e-5))
    arrays = [operand.op.array() for operand in norm.operands[1:] if operand.op is not None]
    np.testing.assert_array_equal(arrays[0], SCALE)
    np.testing.assert_array_equal(arrays[1], BIAS)


def test_a_mean_may_be_a_product_with_the_inverse() -> None:
    after = recognized(recognize_layer_norm, [f32(N, 6)], lambda b, x: standardized(b, x, [1], average=mean_by_factor))
    only(after, "layer_norm")


@pytest.mark.parametrize(("scale", "bias"), [(None, None), (SCALE, None), (None, BIAS)])
def test_scale_and_bias_may_be_missing(scale: np.ndarray | None, bias: np.ndarray | None) -> None:
    after = recognized(recognize_layer_norm, [f32(N, 4)], lambda b, x: scaled(b, standardized(b, x, [1]), scale, bias))
    only(after, "layer_norm")


@pytest.mark.parametrize("shape", [(4,), (1, 4), (1, 3, 4), (2, N, 4), (N, 1, 4)])
def test_any_rank_and_units(shape: tuple[int, ...]) -> None:
    after = recognized(
        recognize_layer_norm, [f32(*shape)], lambda b, x: scaled(b, standardized(b, x, [len(shape) - 1]))
    )
    only(after, "layer_norm")


def test_scale_and_bias_may_come_from_data() -> None:
    after = recognized(
        recognize_layer_norm,
        [f32(N, 4), f32(4), f32(4)],
        lambda b, x, y, z: b.add(b.mul(standardized(b, x, [1]), y), z),
    )
    norm = only(after, "layer_norm")
    assert norm.operands[1:] == after.main.body.parameters[1:3]


def test_symbolic_numbers_of_elements() -> None:
    after = recognized(recognize_layer_norm, [f32(2, N, M)], lambda b, x: standardized(b, x, [1, 2]))
    assert only(after, "layer_norm").int("axis") == 1


def test_instance_norm_keeps_its_scale_per_channel_outside() -> None:
    def make(b: Builder, x: Value) -> Value:
        normal = standardized(b, x, [2, 3])
        scale, bias = (b.broadcast(b.constant(array), (1,), x.shape) for array in (SCALE, BIAS))
        return b.add(b.mul(normal, scale), bias)

    after = recognized(recognize_layer_norm, [f32(N, 4, 2, M)], make)
    assert names(after) == ["layer_norm", "mul", "add"]


def test_group_norm_between_its_reshapes() -> None:
    def make(b: Builder, x: Value) -> Value:
        groups = b.reshape(x, (N, 2, 2 * 3 * 5))
        return b.reshape(standardized(b, groups, [2]), x.shape)

    assert names(recognized(recognize_layer_norm, [f32(N, 4, 3, 5)], make)) == ["layer_norm"]


def test_16_bit_floats_computed_in_f32() -> None:
    def make(b: Builder, x: Value) -> Value:
        return scaled(b, b.cast(standardized(b, b.cast(x, F32), [1]), F16))

    norm = only(recognized(recognize_layer_norm, [f16(N, 4)], make), "layer_norm")
    assert {operand.dtype for operand in norm.operands} == {F16}


def test_f32_parameters_of_a_16_bit_norm_keep_the_casts() -> None:
    def make(b: Builder, x: Value) -> Value:
        return b.cast(scaled(b, standardized(b, b.cast(x, F32), [1])), F16)

    assert names(recognized(recognize_layer_norm, [f16(N, 4)], make)) == ["cast", "layer_norm", "cast"]


def test_other_axes_are_refused() -> None:
    assert reasons(both, [f32(2, 4, 3)], lambda b, x: standardized(b, x, [1])) == [
        "axes [1] are not the last of f32[2, 4, 3]"
    ]


def test_a_deviation_with_another_use_is_refused() -> None:
    def make(b: Builder, x: Value) -> tuple[Value, ...]:
        centred = b.sub(x, mean(b, x, [1]))
        deviation = b.broadcast_to(b.sqrt(b.add(mean(b, b.mul(centred, centred), [1]), 1e-5)), x.shape)
        return b.div(centred, deviation), deviation

    assert reasons(recognize_layer_norm, [f32(2, 4)], make) == [
        "the difference from the mean or the deviation is used elsewhere, too"
    ]


def unbiased(b: Builder, x: Value) -> Value:
    centred = b.sub(x, mean(b, x, [1]))
    variance = b.div(b.reduce(b.mul(centred, centred), "sum", [1], keepdims=True), 3)
    return b.div(centred, b.sqrt(b.add(variance, 1e-5)))


def different_axes(b: Builder, x: Value) -> Value:
    centred = b.sub(x, mean(b, x, [1]))
    return b.div(centred, b.sqrt(b.add(mean(b, b.mul(centred, centred), [0]), 1e-5)))


def square_of_another(b: Builder, x: Value) -> Value:
    centred = b.sub(x, mean(b, x, [1]))
    return b.div(centred, b.sqrt(b.add(mean(b, b.mul(x, x), [1]), 1e-5)))


def epsilon_outside(b: Builder, x: Value) -> Value:
    centred = b.sub(x, mean(b, x, [1]))
    return b.div(centred, b.add(b.sqrt(mean(b, b.mul(centred, centred), [1])), 1e-5))


def cubes(b: Builder, x: Value) -> Value:
    return standardized(b, x, [1], square=3.0)


@pytest.mark.parametrize("make", [unbiased, different_axes, square_of_another, epsilon_outside, cubes])
def test_what_only_looks_like_a_norm_stays(make: Callable[[Builder, Value], Value]) -> None:
    after = recognized(both, [f32(2, 4)], make)
    assert not {"layer_norm", "rms_norm"} & set(names(after))


def test_a_residual_is_not_taken_for_a_bias() -> None:
    after = recognized(recognize_layer_norm, [f32(3, 4), f32(3, 4)], lambda b, x, y: b.add(standardized(b, x, [1]), y))
    assert names(after) == ["layer_norm", "add"]


def test_a_scale_of_rows_is_not_taken_for_one_of_columns() -> None:
    after = recognized(recognize_layer_norm, [f32(3, 3), f32(3, 1)], lambda b, x, y: b.mul(standardized(b, x, [1]), y))
    assert names(after) == ["layer_norm", "mul"]


def test_a_normal_with_another_use_keeps_its_own_scale() -> None:
    def make(b: Builder, x: Value) -> tuple[Value, ...]:
        normal = standardized(b, x, [1])
        return scaled(b, normal), normal

    assert names(recognized(recognize_layer_norm, [f32(3, 4)], make)) == ["layer_norm", "mul", "add"]


# RMS normalisation


def rms(b: Builder, x: Value, normal: Normal = by_reciprocal, axes: Sequence[int] = (1,)) -> Value:
    return normal(b, x, b.add(mean(b, b.pow(x, 2.0), axes), 1e-6))


@pytest.mark.parametrize("normal", SPELLINGS)
def test_rms_norm_in_every_spelling(normal: Normal) -> None:
    after = recognized(both, [f32(N, 4)], lambda b, x: b.mul(b.constant(SCALE), rms(b, x, normal)))
    norm = only(after, "rms_norm")
    assert (norm.int("axis"), norm.float("epsilon")) == (1, np.float32(1e-6))
    assert norm.operands[1].op is not None
    np.testing.assert_array_equal(norm.operands[1].op.array(), SCALE)


def test_rms_norm_of_16_bit_floats() -> None:
    def make(b: Builder, x: Value) -> Value:
        return b.mul(b.constant(SCALE.astype(np.float16)), b.cast(rms(b, b.cast(x, F32)), F16))

    only(recognized(both, [f16(N, 4)], make), "rms_norm")


def test_rms_norm_of_other_axes_is_refused() -> None:
    assert reasons(both, [f32(4, 3)], lambda b, x: rms(b, x, axes=(0,))) == ["axes [0] are not the last of f32[4, 3]"]


def test_a_root_with_another_use_is_refused() -> None:
    def make(b: Builder, x: Value) -> tuple[Value, ...]:
        root = b.broadcast_to(b.sqrt(b.add(mean(b, b.mul(x, x), [1]), 1e-6)), x.shape)
        return b.div(x, root), root

    assert reasons(both, [f32(2, 4)], make) == ["the root of the mean square is used elsewhere, too"]


def test_the_root_mean_square_of_another_value_is_no_rms_norm() -> None:
    after = recognized(
        both, [f32(2, 4), f32(2, 4)], lambda b, x, y: b.div(x, b.sqrt(b.add(mean(b, b.mul(y, y), [1]), 1e-6)))
    )
    assert "rms_norm" not in names(after)
