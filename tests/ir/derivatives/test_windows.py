"""Derivatives of folds over windows."""

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from tests.ir.finite_differences import M, Make, N, assert_gradients, gradients_at

RANDOM = np.random.default_rng(11)
KINDS = ("sum", "max", "min")
WINDOWS = {
    "plain": ((2, 2, 5), {"window": (1, 1, 2)}),
    "over one axis of rank one": ((6,), {"window": (3,)}),
    "rank zero": ((), {}),
    "over the first axes": ((4, 3), {"window": (2, 2), "strides": (2, 1)}),
    "strides that leave over": ((1, 1, 8), {"window": (1, 1, 2), "strides": (1, 1, 3)}),
    "padded": ((1, 2, 3, 4), {"window": (1, 1, 2, 3), "low": (0, 0, 1, 2), "high": (0, 0, 1, 0)}),
    "dilated": ((1, 1, 7), {"window": (1, 1, 3), "dilations": (1, 1, 2), "low": (0, 0, 1)}),
    "everything": (
        (2, 1, 6, 5),
        {
            "window": (1, 1, 2, 3),
            "strides": (1, 1, 2, 3),
            "dilations": (1, 1, 3, 1),
            "low": (0, 0, 2, 1),
            "high": (0, 0, 1, 2),
        },
    ),
    "nothing": ((0, 1, 4), {"window": (1, 1, 2)}),
    "no window fits": ((1, 1, 2), {"window": (1, 1, 3)}),
}


def fold(kind: str, **changes: tuple[int, ...]) -> Make:
    def make(build: Builder, x: Value) -> Value:
        ones, zeros = (1,) * x.rank, (0,) * x.rank
        plain = {"window": ones, "strides": ones, "low": zeros, "high": zeros, "dilations": ones}
        return build.reduce_window(x, kind, **{**plain, **changes})

    return make


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("order", [1, 2])
def test_folds_over_windows(kind: str, name: str, order: int) -> None:
    shape, changes = WINDOWS[name]
    x = np.asarray(RANDOM.permutation(np.arange(np.prod(shape))).reshape(shape)) * 0.3
    assert_gradients(lambda b, x: b.square(fold(kind, **changes)(b, x)), x, order=order)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [4, 5, 0])
def test_windows_over_a_size_of_the_call(kind: str, size: int) -> None:
    changes = {"window": (1, 1, 3), "strides": (1, 1, 2), "low": (0, 0, 1), "high": (0, 0, 2)}
    x = RANDOM.normal(0, 1, (2, 1, size))
    assert_gradients(lambda b, x: b.clamp(fold(kind, **changes)(b, x), -9, 9), x, shapes=[(M, 1, N)])


@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_first_of_equals_gets_all(kind: str) -> None:
    (g,) = gradients_at(fold(kind, window=(1, 1, 2)), np.ones((1, 1, 4)))
    np.testing.assert_array_equal(g, [[[1, 1, 1, 0]]])


def test_a_window_of_padding_alone_gives_nothing() -> None:
    (g,) = gradients_at(fold("max", window=(1, 1, 2), low=(0, 0, 3)), np.array([[[2.0, 1]]]))
    np.testing.assert_array_equal(g, [[[2, 0]]])
