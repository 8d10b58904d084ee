"""Batch normalisation: which factors go into which weights."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F16, F64, DType
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.notes import collect_notes
from onnxc.compiler.passes.pipeline import run_pipeline
from onnxc.compiler.passes.pipelines import OPTIMIZE
from onnxc.compiler.passes.simplify.fold_batch_norm import fold_batch_norm
from tests.passes.golden import N, Pair, assert_same_meaning, built, check_pair, f16, f32

RANDOM = np.random.default_rng(5)
WEIGHTS = RANDOM.normal(0, 1, (4, 2, 3)).astype(np.float32)
MATRIX = RANDOM.normal(0, 1, (3, 4)).astype(np.float32)
FACTOR = np.array([0.5, 2, -1, 3], np.float32)
SHIFT = np.array([1, -2, 0.25, 4], np.float32)


def convolved(b: Builder, x: Value, w: np.ndarray = WEIGHTS, groups: int = 1) -> Value:
    return b.convolution(x, b.constant(w), (1,), (0,), (0,), (1,), groups)


def labelled(b: Builder, x: Value, w: np.ndarray) -> Value:
    """x: T[S, C, N] -> T[M, S, N], by filters that lie as [C, M, K]."""
    filters = b.constant(np.ascontiguousarray(w.transpose(1, 0, 2)))
    return b.convolution(x, filters, (1,), (0,), (0,), (1,), dimensions="0cn,io0->c0n")


def channels(b: Builder, like: Value, array: np.ndarray, axis: int = 1) -> Value:
    return b.broadcast(b.constant(array.astype(like.dtype.numpy)), (axis,), like.shape)


def scaled(b: Builder, y: Value, factor: np.ndarray = FACTOR, shift: np.ndarray | None = SHIFT, axis: int = 1) -> Value:
    product = b.mul(y, channels(b, y, factor, axis))
    return product if shift is None else b.add(product, channels(b, product, shift, axis))


def shifted(b: Builder, y: Value, shift: np.ndarray, axis: int = 1) -> Value:
    return b.add(y, channels(b, y, shift, axis))


def per_filter(w: np.ndarray, factor: np.ndarray) -> np.ndarray:
    return (w.astype(np.float64) * factor.astype(np.float64)[:, None, None]).astype(w.dtype)


def _coordinates(b: Builder, x: Value, scale: float = 1.5, dtype: DType = F64) -> Value:
    """Where elements of an axis that is 1.5 times as long come from: at 1, that is 0.5, which other steps miss."""
    count = b.iota(x.shape, 0, dtype)
    return b.floor(b.add(b.sub(b.div(b.add(count, 0.5), scale), 0.5), 0.5))


def _halves(b: Builder, x: Value) -> Value:
    """Of an axis that is twice as long, where no step rounds."""
    return b.floor(b.add(b.mul(b.iota(x.shape, 0, F64), 0.5), 0.25))


FIRES = {
    "coordinates_that_are_exact": Pair((f32(N),), lambda b, x: _coordinates(b, x, 2.0), _halves),
    "factor_and_summand": Pair(
        (f32(N, 2, 5),),
        lambda b, x: scaled(b, convolved(b, x)),
        lambda b, x: shifted(b, convolved(b, x, per_filter(WEIGHTS, FACTOR)), SHIFT),
        rounds=True,
    ),
    "bias_before": Pair(
        (f32(1, 2, 5),),
        lambda b, x: scaled(b, shifted(b, convolved(b, x), SHIFT), shift=None),
        lambda b, x: shifted(b, convolved(b, x, per_filter(WEIGHTS, FACTOR)), SHIFT * FACTOR),
        rounds=True,
    ),
    "bias_before_and_summand": Pair(
        (f32(1, 2, 5),),
        lambda b, x: scaled(b, shifted(b, convolved(b, x), SHIFT)),
        lambda b, x: shifted(b, convolved(b, x, per_filter(WEIGHTS, FACTOR)), SHIFT * FACTOR + SHIFT),
        rounds=True,
    ),
    "groups": Pair(
        (f32(1, 4, 5),),
        lambda b, x: scaled(b, convolved(b, x, groups=2), shift=None),
        lambda b, x: convolved(b, x, per_filter(WEIGHTS, FACTOR), groups=2),
        rounds=True,
    ),
    "axes_in_any_order": Pair(
        (f32(5, 2, N),),
        lambda b, x: scaled(b, labelled(b, x, WEIGHTS), axis=0),
        lambda b, x: shifted(b, labelled(b, x, per_filter(WEIGHTS, FACTOR)), SHIFT, axis=0),
        rounds=True,
    ),
    "dot": Pair(
        (f32(N, 3),),
        lambda b, x: scaled(b, b.dot(x, b.constant(MATRIX), "mk,kn->mn")),
        lambda b, x: shifted(b, b.dot(x, b.constant(MATRIX * FACTOR), "mk,kn->mn"), SHIFT),
        rounds=True,
    ),
    "dot_with_constant_first": Pair(
        (f32(3, 2),),
        lambda b, x: scaled(b, b.dot(b.constant(MATRIX), x, "kn,km->nm"), shift=None, axis=0),
        lambda b, x: b.dot(b.constant(MATRIX * FACTOR), x, "kn,km->nm"),
        rounds=True,
    ),
    "half_precision": Pair(
        (f16(1, 2, 5),),
        lambda b, x: scaled(b, convolved(b, x, WEIGHTS.astype(np.float16)), shift=None),
        lambda b, x: convolved(b, x, per_filter(WEIGHTS.astype(np.float16), FACTOR)),
        rounds=True,
    ),
    "summands_that_cancel": Pair((f32(N),), lambda b, x: b.sub(b.add(x, 0.75), 0.75), lambda b, x: x, rounds=True),
    "chain_without_weights": Pair(
        (f32(2, 4),),
        lambda b, x: scaled(b, b.mul(b.sub(x, channels(b, x, SHIFT)), 0.5)),
        lambda b, x: scaled(b, x, FACTOR * np.float32(0.5), SHIFT - SHIFT * FACTOR / 2),
        rounds=True,
    ),
}

LARGE = np.array([1, 1, 2**30, 1], np.float32)


def _used_twice(b: Builder, y: Value) -> tuple[Value, ...]:
    return scaled(b, y), b.exp(y)


def _shared_weights(b: Builder, x: Value) -> tuple[Value, ...]:
    w = b.constant(WEIGHTS)
    first, second = (b.convolution(value, w, (1,), (0,), (0,), (1,)) for value in (x, b.exp(x)))
    return scaled(b, first), second


REFUSES = {
    "bias_alone": Pair((f32(1, 2, 5),), lambda b, x: shifted(b, convolved(b, x), SHIFT)),
    "used_elsewhere": Pair((f32(1, 2, 5),), lambda b, x: _used_twice(b, convolved(b, x))),
    "shared_weights": Pair((f32(1, 2, 5),), _shared_weights),
    "weights_from_data": Pair(
        (f32(1, 2, 5), f32(4, 2, 3)), lambda b, x, y: scaled(b, b.convolution(x, y, (1,), (0,), (0,), (1,)))
    ),
    "along_another_axis": Pair((f32(1, 2, 6),), lambda b, x: scaled(b, convolved(b, x), axis=2)),
    "along_another_axis_by_its_label": Pair((f32(6, 2, 4),), lambda b, x: scaled(b, labelled(b, x, WEIGHTS), axis=1)),
    "one_factor_for_a_dot": Pair((f32(2, 3),), lambda b, x: b.mul(b.dot(x, b.constant(MATRIX), "mk,kn->mn"), 0.3)),
    "summed_letter": Pair((f32(4, 3),), lambda b, x: scaled(b, b.dot(x, b.constant(MATRIX), "nk,kn->n"), axis=0)),
    "short_chain": Pair((f32(2, 4),), scaled),
    "rounding": Pair((f32(N),), lambda b, x: b.sub(b.add(x, 1.5 * 2**23), 1.5 * 2**23)),
    "rounding_to_thousandths": Pair((f32(N),), lambda b, x: b.sub(b.add(b.mul(x, 1000.0), 1.5 * 2**23), 1.5 * 2**23)),
    "rounding_of_few_bits": Pair((f16(N),), lambda b, x: b.add(b.sub(x, -1536.0), -1536.0)),
    "rounding_of_a_channel": Pair(
        (f32(2, 4),), lambda b, x: shifted(b, shifted(b, x, SHIFT * LARGE), np.float32(-1) * SHIFT * LARGE)
    ),
    "coordinates": Pair((f32(N),), _coordinates),
    "coordinates_of_few_bits": Pair((f32(N),), lambda b, x: _coordinates(b, x, 2.0, F16)),
}


@pytest.mark.parametrize("name", FIRES)
def test_factors_go_into_weights(name: str) -> None:
    check_pair(fold_batch_norm, FIRES[name])


@pytest.mark.parametrize("name", REFUSES)
def test_factors_stay(name: str) -> None:
    check_pair(fold_batch_norm, REFUSES[name])


@pytest.mark.parametrize("factor", [np.inf, np.nan, 1e39])
def test_a_factor_that_is_not_finite_stays_with_a_note(factor: float) -> None:
    with np.errstate(over="ignore"):
        array = np.array([1, 1, 1, factor]).astype(np.float32)
    module = built((f32(1, 2, 5),), lambda b, x: scaled(b, convolved(b, x), array, None))
    with collect_notes() as notes:
        after = fold_batch_norm(module)
    assert [op.name for op in after.main.body.ops][-1] == "mul"
    assert [note.reason for note in notes] == ["a factor or summand is not finite"]


def test_batch_normalization_as_the_formula_says_becomes_part_of_the_convolution() -> None:
    def make(b: Builder, x: Value) -> Value:
        y = convolved(b, x)
        mean, variance = (b.constant(RANDOM.uniform(0.5, 2, 4).astype(np.float32)) for _ in range(2))
        deviation = b.sqrt(b.add(variance, 1e-5))
        normal = b.div(b.sub(y, b.broadcast(mean, (1,), y.shape)), b.broadcast(deviation, (1,), y.shape))
        return b.relu(scaled(b, normal))

    module = built((f32(N, 2, 5),), make)
    after = run_pipeline(module, OPTIMIZE)
    names = [op.name for op in after.main.body.ops if op.name not in ("constant", "broadcast")]
    assert names == ["convolution", "add", "max"]
    assert_same_meaning(module, after, (1, 3), rounds=True)
