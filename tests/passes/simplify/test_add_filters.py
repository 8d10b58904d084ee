"""Convolutions of one image whose results are added: when one convolution takes their place."""

from collections.abc import Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.notes import collect_notes
from onnxc.compiler.passes.pipeline import run_pipeline
from onnxc.compiler.passes.pipelines import OPTIMIZE
from onnxc.compiler.passes.simplify.add_filters import add_filters
from tests.passes.golden import N, Pair, assert_same_meaning, built, check_pair, f16, f32

RANDOM = np.random.default_rng(11)
WIDE = RANDOM.uniform(0.5, 1, (4, 2, 3)).astype(np.float32)
OTHER = RANDOM.uniform(0.5, 1, (4, 2, 3)).astype(np.float32)
NARROW = RANDOM.uniform(0.5, 1, (4, 2, 1)).astype(np.float32)
BIAS = np.array([1, -2, 0.25, 4], np.float32)


def convolved(
    b: Builder, x: Value, w: np.ndarray, low: int = 0, high: int = 0, stride: int = 1, dilation: int = 1
) -> Value:
    return b.convolution(x, b.constant(w.astype(x.dtype.numpy)), (stride,), (low,), (high,), (dilation,))


def biased(b: Builder, y: Value, bias: np.ndarray = BIAS) -> Value:
    return b.add(y, b.broadcast(b.constant(bias), (1,), y.shape))


def widened(before: int, after: int) -> np.ndarray:
    return np.pad(NARROW, ((0, 0), (0, 0), (before, after)))


def labelled(b: Builder, x: Value, w: np.ndarray) -> Value:
    """x: T[S, C, N] -> T[M, S, N], by filters that lie as [C, M, K]."""
    filters = b.constant(np.ascontiguousarray(w.transpose(1, 0, 2)))
    low = (w.shape[2] - 1) // 2
    return b.convolution(x, filters, (1,), (low,), (low,), (1,), dimensions="0cn,io0->c0n")


FIRES = {
    "alike": Pair(
        (f32(N, 2, 5),),
        lambda b, x: b.add(convolved(b, x, WIDE), convolved(b, x, OTHER)),
        lambda b, x: convolved(b, x, WIDE + OTHER),
        rounds=True,
    ),
    "with_biases": Pair(
        (f32(1, 2, 5),),
        lambda b, x: b.add(biased(b, convolved(b, x, WIDE)), biased(b, convolved(b, x, OTHER), 0.5 * BIAS)),
        lambda b, x: biased(b, convolved(b, x, WIDE + OTHER), 1.5 * BIAS),
        rounds=True,
    ),
    "three_of_them": Pair(
        (f32(1, 2, 5),),
        lambda b, x: b.add(
            b.add(convolved(b, x, WIDE), biased(b, convolved(b, x, OTHER))), biased(b, convolved(b, x, WIDE))
        ),
        lambda b, x: biased(b, convolved(b, x, (WIDE + OTHER) + WIDE), 2 * BIAS),
        rounds=True,
    ),
    "smaller_window": Pair(
        (f32(N, 2, 5),),
        lambda b, x: b.add(convolved(b, x, NARROW), convolved(b, x, WIDE, 1, 1)),
        lambda b, x: convolved(b, x, WIDE + widened(1, 1), 1, 1),
        rounds=True,
    ),
    "smaller_window_at_an_end": Pair(
        (f32(1, 2, 6),),
        lambda b, x: b.add(convolved(b, x, WIDE, 0, 4, 2, 2), convolved(b, x, NARROW, 0, 0, 2, 2)),
        lambda b, x: convolved(b, x, WIDE + widened(0, 2), 0, 4, 2, 2),
        rounds=True,
    ),
    "axes_in_any_order": Pair(
        (f32(5, 2, N),),
        lambda b, x: b.add(labelled(b, x, WIDE), labelled(b, x, NARROW)),
        lambda b, x: labelled(b, x, WIDE + widened(1, 1)),
        rounds=True,
    ),
    "f16": Pair(
        (f16(1, 2, 5),),
        lambda b, x: b.add(convolved(b, x, np.ones((4, 2, 3))), convolved(b, x, np.ones((4, 2, 3)) * 0.5)),
        lambda b, x: convolved(b, x, np.ones((4, 2, 3)) * 1.5),
        rounds=True,
    ),
}


def read_again(b: Builder, x: Value) -> tuple[Value, Value]:
    y = convolved(b, x, WIDE)
    return b.add(y, convolved(b, x, OTHER)), y


STAYS: dict[str, Pair] = {
    "other_images": Pair(
        (f32(1, 2, 5), f32(1, 2, 5)), lambda b, x, y: b.add(convolved(b, x, WIDE), convolved(b, y, OTHER))
    ),
    "other_steps": Pair(
        (f32(1, 2, 4),), lambda b, x: b.add(convolved(b, x, NARROW, 0, 0, 3), convolved(b, x, WIDE, 0, 2, 2))
    ),
    "between_taps": Pair(
        (f32(1, 2, 6),),
        lambda b, x: b.add(convolved(b, x, WIDE, 1, 3, 1, 2), convolved(b, x, NARROW, 0, 0, 1, 2)),
    ),
    "read_again": Pair((f32(1, 2, 5),), read_again),
    "not_constant": Pair(
        (f32(1, 2, 5), f32(4, 2, 3)),
        lambda b, x, w: b.add(convolved(b, x, WIDE), b.convolution(x, w, (1,), (0,), (0,), (1,))),
    ),
    "itself": Pair((f32(1, 2, 5),), lambda b, x: b.add(y := convolved(b, x, WIDE), y)),
}


@pytest.mark.parametrize("pair", FIRES.values(), ids=FIRES)
def test_filters_are_added(pair: Pair) -> None:
    check_pair(add_filters, pair)


@pytest.mark.parametrize("pair", STAYS.values(), ids=STAYS)
def test_other_convolutions_stay(pair: Pair) -> None:
    check_pair(add_filters, pair)


@pytest.mark.parametrize(("filter", "bias"), [(3e38, 1.0), (1.0, 3e38), (1.0, np.nan)])
def test_a_sum_that_is_not_finite_is_refused(filter: float, bias: float) -> None:
    w, summand = np.full((4, 2, 3), filter, np.float32), np.full(4, bias, np.float32)
    module = built(
        (f32(1, 2, 5),),
        lambda b, x: b.add(biased(b, convolved(b, x, w), summand), biased(b, convolved(b, x, w), summand)),
    )
    with collect_notes() as notes:
        after = add_filters(module)
    assert [op.name for op in after.main.body.ops] == [op.name for op in module.main.body.ops]
    assert "a sum of filters or summands is not finite" in {note.reason for note in notes}


@pytest.mark.parametrize("sizes", [(1, 1), (3, 0)])
def test_branches_of_a_block_become_one_convolution(sizes: Sequence[int]) -> None:
    def make(b: Builder, x: Value) -> Value:
        branches = [biased(b, convolved(b, x, w, low, low)) for w, low in ((NARROW, 0), (WIDE, 1), (OTHER, 1))]
        return b.relu(b.add(b.add(branches[0], branches[1]), branches[2]))

    module = built((f32(N, 2, 5),), make)
    after = run_pipeline(module, OPTIMIZE)
    names = [op.name for op in after.main.body.ops if op.name not in ("constant", "broadcast")]
    assert names == ["convolution", "add", "max"]
    assert_same_meaning(module, after, sizes, rounds=True)
