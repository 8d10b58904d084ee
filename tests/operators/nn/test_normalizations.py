"""Normalisations against their formulas in f64."""

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same

RANDOM = np.random.default_rng(0)
Shape = tuple[int, ...]


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def standardized(x: np.ndarray, axes: Sequence[int], epsilon: float) -> np.ndarray:
    wide = x.astype(np.float64)
    mean, variance = (moment(wide, axis=tuple(axes), keepdims=True) for moment in (np.mean, np.var))
    return (wide - mean) / np.sqrt(variance + epsilon)


def along_channels(vector: np.ndarray, rank: int) -> np.ndarray:
    return vector.reshape(-1, *[1] * (rank - 2)).astype(np.float64)


# BatchNormalization


@pytest.mark.parametrize(
    ("opset", "attributes"),
    [(1, {"is_test": 1, "consumed_inputs": [0]}), (6, {"is_test": 1}), (6, {}), (7, {}), (9, {}), (14, {}), (15, {})],
)
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 1), (0, 3, 2)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_batch_normalization_in_inference(opset: int, attributes: dict[str, object], shape: Shape, way: str) -> None:
    x, scale, bias, mean, variance = floats(*shape), floats(3), floats(3), floats(3), np.abs(floats(3))
    operands = {"x": x, "scale": scale, "bias": bias, "mean": mean, "variance": variance}
    wide = {name: along_channels(value, len(shape)) for name, value in operands.items() if name != "x"}
    expected = (x - wide["mean"]) / np.sqrt(wide["variance"] + 0.01) * wide["scale"] + wide["bias"]
    (actual,) = run_operator("BatchNormalization", operands, opset=opset, way=way, epsilon=0.01, **attributes)
    assert_close(actual, expected.astype(np.float32), terms=4)


@pytest.mark.parametrize(
    ("opset", "attributes", "outputs"),
    [(6, {}, 5), (7, {}, 5), (9, {}, 5), (14, {"training_mode": 1}, 3), (15, {"training_mode": 1}, 3)],
)
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_batch_normalization_in_training(opset: int, attributes: dict[str, object], outputs: int, way: str) -> None:
    x, scale, bias, mean, variance = floats(4, 3, 5), floats(3), floats(3), floats(3), np.abs(floats(3))
    operands = {"x": x, "scale": scale, "bias": bias, "mean": mean, "variance": variance}
    current = [moment(x.astype(np.float64), axis=(0, 2)) for moment in (np.mean, np.var)]
    y = standardized(x, (0, 2), 1e-5) * along_channels(scale, 3) + along_channels(bias, 3)
    running = [old * 0.75 + new * 0.25 for old, new in zip((mean, variance), current, strict=True)]
    actual = run_operator(
        "BatchNormalization", operands, opset=opset, way=way, outputs=outputs, momentum=0.75, **attributes
    )
    for found, expected in zip(actual, (y, *running, *current)[:outputs], strict=True):
        assert_close(found, expected.astype(np.float32), terms=4)


