"""Attention beside the interpreter: both forms, masks of every shape, causal, grouped heads, odd sizes and types."""

from collections.abc import Sequence

import numpy as np
import pytest

from onnxc.compiler.codegen_cpu.emit import kernel_pieces
from onnxc.compiler.codegen_cpu.schedules.attention import (
    FEW_QUERIES,
    LINE_KEYS,
    PANEL_KEYS,
    WIDEST,
    is_native,
)
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.composites.decompositions import decompose
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.rewriter import rewrite, rule
from onnxc.compiler.passes.pipeline import run_pipeline
from onnxc.compiler.passes.pipelines import target_pipeline
from onnxc.compiler.planning.kernel_plan import segments_of
from onnxc.compiler.planning.schedules import AttentionSchedule
from onnxc.compiler.target import Target
from tests.codegen_cpu.support import EVERY_TARGET, HOST, Native, make, precision, sample

MANY = 2 * FEW_QUERIES + 37
"""Queries for more than one panel of any target, the last one not full."""


def _native(
    types: Sequence[str], scale: float = 0.25, causal: bool = False, softcap: float = 0.0, target: Target = HOST
) -> Native:
    def build(ir: Builder, q: Value, k: Value, v: Value, *mask: Value) -> Value:
        return ir.attention(q, k, v, mask[0] if mask else None, scale, causal, softcap)

    native = Native(make(types, build), target)
    assert native.kernels() == ["attention"]
    return native


def _algorithms(native: Native) -> list[str]:
    return [kernel.scheduled(AttentionSchedule).algorithm for kernel in native.plan.kernels]


SIZES = ((1, 1), (5, 70), (33, 33), (0, 3), (3, 0), (65, 0), (130, 300), (2, 1100))
"""Queries and keys."""


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_known_sizes(sizes: tuple[int, int]) -> None:
    queries, keys = sizes
    _check_sizes(_native([f"f32[2, 3, {queries}, 24]", f"f32[2, 3, {keys}, 24]", f"f32[2, 3, {keys}, 20]"]), *sizes)


@pytest.mark.parametrize("causal", [False, True])
def test_sizes_that_only_a_call_knows(causal: bool) -> None:
    native = _native(["f32[B, 3, S, 24]", "f32[B, 3, T, 24]", "f32[B, 3, T, 20]"], causal=causal)
    for sizes in SIZES:
        _check_sizes(native, *sizes)
    _check_sizes(native, 3, 3, batch=0)


def _check_sizes(native: Native, queries: int, keys: int, batch: int = 2) -> None:
    lengths = ((queries, 24), (keys, 24), (keys, 20))
    native.check(*(sample(F32, batch, 3, *length) for length in lengths), bound=5e-6)


@pytest.mark.parametrize("queries", [3, MANY])
@pytest.mark.parametrize("target", EVERY_TARGET, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16], ids=str)
def test_types_targets_and_softcap(dtype: DType, target: Target, queries: int) -> None:
    shapes = ((1, 2, queries, 20), (1, 2, 150, 20), (1, 2, 150, 70))
    types = [f"{dtype}[{', '.join(map(str, shape))}]" for shape in shapes]
    native = _native(types, softcap=2.0, target=target)
    native.check(*(sample(dtype, *shape) for shape in shapes), bound=4 * precision(dtype))


@pytest.mark.parametrize("dtype", [F32, F16, F64], ids=str)
@pytest.mark.parametrize("queries", [5, MANY])
@pytest.mark.parametrize("shape", ["2, 4, S, 7", "1, 1, S, 7", "2, 1, 1, 7", "1, 4, 1, 7", "2, 1, S, 1", "B, 1, S, T"])
def test_masks(shape: str, queries: int, dtype: DType) -> None:
    native = _native(["f32[B, 4, S, 16]", "f32[B, 2, T, 16]", "f32[B, 2, T, 16]", f"{dtype}[{shape}]"])
    q, k, v = sample(F32, 2, 4, queries, 16), sample(F32, 2, 2, 7, 16, seed=1), sample(F32, 2, 2, 7, 16, seed=2)
    sizes = {"B": 2, "S": queries, "T": 7}
    mask = sample(dtype, *(sizes[x] if x in sizes else int(x) for x in shape.split(", ")))
    native.check(q, k, v, mask, bound=5e-6)
    mask[..., 3:] = -np.inf
    native.check(q, k, v, mask, bound=5e-6)


