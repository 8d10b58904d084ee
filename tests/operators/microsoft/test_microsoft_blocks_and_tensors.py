"""Weights in blocks, and operators on tensors at large, of com.microsoft against ONNX Runtime."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from onnxc.runtime.errors import ModelError, UnsupportedError
from tests.operators.microsoft.agreement import (
    assert_agrees,
    assert_all_close,
    integers,
    make_model,
    normal,
    run_ours,
)


@pytest.mark.parametrize(
    ("bits", "zeros"), [(4, None), (4, "packed"), (4, "floats"), (8, None), (8, "packed")], ids=str
)
@pytest.mark.parametrize(("k", "size"), [(64, 32), (48, 32), (16, 16), (33, 16)])
def test_matmul_n_bits(k: int, size: int, zeros: str | None, bits: int) -> None:
    n, count = 5, -(-k // size)
    inputs = {
        "a": normal(2, 3, k),
        "b": integers(0, 256, n, count, size * bits // 8),
        "scales": normal(n, count, seed=1),
    }
    if zeros == "packed":
        inputs["zeros"] = integers(0, 256, n, -(-count * bits // 8), seed=2)
    if zeros == "floats":
        inputs["zeros"] = normal(n, count, seed=2) * np.float32(4)
    constants = [name for name in inputs if name != "a"]
    options = {"K": k, "N": n, "bits": bits, "block_size": size, "constants": constants}
    assert_agrees("MatMulNBits", inputs, shapes={"a": ["b", "s", k]}, **options)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("outer", [(1,), (1, 2), (3,), (0, 1)], ids=str)
def test_matmul_n_bits_of_few_rows(outer: tuple[int, ...], bits: int) -> None:
    inputs = {
        "a": normal(*outer, 64),
        "b": integers(0, 256, 5, 2, 32 * bits // 8),
        "scales": normal(5, 2, seed=1),
        "zeros": integers(0, 256, 5, -(-2 * bits // 8), seed=2),
    }
    model = make_model("MatMulNBits", inputs, constants=["b", "scales", "zeros"], K=64, N=5, bits=bits, block_size=32)
    (found,) = run_ours(model, inputs)

    def elements(packed: np.ndarray) -> np.ndarray:
        parts = packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & (2**bits - 1)
        return parts.reshape(*packed.shape[:-1], -1).astype(np.float64)

    shifted = elements(inputs["b"]) - elements(inputs["zeros"])[:, :2, None]
    weights = (shifted * inputs["scales"][..., None]).reshape(5, 64)
    assert found.shape == (*outer, 5)
    np.testing.assert_allclose(found, inputs["a"].astype(np.float64) @ weights.T, rtol=1e-5, atol=1e-4)


def _in_bytes(a: np.ndarray, size: int) -> np.ndarray:
    """`a` rounded to 127 steps on either side of 0, in blocks along its last axis."""
    k = a.shape[-1]
    blocks = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, -k % size)]).reshape(*a.shape[:-1], -(-k // size), size)
    steps = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    inverse = np.divide(np.float32(1), steps, out=np.zeros_like(steps), where=steps >= np.finfo(np.float32).tiny)
    return (np.rint(blocks * inverse).astype(np.float64) * steps).reshape(*a.shape[:-1], -(-k // size) * size)[..., :k]


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("k", "size"), [(64, 32), (48, 32), (16, 16), (500, 128)])
@pytest.mark.parametrize("outer", [(), (1,), (2, 9), (3,), (0, 1)], ids=str)
def test_matmul_n_bits_that_may_round_to_bytes(
    outer: tuple[int, ...], k: int, size: int, bits: int, has_zeros: bool
) -> None:
    count = -(-k // size)
    a = normal(*outer, k) * np.float32(3)
    # Zeros, and one number that is far larger than the others.
    a[..., : size // 2] *= np.float32(len(outer) != 1)
    a[..., -1:] *= np.float32(1000)
    inputs = {
        "a": a,
        "b": integers(0, 256, 5, count, size * bits // 8),
        "scales": normal(5, count, seed=1),
        "zeros": integers(0, 256, 5, -(-count * bits // 8), seed=2) if has_zeros else None,
    }
    constants = [name for name in ("b", "scales", "zeros") if inputs[name] is not None]
    options = {"K": k, "N": 5, "bits": bits, "block_size": size, "accuracy_level": 4}
    (found,) = run_ours(make_model("MatMulNBits", inputs, constants=constants, **options), inputs)

    def elements(packed: np.ndarray) -> np.ndarray:
        parts = packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & (2**bits - 1)
        return parts.reshape(*packed.shape[:-1], -1).astype(np.float64)

    zeros = elements(inputs["zeros"])[:, :count, None] if has_zeros else 2 ** (bits - 1)
    weights = ((elements(inputs["b"]) - zeros) * inputs["scales"][..., None]).reshape(5, -1)[:, :k]
    expected = _in_bytes(inputs["a"], size) @ weights.T
    assert (found.dtype, found.shape) == (np.float32, (*outer, 5))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max(initial=1))


@pytest.mark.parametrize("largest", [0.0, -0.0, 1e-45, -1e-37])
def test_rows_whose_steps_have_no_inverse_are_nothing(largest: float) -> None:
    """A hundredth of the largest element would become as large as it is."""
    a = np.full((1, 32), largest / 100, np.float32)
    a[0, 0] = largest
    inputs = {"a": a, "b": np.zeros((5, 1, 16), np.uint8), "scales": np.full((5, 1), 1e37, np.float32)}
    options = {"constants": ["b", "scales"], "K": 32, "N": 5, "bits": 4, "block_size": 32, "accuracy_level": 4}
    (found,) = run_ours(make_model("MatMulNBits", inputs, **options), inputs)
    assert found.tolist() == [[0.0] * 5]


def test_matmul_n_bits_that_may_round_agrees_with_onnxruntime() -> None:
    inputs = {
        "a": normal(7, 256),
        "b": integers(0, 256, 40, 8, 16),
        "scales": normal(40, 8, seed=1),
        "zeros": integers(0, 256, 40, 4, seed=2),
    }
    options = {"K": 256, "N": 40, "bits": 4, "block_size": 32, "accuracy_level": 4}
    assert_agrees("MatMulNBits", inputs, shapes={"a": ["m", 256]}, constants=["b", "scales", "zeros"], **options)


def test_matmul_n_bits_with_flat_parameters_and_bias() -> None:
    inputs = {
        "a": normal(3, 64),
        "b": integers(0, 256, 5, 2, 16),
        "scales": normal(10, seed=1),
        "zeros": integers(0, 256, 5, seed=2),
        "groups": None,
        "bias": normal(5, seed=3),
    }
    assert_agrees("MatMulNBits", inputs, constants=["b", "scales", "zeros", "bias"], K=64, N=5, bits=4, block_size=32)


def test_matmul_n_bits_with_groups() -> None:
    inputs = {
        "a": normal(3, 64),
        "b": integers(0, 256, 5, 2, 16),
        "scales": normal(5, 2, seed=1),
        "zeros": None,
        "groups": integers(0, 2, 64, dtype=np.int32),
    }
    assert_agrees("MatMulNBits", inputs, constants=["b", "scales", "groups"], K=64, N=5, bits=4, block_size=32)


def test_matmul_n_bits_with_groups_as_large_as_blocks_in_any_order() -> None:
    inputs = {
        "a": normal(3, 48),
        "b": integers(0, 256, 5, 3, 8),
        "scales": normal(5, 3, seed=1),
        "zeros": None,
        "groups": np.random.default_rng(3).permutation(np.arange(48, dtype=np.int32) // 16),
    }
    constants = ["b", "scales", "groups"]
    assert_agrees("MatMulNBits", inputs, constants=constants, K=48, N=5, bits=4, block_size=16)


def test_matmul_n_bits_of_no_known_form_is_refused() -> None:
    inputs = {"a": normal(3, 64), "b": integers(0, 256, 5, 2, 16), "scales": normal(5, 2)}
    with pytest.raises(UnsupportedError, match="bits is 3"):
        run_ours(make_model("MatMulNBits", inputs, K=64, N=5, bits=3, block_size=32), inputs)
    with pytest.raises(ModelError, match="quantization-blocks"):
        run_ours(make_model("MatMulNBits", inputs, K=64, N=6, bits=4, block_size=32), inputs)


@pytest.mark.parametrize("indices", [(3,), (2, 2), ()], ids=str)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_gather_block_quantized_of_bytes(has_zeros: bool, bits: int, indices: tuple[int, ...]) -> None:
    inputs = {
        "data": integers(0, 256, 6, 32 * bits // 8),
        "indices": np.asarray(integers(-6, 6, *indices, dtype=np.int64, seed=1)),
        "scales": normal(6, 2, seed=2),
        "zeros": integers(0, 256, 6, 2 * bits // 8, seed=3) if has_zeros else None,
    }
    constants = ["data", "scales", *(["zeros"] if has_zeros else [])]
    options = {"bits": bits, "block_size": 16, "quantize_axis": 1, "constants": constants}
    assert_agrees("GatherBlockQuantized", inputs, shapes={"indices": [f"i{a}" for a in range(len(indices))]}, **options)


@pytest.mark.parametrize(("gather", "along"), [(0, 1), (1, 0), (1, 1), (0, 0)])
def test_gather_block_quantized_of_nibbles(gather: int, along: int) -> None:
    data = integers(-8, 8, 32, 48, dtype=np.int8)
    scales = normal(*((2, 48) if along == 0 else (32, 3)), seed=1)
    indices = integers(0, 32, 2, 3, dtype=np.int64, seed=2)
    inputs = {"indices": indices}
    model = make_model("GatherBlockQuantized", inputs, gather_axis=gather, quantize_axis=along, block_size=16)
    node = model.graph.node[0]
    del node.input[:]
    node.input.extend(["data", "indices", "scales"])
    packed = helper.make_tensor("data", TensorProto.INT4, data.shape, data.astype(ml_dtypes.int4).ravel())
    model.graph.initializer.append(packed)
    model.graph.initializer.append(helper.make_tensor("scales", TensorProto.FLOAT, scales.shape, scales.ravel()))
    real = data * np.repeat(scales, 16, axis=along)
    assert_all_close(run_ours(model, inputs), [np.take(real, indices, axis=gather)])


# Tensors at large


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -1, 2])
def test_trilu(k: int | None, upper: int) -> None:
    inputs = {"x": normal(2, 3, 4), "k": None if k is None else np.array(k, np.int64)}
    assert_agrees("Trilu", inputs, upper=upper)


@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 4, 4), (1, 1), (0, 3, 3)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverse(shape: tuple[int, ...], dtype: type) -> None:
    x = normal(*shape, dtype=dtype) + 3 * np.eye(shape[-1], dtype=dtype)
    assert_agrees("Inverse", {"x": x}, shapes={"x": [f"n{axis}" for axis in range(len(shape))]})


def test_an_inverse_needs_pivots() -> None:
    x = np.array([[0, 2], [4, 0]], np.float32)
    assert_agrees("Inverse", {"x": x})


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_expand_dims(axis: int) -> None:
    assert_agrees("ExpandDims", {"x": normal(2, 3), "axis": np.array(axis, np.int32)}, constants=["axis"])


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_cdist(metric: str) -> None:
    inputs = {"a": normal(3, 4), "b": normal(5, 4, seed=1)}
    assert_agrees("CDist", inputs, shapes={"a": ["m", "d"], "b": ["n", "d"]}, metric=metric)


@pytest.mark.parametrize("values", [(0, 10, 3), (5, -5, -2), (3, 3, 1), (0.5, 3.0, 0.75)], ids=str)
def test_range(values: tuple[float, float, float]) -> None:
    dtype = np.float32 if isinstance(values[0], float) else np.int64
    inputs = {name: np.array(value, dtype) for name, value in zip("abc", values, strict=True)}
    assert_agrees("Range", inputs)


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize("is_constant", [False, True])
def test_a_range_without_a_delta_counts_by_one(is_constant: bool, dtype: type) -> None:
    inputs = {"start": np.array(-1, dtype), "limit": np.array(3, dtype)}
    (expected,) = assert_agrees("Range", inputs, constants=list(inputs) if is_constant else [])
    assert expected.tolist() == [-1, 0, 1, 2]


def test_unique() -> None:
    inputs = {"x": np.float32([2, 1, 1, 3, 4, 3])}
    assert_agrees("Unique", inputs, outputs=["y", "idx", "counts"], shapes={"x": ["n"]})


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode: str, padding: str) -> None:
    inputs = {"x": normal(1, 2, 5, 6), "grid": normal(1, 3, 4, 2, seed=1)}
    assert_agrees("GridSample", inputs, mode=mode, padding_mode=padding, align_corners=1)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gather_nd(dtype: type) -> None:
    inputs = {"x": normal(3, 4, 5), "indices": integers(0, 3, 2, 2, dtype=dtype)}
    assert_agrees("GatherND", inputs)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(mode: str) -> None:
    value = np.float32([7]) if mode == "constant" else None
    inputs = {"x": normal(3, 4), "pads": np.int64([1, 0, 2, 1]), "value": value}
    assert_agrees("Pad", inputs, constants=["pads"], mode=mode)


def test_complex_products_and_finite_checks() -> None:
    a, b = normal(3, 2), normal(3, 2, seed=1)
    numbers = (a[:, 0] + 1j * a[:, 1]), (b[:, 0] + 1j * b[:, 1])
    for name, expected in (("ComplexMul", numbers[0] * numbers[1]), ("ComplexMulConj", numbers[0] * numbers[1].conj())):
        inputs = {"a": a, "b": b}
        (y,) = run_ours(make_model(name, inputs), inputs)
        np.testing.assert_allclose(y, np.stack([expected.real, expected.imag], 1), rtol=1e-5)
    infinite = {"a": np.float32([1, np.inf]), "b": np.float32([1])}
    for options, expected in (({}, False), ({"isnan_only": 1}, True), ({"isinf_only": 1}, False)):
        (y,) = run_ours(make_model("IsAllFinite", infinite, **options), infinite)
        assert y == expected


def test_torch_embedding() -> None:
    inputs = {"weight": normal(5, 3), "indices": integers(0, 5, 2, 2, dtype=np.int64)}
    (y,) = run_ours(make_model("TorchEmbedding", inputs), inputs)
    np.testing.assert_array_equal(y, inputs["weight"][inputs["indices"]])


def test_distances_between_rows_of_other_widths_are_refused() -> None:
    inputs = {"a": normal(3, 4), "b": normal(5, 3)}
    with pytest.raises(ModelError, match="distance-shape"):
        run_ours(make_model("CDist", inputs), inputs)