def test_batch_normalization_of_each_element() -> None:
    x, scale, bias, mean, variance = floats(2, 3, 4), floats(3, 4), floats(3, 4), floats(3, 4), np.abs(floats(3, 4))
    operands = {"x": x, "scale": scale, "bias": bias, "mean": mean, "variance": variance}
    expected = (x - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + bias
    assert_close(*run_operator("BatchNormalization", operands, opset=7, spatial=0), expected, terms=4)


def test_batch_normalization_of_a_vector_is_one_channel() -> None:
    one = np.ones(1, np.float32)
    operands = {"x": np.float32([1, 2, 3]), "scale": 2 * one, "bias": one, "mean": one, "variance": 4 * one}
    assert_close(*run_operator("BatchNormalization", operands, opset=9, epsilon=0.0), np.float32([1, 2, 3]))


@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_statistics_of_a_vector_have_the_axis_of_the_channel(way: str) -> None:
    one = np.ones(1, np.float32)
    operands = {"x": np.float32([1, 3]), "scale": one, "bias": one, "mean": one, "variance": 3 * one}
    y, mean, variance = run_operator(
        "BatchNormalization", operands, opset=15, way=way, outputs=3, training_mode=1, momentum=0.5
    )
    # The standard adds 1e-5 to the variance of 1.
    assert_close(y, np.float32(1 + np.array([-1, 1]) / np.sqrt(1 + 1e-5)), terms=2)
    assert_close(mean, np.float32([1.5]))
    assert_close(variance, np.float32([2]))


def test_batch_normalization_of_mixed_types() -> None:
    x = np.array([[[1, 3]]], np.float16)
    one = np.ones(1, np.float32)
    operands = {"x": x, "scale": one, "bias": one, "mean": one.astype(np.float16), "variance": one.astype(np.float16)}
    y, mean, variance = run_operator("BatchNormalization", operands, opset=15, outputs=3, training_mode=1, momentum=0.5)
    assert_close(y, np.float16([[1 + np.array([-1, 1]) / np.sqrt(1 + 1e-5)]]), terms=2)
    assert_same(mean, np.float16([1.5]))
    assert_same(variance, np.float16([1]))


@pytest.mark.parametrize(
    ("shape", "parameter", "code"),
    [
        ((2, 3, 4), (2,), "channel-parameter"),
        ((), (1,), "normalization-rank"),
        ((2, 3, 4), (3, 1), "channel-parameter"),
    ],
)
def test_parameters_fit_the_channels(shape: Shape, parameter: Shape, code: str) -> None:
    operands = {"x": floats(*shape), **{name: floats(*parameter) for name in ("scale", "bias", "mean", "variance")}}
    with pytest.raises(ModelError, match=code):
        run_operator("BatchNormalization", operands, opset=15)


# InstanceNormalization and GroupNormalization


@pytest.mark.parametrize("opset", [1, 6, 22])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 2, 5), (0, 3, 2)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_instance_normalization(opset: int, shape: Shape, way: str) -> None:
    x, scale, bias = floats(*shape), floats(3), floats(3)
    expected = standardized(x, range(2, len(shape)), 0.1) * along_channels(scale, len(shape)) + along_channels(
        bias, len(shape)
    )
    operands = {"x": x, "scale": scale, "bias": bias}
    (actual,) = run_operator("InstanceNormalization", operands, opset=opset, way=way, epsilon=0.1)
    assert_close(actual, expected.astype(np.float32), terms=4)