@pytest.mark.parametrize("dtype", [F32, F64, F16], ids=str)
@pytest.mark.parametrize("leading", [(1, 1), (1, 4), (2, 1), (2, 4)], ids=str)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=lambda target: target.name)
def test_constant_biases_lie_as_the_scores_do(leading: tuple[int, int], dtype: DType, target: Target) -> None:
    """In panels of queries, the last one narrower than the others; in the type of the scores, else as they are."""
    biases = sample(dtype, *leading, MANY, PANEL_KEYS + 9)
    biases[..., 3:20], biases[..., 5, :] = -np.inf, -np.inf

    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        return ir.attention(q, k, v, ir.constant(biases), 0.25, False, 0.0)

    keys = f"{dtype}[2, 2, {PANEL_KEYS + 9}, 16]"
    native = Native(make([f"{dtype}[2, 4, {MANY}, 16]", keys, keys], build), target)
    (kernel,) = native.plan.kernels
    assert (kernel.schedule.packing is not None) == (dtype != F16)
    q, k = sample(dtype, 2, 4, MANY, 16), sample(dtype, 2, 2, PANEL_KEYS + 9, 16, seed=1)
    native.check(q, k, sample(dtype, *k.shape, seed=2), bound=5e-6 if dtype != F16 else 4 * precision(dtype))


def test_a_mask_that_only_a_call_repeats() -> None:
    native = _native(["f32[2, 4, S, 16]", "f32[2, 4, T, 16]", "f32[2, 4, T, 16]", "f32[A, B, C, D]"])
    q, k, v = sample(F32, 2, 4, 40, 16), sample(F32, 2, 4, 50, 16, seed=1), sample(F32, 2, 4, 50, 16, seed=2)
    for shape in ((1, 1, 40, 50), (2, 1, 1, 50), (1, 4, 40, 1), (2, 4, 40, 50)):
        native.check(q, k, v, sample(F32, *shape), bound=5e-6)


@pytest.mark.parametrize("queries", [4, MANY])
def test_queries_that_see_nothing_give_zeros(queries: int) -> None:
    keys = LINE_KEYS + PANEL_KEYS + 3
    native = _native(["f32[1, 1, S, 8]", "f32[1, 1, T, 8]", "f32[1, 1, T, 8]", "f32[1, 1, S, T]"])
    mask = np.zeros((1, 1, queries, keys), np.float32)
    mask[0, 0, 1], mask[0, 0, 2, : keys - 1], mask[0, 0, 3, 1:] = -np.inf, -np.inf, -np.inf
    arrays = [sample(F32, 1, 1, queries, 8), sample(F32, 1, 1, keys, 8), sample(F32, 1, 1, keys, 8)]
    native.check(*arrays, mask, bound=5e-6)
    assert not native(*arrays, mask)[0][0, 0, 1].any()


@pytest.mark.parametrize("queries", [3, MANY])
def test_scores_that_rise_and_fall_from_block_to_block(queries: int) -> None:
    keys = 3 * LINE_KEYS + 5
    native = _native(["f32[1, 2, S, 8]", "f32[1, 2, T, 8]", "f32[1, 2, T, 8]", "f32[1, 1, 1, T]"])
    arrays = [sample(F32, 1, 2, queries, 8), sample(F32, 1, 2, keys, 8), sample(F32, 1, 2, keys, 8)]
    rising = np.linspace(-300, 300, keys, dtype=np.float32)[np.newaxis, np.newaxis, np.newaxis]
    for mask in (rising, -rising, np.abs(rising), -np.abs(rising)):
        native.check(*arrays, mask, bound=5e-6)


@pytest.mark.parametrize("queries", [3, MANY])
def test_nan_and_infinities_are_seen_where_keys_are(queries: int) -> None:
    native = _native(["f32[1, 1, S, 8]", "f32[1, 1, T, 8]", "f32[1, 1, T, 8]", "f32[1, 1, 1, T]"])
    for odd in (np.nan, np.inf, -np.inf):
        q, k, v = (sample(F32, 1, 1, size, 8, seed=size) for size in (queries, 300, 301))
        v, mask = v[:, :, :300], np.zeros((1, 1, 1, 300), np.float32)
        q[0, 0, 1, 2] = odd
        native.check(q, k, v, mask, bound=5e-6)
        q[0, 0, 1, 2] = 0.5
        k[0, 0, 2, 3] = odd
        native.check(q, k, v, mask, bound=5e-6)
        mask[..., 2] = -np.inf
        native.check(q, k, v, mask, bound=5e-6)


