"""Attention of packed tokens, padding removed and restored; ONNX Runtime has these on CUDA alone, so against NumPy."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import InputError, ModelError
from tests.operators.microsoft.agreement import Inputs, assert_all_close, make_model, normal, run_ours

S, N, D = 4, 2, 3
H, V = N * D, N * 5
SCALE = D**-0.5
LENGTHS = ([1, 2, 4], [4, 4], [3], [0, 2], [])
SYMBOLIC = {"offsets": ["b", "s"], "ends": ["e"], "counts": ["b"]}


def packing(lengths: Sequence[int]) -> dict[str, np.ndarray]:
    """token_offset and cumulative_sequence_length of sequences of these lengths in S tokens."""
    flat = np.arange(len(lengths) * S)
    real = flat % S < np.repeat(np.array(lengths, np.int64), S)
    offsets = np.concatenate([flat[real], flat[~real]]).astype(np.int32).reshape(len(lengths), S)
    return {"offsets": offsets, "ends": np.cumsum([0, *lengths]).astype(np.int32)}


def attended(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    ends: np.ndarray,
    bias: np.ndarray | None = None,
    scale: float = D**-0.5,
) -> np.ndarray:
    """Attention of each sequence by itself; q, k: T[T, N, D], v: T[T, N, E]"""
    result = np.zeros((len(q), N * v.shape[2]), q.dtype)
    for index, (start, end) in enumerate(pairwise(ends)):
        rows, count = slice(start, end), end - start
        scores = np.einsum("qnd,knd->nqk", q[rows].astype(np.float64), k[rows]) * scale
        if bias is not None:
            scores = scores + bias[index % len(bias), :, :count, :count]
        weights = np.exp(scores)
        weights /= weights.sum(-1, keepdims=True)
        result[rows] = np.einsum("nqk,knd->qnd", weights, v[rows]).reshape(count, result.shape[1])
    return result


def run(
    operator: str, inputs: Inputs, *, symbolic: bool = False, outputs: Sequence[str] = ("y",), **attributes: object
) -> tuple[np.ndarray, ...]:
    """The results by the interpreter, which native code agrees with."""
    tokens = {name: ["t", *value.shape[1:]] for name, value in inputs.items() if name in "qkvx" and value is not None}
    shapes = SYMBOLIC | tokens if symbolic else None
    model = make_model(operator, inputs, outputs=outputs, shapes=shapes, **attributes)
    expected = run_ours(model, inputs)
    actual = onnxc.compile(model).run({name: value for name, value in inputs.items() if value is not None})
    assert_all_close([actual[name] for name in outputs], expected)
    return expected


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_tokens_attend_to_those_of_their_sequence(lengths: list[int], symbolic: bool) -> None:
    tokens = sum(lengths)
    x, w, bias = normal(tokens, 5), normal(5, 2 * H + V, seed=1), normal(2 * H + V, seed=2)
    inputs = {"x": x, "w": w, "bias": bias, **packing(lengths)}
    q, k, v = np.split(x @ w + bias, (H, 2 * H), axis=1)
    heads = [part.reshape(tokens, N, D) for part in (q, k)]
    found = run("PackedAttention", inputs, symbolic=symbolic, num_heads=N, qkv_hidden_sizes=[H, H, V])
    assert_all_close(found, [attended(*heads, v.reshape(tokens, N, V // N), inputs["ends"])])


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("form", ["parts", "bias", "one operand"])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_heads_that_are_projected_already(lengths: list[int], form: str, dtype: type, symbolic: bool) -> None:
    tokens, width = sum(lengths), D if form == "one operand" else V // N
    q, k, v = (normal(tokens, N, size, seed=index, dtype=dtype) for index, size in enumerate((D, D, width)))
    added = normal(2 * H + N * width, seed=5, dtype=dtype) if form == "bias" else None
    parts = {name: x.reshape(tokens, N * x.shape[2]) for name, x in {"q": q, "k": k, "v": v}.items()}
    if form == "one operand":
        parts = {"q": np.stack([q, k, v], 2), "k": None, "v": None}
    inputs = {**parts, "bias": added, **packing(lengths)}
    if added is not None:
        biases = np.split(added, (H, 2 * H))
        q, k, v = (x + bias.reshape(N, -1) for x, bias in zip((q, k, v), biases, strict=True))
    found = run("PackedMultiHeadAttention", inputs, symbolic=symbolic, num_heads=N)
    assert_all_close(found, [attended(q, k, v, inputs["ends"])])


@pytest.mark.parametrize("shape", [(3, N, S, S), (1, N, S, S), (3, 1, S, S), (1, 1, S, S)])
def test_scores_have_a_bias_by_the_tokens_of_a_sequence(shape: tuple[int, ...]) -> None:
    lengths, bias = [1, 2, 4], normal(*shape, seed=8)
    q, k, v = (normal(7, N, D, seed=index) for index in range(3))
    inputs = {name: x.reshape(7, H) for name, x in {"q": q, "k": k, "v": v}.items()} | {"none": None}
    inputs |= {**packing(lengths), "scores": bias}
    found = run("PackedMultiHeadAttention", inputs, num_heads=N, scale=0.5)
    assert_all_close(found, [attended(q, k, v, inputs["ends"], bias, scale=0.5)])


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_padding_is_removed_and_restored(lengths: list[int], symbolic: bool) -> None:
    x, packed = normal(len(lengths), S, 3), packing(lengths)
    inputs = {"padded": x, "counts": np.array(lengths, np.int32)}
    names = ("tokens", "offsets", "ends", "longest")
    found = run("RemovePadding", inputs, symbolic=symbolic, outputs=names)
    rows = x.reshape(-1, 3)[packed["offsets"].reshape(-1)[: sum(lengths)]]
    assert_all_close(found, [rows, packed["offsets"], packed["ends"], np.array([max(lengths, default=0)], np.int32)])
    restored = run("RestorePadding", {"x": rows, "offsets": packed["offsets"]}, symbolic=symbolic)
    real = np.arange(S) < np.array(lengths, np.int64).reshape(-1, 1)
    assert_all_close(restored, [np.where(real[..., None], x, np.float32(0))])


def test_operands_of_other_shapes_are_errors_of_the_node() -> None:
    q, packed = normal(3, H), packing([1, 2])
    for wrong in ({"k": None}, {"q": normal(3, N, 3, D)}, {"offsets": packed["ends"]}, {"ends": packed["ends"][:2]}):
        inputs = {"q": q, "k": q, "v": q, "none": None, **packed, **wrong}
        with pytest.raises(ModelError, match="PackedMultiHeadAttention") as caught:
            run_ours(make_model("PackedMultiHeadAttention", inputs, num_heads=N), inputs)
        assert caught.value.code in ("packed-tokens", "missing-input")


def test_more_tokens_than_there_are_with_padding_are_an_error() -> None:
    x, offsets = normal(S + 1, 3), packing([S])["offsets"]
    with pytest.raises(ModelError, match="5 packed tokens and 4 with padding"):
        run("RestorePadding", {"x": x, "offsets": offsets})
    with pytest.raises(InputError, match="more packed tokens"):
        run("RestorePadding", {"x": x, "offsets": offsets}, symbolic=True)