@pytest.mark.parametrize(("opset", "per_channel"), [(18, False), (21, True)])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_group_normalization(opset: int, per_channel: bool, groups: int, dtype: type[np.generic], way: str) -> None:
    x = floats(2, 4, 3).astype(dtype)
    scale, bias = (floats(4 if per_channel else groups).astype(dtype) for _ in range(2))
    normal = standardized(x.reshape(2, groups, -1), [2], 1e-5).reshape(x.shape)
    factor, shift = (
        (v if per_channel else np.repeat(v, 4 // groups)).reshape(-1, 1).astype(np.float64) for v in (scale, bias)
    )
    operands = {"x": x, "scale": scale, "bias": bias}
    (actual,) = run_operator("GroupNormalization", operands, opset=opset, way=way, num_groups=groups)
    assert_close(actual, (normal * factor + shift).astype(dtype), terms=4)


def test_a_vector_has_no_channels() -> None:
    operands = {"x": floats(3), "scale": floats(3), "bias": floats(3)}
    with pytest.raises(ModelError, match="normalization-rank"):
        run_operator("InstanceNormalization", operands, opset=22)


def test_groups_divide_the_channels() -> None:
    operands = {"x": floats(1, 3, 2), "scale": floats(3), "bias": floats(3)}
    with pytest.raises(ModelError, match="normalization-groups"):
        run_operator("GroupNormalization", operands, opset=21, num_groups=2)


# LayerNormalization and RMSNormalization


@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
@pytest.mark.parametrize("scale_shape", [None, (), (1,), (4,), (3, 1), (2, 1, 4)])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_layer_normalization(axis: int, scale_shape: Shape | None, with_bias: bool, way: str) -> None:
    x = floats(2, 3, 4)
    shape = x.shape[axis:] if scale_shape is None else scale_shape
    scale, bias = floats(*shape), floats(*shape)
    axes = range(axis % 3, 3)
    expected = standardized(x, axes, 1e-5) * scale + (bias if with_bias else 0)
    operands = {"x": x, "scale": scale} | ({"bias": bias} if with_bias else {})
    y, mean, inverse = run_operator("LayerNormalization", operands, opset=17, way=way, outputs=3, axis=axis)
    assert_close(y, expected.astype(np.float32), terms=4)
    assert_close(mean, x.mean(tuple(axes), keepdims=True), terms=x[0].size)
    assert_close(inverse, (1 / np.sqrt(x.var(tuple(axes), keepdims=True) + 1e-5)).astype(np.float32))


def test_statistics_have_the_stash_type() -> None:
    x, scale = floats(2, 4).astype(np.float16), np.ones(4, np.float16)
    y, mean, inverse = run_operator("LayerNormalization", {"x": x, "scale": scale}, opset=17, outputs=3)
    assert (y.dtype, mean.dtype, inverse.dtype) == (np.float16, np.float32, np.float32)
    attributes = {"stash_type": TensorProto.BFLOAT16}
    y, mean, inverse = run_operator("LayerNormalization", {"x": x, "scale": scale}, opset=17, outputs=3, **attributes)
    assert (y.dtype, mean.dtype, inverse.dtype) == (np.float16, ml_dtypes.bfloat16, ml_dtypes.bfloat16)
    # The mean and the inverse deviation are rounded to 8 bits.
    assert_close(y, standardized(x, [1], 1e-5).astype(np.float16), terms=2, accumulator=ml_dtypes.bfloat16)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("scale_shape", [None, (), (4,), (2, 1, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_rms_normalization(axis: int, scale_shape: Shape | None, dtype: type[np.generic], way: str) -> None:
    x = floats(2, 3, 4)
    scale = floats(*(x.shape[axis:] if scale_shape is None else scale_shape)).astype(dtype)
    axes = tuple(range(axis % 3, 3))
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(axes, keepdims=True) + 1e-5) * scale
    (actual,) = run_operator("RMSNormalization", {"x": x, "scale": scale}, opset=23, way=way, axis=axis)
    assert_close(actual, expected.astype(dtype), terms=4, accumulator=np.float32)


def test_a_scale_does_not_enlarge_its_input() -> None:
    with pytest.raises(ModelError, match="normalization-parameter"):
        run_operator("LayerNormalization", {"x": floats(2, 4), "scale": floats(3)}, opset=17)
    with pytest.raises(ModelError, match="normalization-parameter"):
        run_operator("RMSNormalization", {"x": floats(2, 4), "scale": floats(1, 1, 4)}, opset=23)
    with pytest.raises(InputError, match="Scale cannot be broadcast"):
        run_operator("LayerNormalization", {"x": floats(2, 4), "scale": floats(3)}, opset=17, way="symbolic")


# LRN, LpNormalization, MeanVarianceNormalization


@pytest.mark.parametrize("opset", [1, 13])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_lrn_looks_at_the_channels_around(opset: int, size: int, way: str) -> None:
    x = floats(2, 5, 3)
    before, after = (size - 1) // 2, size // 2
    sums = np.stack([(x[:, max(0, c - before) : c + after + 1] ** 2).sum(1) for c in range(5)], 1)
    expected = x / (2 + 0.5 / size * sums) ** np.float32(0.6)
    (actual,) = run_operator("LRN", {"x": x}, opset=opset, way=way, size=size, alpha=0.5, beta=0.6, bias=2.0)
    assert_close(actual, expected)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_lp_normalization_leaves_zeros(p: int, axis: int, way: str) -> None:
    x = np.float32([[3, -4, 0], [0, 0, 0]])
    norm = (np.abs(x) ** p).sum(axis, keepdims=True) ** np.float32(1 / p)
    with np.errstate(invalid="ignore"):
        expected = np.where(norm == 0, 0, x / norm).astype(np.float32)
    assert_close(*run_operator("LpNormalization", {"x": x}, opset=22, way=way, p=p, axis=axis), expected)


@pytest.mark.parametrize("opset", [9, 13])
def test_mean_variance_normalization(opset: int) -> None:
    x = floats(2, 3, 4, 5)
    expected = standardized(x, (0, 2, 3), 0).astype(np.float32)
    assert_close(*run_operator("MeanVarianceNormalization", {"x": x}, opset=opset), expected, terms=8)
    expected = standardized(x, (1,), 0).astype(np.float32)
    assert_close(*run_operator("MeanVarianceNormalization", {"x": x}, opset=opset, axes=[-3]), expected, terms=8)


@pytest.mark.parametrize(
    ("operator", "shape", "attributes", "code"),
    [("LRN", (2,), {"size": 1}, "normalization-rank"), ("LRN", (1, 2, 3), {"size": 0}, "attribute-range"),
     ("LpNormalization", (2,), {"p": 3}, "lp-order"),
     ("LpNormalization", (2,), {"axis": 1}, "axis-out-of-range"),
     ("MeanVarianceNormalization", (2, 2), {}, "axis-out-of-range")],
)  # fmt: skip
def test_illegal_normalizations(operator: str, shape: Shape, attributes: dict[str, object], code: str) -> None:
    with pytest.raises(ModelError, match=code):
        run_operator(operator, {"x": floats(*shape)}, opset=13, **attributes)