@pytest.mark.parametrize("queries", [1, 3, MANY])
@pytest.mark.parametrize("heads", [(2, 2), (6, 2), (40, 2)], ids=str)
def test_heads_share_keys_and_values(heads: tuple[int, int], queries: int) -> None:
    every, groups = heads
    native = _native([f"f32[2, {every}, S, 24]", *[f"f32[2, {groups}, 601, 24]"] * 2], causal=True)
    assert _algorithms(native) == ["lines", "panels"]
    native.check(
        *(sample(F32, 2, size, length, 24) for size, length in ((every, queries), (groups, 601), (groups, 601))),
        bound=5e-6,
    )


@pytest.mark.parametrize("queries", [3, MANY])
def test_operands_and_results_lie_where_the_model_has_them(queries: int) -> None:
    def build(ir: Builder, x: Value) -> Value:
        parts = ir.transpose(ir.reshape(x, (2, queries, 3, 4, 8)), (2, 0, 3, 1, 4))
        q, k, v = (
            ir.reshape(ir.slice(parts, (part, 0, 0, 0, 0), (1, 2, 4, queries, 8)), (2, 4, queries, 8))
            for part in range(3)
        )
        turned = ir.transpose(ir.attention(q, k, v, None, 0.3, False, 0.0), (0, 2, 1, 3))
        return ir.reshape(turned, (2, queries, 32))

    native = Native(make([f"f32[2, {queries}, 96]"], build))
    assert native.kernels() == ["attention"]
    assert native.plan.kernels[0].block.results[0].shape == (2, queries, 32)
    native.check(sample(F32, 2, queries, 96), bound=5e-6)


@pytest.mark.parametrize("dtype", [F32, F16, F64], ids=str)
@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 3, 1, 2), (3, 1, 0, 2)])
def test_results_in_which_queries_lie_side_by_side_are_written_in_vectors(order: Sequence[int], dtype: DType) -> None:
    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        return ir.transpose(ir.attention(q, ir.transpose(k, (0, 1, 3, 2)), v, None, 0.3, False, 0.0), order)

    native = Native(make([f"{dtype}[2, 3, T, 20]", f"{dtype}[2, 3, 20, S]", f"{dtype}[2, 3, S, 18]"], build))
    assert _algorithms(native) == ["panels"]
    pieces = kernel_pieces(native.plan, HOST)
    text = "".join(function.text() for functions in pieces.functions for function in functions)
    assert "masked.scatter" not in text
    for queries, keys in ((0, 5), (1, 1), (13, 0), (37, 150), (70, 9), (129, 3)):
        sizes = ((queries, 20), (20, keys), (keys, 18))
        given = (sample(dtype, 2, 3, *size, seed=seed) for seed, size in enumerate(sizes))
        native.check(*given, bound=5e-6 if dtype != F16 else 4 * precision(dtype))


@pytest.mark.parametrize("queries", [3, MANY])
def test_keys_and_values_of_any_strides(queries: int) -> None:
    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        return ir.attention(q, ir.transpose(k, (0, 1, 3, 2)), ir.transpose(v, (0, 1, 3, 2)), None, 0.3, False, 0.0)

    native = Native(make([f"f32[1, 2, {queries}, 20]", "f32[1, 2, 20, T]", "f32[1, 2, 16, T]"], build))
    assert native.kernels() == ["attention"]
    assert _algorithms(native) == ["panels"]
    native.check(
        sample(F32, 1, 2, queries, 20), sample(F32, 1, 2, 20, 150), sample(F32, 1, 2, 16, 150, seed=1), bound=5e-6
    )


def test_values_of_any_strides_by_lines() -> None:
    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        return ir.attention(q, k, ir.transpose(v, (0, 1, 3, 2)), None, 0.3, False, 0.0)

    native = Native(make(["f32[1, 2, 3, 20]", "f32[1, 2, T, 20]", "f32[1, 2, 64, T]"], build))
    assert _algorithms(native) == ["lines"]
    native.check(sample(F32, 1, 2, 3, 20), sample(F32, 1, 2, 550, 20), sample(F32, 1, 2, 64, 550, seed=1), bound=5e-6)


@pytest.mark.parametrize("queries", [2, MANY])
def test_results_are_the_same_at_any_number_of_threads(queries: int) -> None:
    native = _native(["f32[2, 6, S, 32]", "f32[2, 3, T, 32]", "f32[2, 3, T, 32]"])
    arrays = sample(F32, 2, 6, queries, 32), sample(F32, 2, 3, 900, 32), sample(F32, 2, 3, 900, 32, seed=1)
    (alone,) = native(*arrays)
    for threads in (2, 8):
        native.threads = threads
        (shared,) = native(*arrays)
        np.testing.assert_array_equal(shared, alone)


