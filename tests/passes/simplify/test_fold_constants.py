"""Constant folding: what is computed, and what stays because it would grow."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.limits import Limits, limited_to
from onnxc.compiler.passes.simplify.fold_constants import PICKED_BYTES, SMALL_BYTES, fold_constants
from tests.passes.golden import N, Pair, built, check_pair, f32, text_of


def _constant(build: Builder, *shape: int) -> Value:
    return build.constant(np.random.default_rng(3).normal(0, 1, shape).astype(np.float32))


def _positions(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape) * 7 % 2


def _indices(build: Builder, *shape: int) -> Value:
    return build.constant(_positions(*shape))


LARGE = SMALL_BYTES // 4 + 1

FIRES = {
    "pointwise": Pair(
        (),
        lambda b: b.exp(_constant(b, 2000)),
        lambda b: b.constant(np.exp(_array(2000).astype(np.float64)).astype(np.float32)),
    ),
    "transpose": Pair(
        (), lambda b: b.transpose(_constant(b, 40, 50), (1, 0)), lambda b: b.constant(_array(40, 50).T.copy())
    ),
    "broadcast_operand": Pair(
        (), lambda b: b.mul(_constant(b, 2000), 2), lambda b: b.constant(_array(2000) * np.float32(2))
    ),
    "numbers": Pair((), lambda b: b.add(b.scalar(1, F32), 2), lambda b: b.scalar(3, F32)),
    "counter": Pair((), lambda b: b.less(b.iota((3,), 0, I64), 2), lambda b: b.constant(np.array([True, True, False]))),
    "several_results": Pair(
        (),
        lambda b: b.sort(_constant(b, 1100), 0),
        lambda b: (b.constant(np.sort(_array(1100))), b.constant(np.argsort(_array(1100), kind="stable"))),
    ),
    "dot": Pair(
        (),
        lambda b: b.dot(_constant(b, 40, 50), b.constant(np.eye(50, dtype=np.float32)), "mk,kn->mn"),
        lambda b: _constant(b, 40, 50),
    ),
    "large_but_no_larger": Pair((), lambda b: b.neg(_constant(b, LARGE)), lambda b: b.constant(-_array(LARGE))),
    "smaller": Pair((), lambda b: b.slice(_constant(b, LARGE), (1,), (3,)), lambda b: b.constant(_array(LARGE)[1:4])),
    "picked": Pair(
        (),
        lambda b: b.gather(_constant(b, 30, 50), _indices(b, 40, 40), 1),
        lambda b: b.constant(_array(30, 50)[:, _positions(40, 40)]),
    ),
    "picked_by_several": Pair(
        (),
        lambda b: b.gather_nd(_constant(b, 50, 30), _indices(b, 900, 1), 0),
        lambda b: b.constant(_array(50, 30)[_positions(900)]),
    ),
    "rank_0": Pair(
        (), lambda b: b.reduce(_constant(b, 1500), "max", [0]), lambda b: b.constant(np.asarray(_array(1500).max()))
    ),
}

REFUSES = {
    "broadcast": Pair((), lambda b: b.full((3, 4), 2, F32)),
    "light_weight": Pair((), lambda b: b.full((LARGE,), 2, F32)),
    "growing": Pair((), lambda b: b.concatenate([_constant(b, LARGE), b.full((LARGE,), 0, F32)], 0)),
    "picked_too_large": Pair((), lambda b: b.gather(_constant(b, PICKED_BYTES // 1600 + 1, 2), _indices(b, 20, 20), 1)),
    "picked_from_a_repetition": Pair(
        (), lambda b: b.gather(b.broadcast(_constant(b, 50), (1,), (60, 50)), _indices(b, 20, 20), 1)
    ),
    "picked_by_a_repetition": Pair(
        (), lambda b: b.gather(_constant(b, 50), b.broadcast(_indices(b, 40), (1,), (500, 40)), 0)
    ),
    "repeated": Pair((), lambda b: b.add(b.broadcast(_constant(b, 2000), (0,), (2000, 9)), 1)),
    "symbolic": Pair((), lambda b: b.neg(b.broadcast(b.scalar(2, F32), (), (N,)))),
    "data": Pair((f32(3),), lambda b, x: b.add(x, 1)),
    "moved_repetition": Pair((), lambda b: b.reshape(b.full((3, 4), 2, F32), (12,))),
    "too_much_work": Pair((), lambda b: b.dot(b.full((900, 1500), 2, F32), _constant(b, 1500, 900), "mk,kn->mn")),
    "too_much_work_in_integers": Pair(
        (), lambda b: b.dot(b.full((500, 500), 2, I64), b.constant(np.eye(500, dtype=np.int64)), "mk,kn->mn")
    ),
    "random": Pair((), lambda b: b.random_bits((3,), 1)),
}


def _array(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(0, 1, shape).astype(np.float32)


@pytest.mark.parametrize("name", FIRES)
def test_constants_are_computed(name: str) -> None:
    check_pair(fold_constants, FIRES[name])


@pytest.mark.parametrize("name", REFUSES)
def test_what_would_grow_stays(name: str) -> None:
    check_pair(fold_constants, REFUSES[name])


def test_the_work_in_all_is_bounded() -> None:
    def make(b: Builder) -> tuple[Value, ...]:
        eye = b.constant(np.eye(400, dtype=np.float32))
        return tuple(b.dot(_constant(b, 400, 400), eye, "mk,kn->mn") for _ in range(10))

    # A product of floats counts a sixteenth of its 64 million multiply-adds.
    with limited_to(Limits(folding_work=8 * 400**3 // 16)):
        after = fold_constants(built((), make))
    left = [op for op in after.main.body.ops if op.name == "dot"]
    assert len(left) == 2


def test_folded_constants_are_contiguous() -> None:
    after = fold_constants(built((), lambda b: b.transpose(_constant(b, 40, 50), (1, 0))))
    assert after.main.body.ops[0].array().flags.c_contiguous


def test_chosen_by_a_constant_condition_everything_folds() -> None:
    def make(b: Builder) -> Value:
        mask = b.constant(np.ones((1, 1, 40, 40), np.bool_))
        return b.select(mask, b.full(mask.shape, 0, F32), b.full(mask.shape, -np.inf, F32))

    expected = built((), lambda b: b.constant(np.zeros((1, 1, 40, 40), np.float32)))
    assert text_of(fold_constants(built((), make))) == text_of(expected)
