"""Normalisations of com.microsoft against ONNX Runtime, or NumPy where it has no CPU kernel."""

import numpy as np
import pytest

from onnxc.runtime.errors import ModelError
from tests.operators.microsoft.agreement import (
    assert_agrees,
    assert_all_close,
    integers,
    make_model,
    normal,
    run_ours,
)

X = normal(2, 3, 8)


@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)], ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("operator", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_skip_layer_normalizations(operator: str, has_bias: bool, skip: tuple[int, ...]) -> None:
    inputs = {"x": X, "skip": normal(*skip, seed=1), "gamma": normal(8, seed=2)}
    if operator == "SkipLayerNormalization":
        inputs["beta"] = normal(8, seed=3)
    if has_bias:
        inputs["bias"] = normal(8, seed=4)
    shapes = {"x": ["b", "s", 8], "skip": ["b" if skip[0] == 2 else n for n in skip[:-2]] + ["s", 8]}
    assert_agrees(operator, inputs, shapes=shapes, outputs=["y", "", "", "sum"], epsilon=1e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_skip_layer_normalization_without_beta(dtype: type) -> None:
    inputs = {"x": X.astype(dtype), "skip": normal(2, 3, 8, seed=1, dtype=dtype), "gamma": normal(8, dtype=dtype)}
    assert_agrees("SkipLayerNormalization", inputs)
    assert_agrees("SkipSimplifiedLayerNormalization", inputs)


def test_skip_layer_normalization_of_two_axes() -> None:
    inputs = {"x": normal(5, 8), "skip": normal(5, 8, seed=1), "gamma": normal(8, seed=2)}
    assert_agrees("SkipSimplifiedLayerNormalization", inputs, shapes={"x": ["n", 8], "skip": ["n", 8]})


def test_mean_and_inverse_deviation_of_the_sum() -> None:
    inputs = {"x": X, "skip": normal(2, 3, 8, seed=1), "gamma": normal(8, seed=2)}
    total = inputs["x"] + inputs["skip"]
    mean, square = total.mean(2, keepdims=True), (total**2).mean(2, keepdims=True)
    model = make_model("SkipLayerNormalization", inputs, outputs=["y", "mean", "inverse"], epsilon=0.5)
    variance = total.var(2, keepdims=True)
    assert_all_close(run_ours(model, inputs)[1:], [mean, (1 / np.sqrt(variance + np.float32(0.5))).astype(np.float32)])
    model = make_model("SkipSimplifiedLayerNormalization", inputs, outputs=["y", "", "inverse"], epsilon=0.5)
    assert_all_close(run_ours(model, inputs)[1:], [(1 / np.sqrt(square + np.float32(0.5))).astype(np.float32)])


def test_a_skip_of_another_width_is_refused() -> None:
    inputs = {"x": X, "skip": normal(2, 3, 7), "gamma": normal(8)}
    with pytest.raises(ModelError, match="normalization-parameter"):
        run_ours(make_model("SkipLayerNormalization", inputs), inputs)


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("outputs", [["y"], ["y", "inverse"]], ids=str)
def test_simplified_layer_normalization(axis: int, outputs: list[str]) -> None:
    inputs = {"x": X, "scale": normal(*X.shape[axis:], seed=1)}
    shapes = {"x": ["b", 3, 8]} if axis else None
    options = {"outputs": outputs, "domain": "", "axis": axis, "epsilon": 1e-2}
    assert_agrees("SimplifiedLayerNormalization", inputs, shapes=shapes, **options)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_normalization_before_opset_17(axis: int, has_bias: bool) -> None:
    inputs = {"x": X, "scale": normal(*X.shape[axis:], seed=1)}
    if has_bias:
        inputs["bias"] = normal(*X.shape[axis:], seed=2)
    assert_agrees("LayerNormalization", inputs, domain="", opset=13, axis=axis, epsilon=1e-2)


@pytest.mark.parametrize("has_segments", [False, True])
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("has_positions", [False, True])
def test_embed_layer_normalization(has_segments: bool, has_mask: bool, has_positions: bool) -> None:
    def ids(seed: int, below: int) -> np.ndarray:
        return integers(0, below, 2, 4, dtype=np.int32, seed=seed)

    inputs = {
        "ids": ids(0, 10),
        "segments": ids(1, 2) if has_segments else None,
        "word": normal(10, 8),
        "position": normal(6, 8, seed=1),
        "segment": normal(2, 8, seed=2) if has_segments else None,
        "gamma": normal(8, seed=3),
        "beta": normal(8, seed=4),
    }
    if has_mask or has_positions:
        inputs["mask"] = ids(2, 2) if has_mask else None
    if has_positions:
        inputs["positions"] = ids(3, 6)
    shapes = {name: ["b", "s"] for name in ("ids", "segments", "mask", "positions")}
    outputs = ["y", "index", "sum"]
    assert_agrees("EmbedLayerNormalization", inputs, shapes=shapes, outputs=outputs, mask_index_type=1)


def group_norm(x: np.ndarray, groups: int, gamma: np.ndarray, beta: np.ndarray, silu: bool) -> np.ndarray:
    n, h, w, c = x.shape
    split = x.reshape(n, h, w, groups, c // groups).astype(np.float64)
    centred = split - split.mean((1, 2, 4), keepdims=True)
    normal = (centred / np.sqrt(split.var((1, 2, 4), keepdims=True) + 1e-5)).reshape(x.shape) * gamma + beta
    return (normal / (1 + np.exp(-normal)) if silu else normal).astype(np.float32)


@pytest.mark.parametrize("silu", [0, 1])
@pytest.mark.parametrize("is_last", [0, 1])
def test_group_norm(is_last: int, silu: int) -> None:
    x, gamma, beta = normal(2, 3, 5, 8), normal(8, seed=1), normal(8, seed=2)
    inputs = {"x": x if is_last else x.transpose(0, 3, 1, 2).copy(), "gamma": gamma, "beta": beta}
    options = {"groups": 4, "activation": silu, "channels_last": is_last}
    expected = group_norm(x, 4, gamma, beta, bool(silu))
    if not is_last:
        expected = expected.transpose(0, 3, 1, 2)
    shape = ["n", "h", "w", 8] if is_last else ["n", 8, "h", "w"]
    for shapes in (None, {"x": shape}):
        assert_all_close(run_ours(make_model("GroupNorm", inputs, shapes=shapes, **options), inputs), [expected])


@pytest.mark.parametrize("skip", [(2, 3, 5, 8), (2, 1, 1, 8), (2, 8)], ids=str)
def test_skip_group_norm(skip: tuple[int, ...]) -> None:
    x, gamma, beta, bias = normal(2, 3, 5, 8), normal(8, seed=1), normal(8, seed=2), normal(8, seed=3)
    inputs = {"x": x, "gamma": gamma, "beta": beta, "skip": normal(*skip, seed=4), "bias": bias}
    total = x + inputs["skip"].reshape((*skip[:1], *((1, 1, 8) if len(skip) == 2 else skip[1:]))) + bias
    model = make_model("SkipGroupNorm", inputs, outputs=["y", "s"], groups=2, activation=1)
    assert_all_close(run_ours(model, inputs), [group_norm(total, 2, gamma, beta, True), total])


def test_embeddings_of_anything_but_rows_are_refused() -> None:
    words = normal(10, 8)
    inputs = {"ids": np.zeros(4, np.int32), "segments": None, "word": words, "position": words, "segment": None}
    inputs |= {"gamma": normal(8), "beta": normal(8)}
    with pytest.raises(ModelError, match="embedding-rank"):
        run_ours(make_model("EmbedLayerNormalization", inputs), inputs)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_table_of_segments_alone_gives_its_first_row(dtype: type) -> None:
    inputs = {
        "ids": integers(0, 10, 2, 4, dtype=np.int32),
        "segments": None,
        "word": normal(10, 8, dtype=dtype),
        "position": normal(6, 8, seed=1, dtype=dtype),
        "segment": normal(2, 8, seed=2, dtype=dtype),
        "gamma": normal(8, seed=3, dtype=dtype),
        "beta": normal(8, seed=4, dtype=dtype),
    }
    outputs = ["y", "index", "sum"]
    expected = assert_agrees("EmbedLayerNormalization", inputs, shapes={"ids": ["b", "s"]}, outputs=outputs)
    rows = inputs["word"][inputs["ids"]] + inputs["position"][:4] + inputs["segment"][0]
    assert np.allclose(expected[2].astype(np.float32), rows.astype(np.float32), atol=1e-2)


@pytest.mark.parametrize("has_segments", [False, True])
@pytest.mark.parametrize("has_mask", [False, True])
def test_quantised_embed_layer_normalization(has_mask: bool, has_segments: bool) -> None:
    names = ("word", "position", "segment", "gamma", "beta")
    rows = {"word": (10, 8), "position": (6, 8), "segment": (2, 8), "gamma": (8,), "beta": (8,)}
    given = [name for name in names if has_segments or name != "segment"]

    def of_each(suffix: str, value: np.ndarray) -> dict[str, np.ndarray | None]:
        return {f"{name}_{suffix}": value if name in given else None for name in names}

    tables = {name: integers(0, 256, *rows[name], seed=index) for index, name in enumerate(names)}
    inputs: dict[str, np.ndarray | None] = {
        "ids": integers(0, 10, 2, 4, dtype=np.int32),
        "segments": integers(0, 2, 2, 4, dtype=np.int32, seed=1) if has_segments else None,
        **{name: tables[name] if name in given else None for name in names},
        "mask": integers(0, 2, 2, 4, dtype=np.int32, seed=2) if has_mask else None,
        **of_each("scale", np.array(0.05, np.float32)),
        **of_each("zero", np.array(120, np.uint8)),
    }
    shapes = {name: ["b", "s"] for name in ("ids", "segments", "mask")}
    assert_agrees("QEmbedLayerNormalization", inputs, shapes=shapes, outputs=["y", "index"])