def test_scores_of_long_sequences_take_no_memory() -> None:
    native = _native(["f32[1, 6, 1500, 64]"] * 3)
    assert [segment.arena_bytes for segment in segments_of(native.plan.body.steps)] == [0]


def test_errors_are_no_larger_than_those_of_the_parts() -> None:
    """Corrections from block to block cost no bits that matter: against sums in f64, at most 1.5 times the error."""
    types = ["f32[1, 2, 70, 32]", *["f32[1, 2, 5000, 32]"] * 2]
    whole = _native(types)
    apart = Native(rewrite(whole.module, [rule("attention")(decompose)]))
    assert "attention" not in apart.kernels()
    q, k, v = sample(F32, 1, 2, 70, 32), sample(F32, 1, 2, 5000, 32), sample(F32, 1, 2, 5000, 32, seed=1)
    scores = 0.25 * q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = weights @ v.astype(np.float64) / weights.sum(-1, keepdims=True)
    own, parts = (np.square(native(q, k, v)[0] - exact).mean() ** 0.5 for native in (whole, apart))
    assert own <= 1.5 * parts


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("target", EVERY_TARGET, ids=lambda target: target.name)
def test_weights_are_precise_and_never_subnormal(target: Target, dtype: DType) -> None:
    """Two keys, of weights 1 and e^x, where the first has a value of 0 and the second one of 1."""
    native = _native([f"{dtype}[1, 1, 300, 1]", *[f"{dtype}[1, 1, 2, 1]"] * 2, f"{dtype}[1, 1, 300, 2]"], target=target)
    x = -np.linspace(0, 80, 300).astype(dtype.numpy)
    mask = np.stack([np.zeros_like(x), x], -1)[np.newaxis, np.newaxis]
    q, k = np.zeros((1, 1, 300, 1), dtype.numpy), np.zeros((1, 1, 2, 1), dtype.numpy)
    v = np.array([[[[0], [1]]]], dtype.numpy)
    exact = np.exp(x.astype(np.longdouble)) / (1 + np.exp(x.astype(np.longdouble)))
    error = np.abs(native(q, k, v, mask)[0].ravel() / exact - 1)
    assert (error <= (4 - x / 20) * np.finfo(dtype.numpy).eps).all()
    mask[..., 1] = -95 if dtype == F32 else -720
    assert not native(q, k, 1e30 * v, mask)[0].any()


@pytest.mark.parametrize("width", ["0", "D", str(WIDEST), str(WIDEST + 1)])
def test_what_has_no_kernel_is_taken_apart(width: str) -> None:
    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        return ir.attention(q, k, v, None, 0.3, False, 0.0)

    module = make([f"f32[1, 2, 20, {width}]", *[f"f32[1, 2, 30, {width}]"] * 2], build)
    (op,) = module.main.body.ops
    left = [op.name for op in run_pipeline(module, target_pipeline("cpu")).main.body.ops]
    assert ("attention" in left) == is_native(op) == (width == str(WIDEST))


@pytest.mark.parametrize("queries", [1, MANY])
@pytest.mark.parametrize("number", [0.0, -2.5, -np.inf])
def test_a_mask_of_one_number(number: float, queries: int) -> None:
    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        mask = ir.broadcast(ir.scalar(number, F32), (), (1, 1, 1, 5))
        return ir.attention(q, k, v, mask, 0.25)

    native = Native(make([f"f32[2, 3, {queries}, 8]", "f32[2, 3, 5, 8]", "f32[2, 3, 5, 8]"], build))
    native.check(sample(F32, 2, 3, queries, 8), *(sample(F32, 2, 3, 5, 8) for _ in range(2)), bound=5e-6)


@pytest.mark.parametrize("queries", [1, MANY])
@pytest.mark.parametrize("scale", [3.4e38, -3.4e38])
def test_a_scale_of_which_log2_e_makes_no_float_is_that_of_the_parts(scale: float, queries: int) -> None:
    def build(ir: Builder, q: Value, k: Value, v: Value) -> Value:
        return ir.attention(q, k, v, None, scale, False, 0.0)

    native = Native(make([f"f32[2, 3, {queries}, 8]", *["f32[2, 3, 5, 8]"] * 2], build))
    q, k = 1e-20 * sample(F32, 2, 3, queries, 8), 1e-18 * sample(F32, 2, 3, 5, 8)
    q[0] = 0.0
    native.check(q, k, sample(F32, 2, 3, 5, 8), bound=5e-6)
