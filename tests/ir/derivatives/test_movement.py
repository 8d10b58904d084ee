"""Derivatives of movements."""

import numpy as np
import pytest

from onnxc.compiler.ir.dims import Dim
from tests.ir.finite_differences import M, N, Shape, assert_gradients, gradients_at

RANDOM = np.random.default_rng(4)


def values(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape)


@pytest.mark.parametrize(("shape", "target"), [((2, 3), (6,)), ((), (1, 1)), ((0, 2), (2, 0, 5)), ((1, 4), (2, 1, 2))])
def test_reshape(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    assert_gradients(lambda b, x: b.exp(b.reshape(x, target)), values(*shape))


@pytest.mark.parametrize("permutation", [(), (0,), (1, 0), (2, 0, 1), (1, 3, 0, 2)])
def test_transpose(permutation: tuple[int, ...]) -> None:
    assert_gradients(lambda b, x: b.transpose(x, permutation), values(*range(2, 2 + len(permutation))))


@pytest.mark.parametrize(
    ("shape", "axes", "target"),
    [
        ((), (), (2, 3)),
        ((), (), ()),
        ((3,), (1,), (2, 3, 2)),
        ((3, 1), (2, 0), (4, 2, 3)),
        ((1, 1), (1, 0), (2, 3)),
        ((1,), (0,), (0,)),
        ((0,), (0,), (0, 2)),
        ((2, 3, 4), (1, 2, 0), (4, 2, 3)),
    ],
)
def test_broadcast(shape: tuple[int, ...], axes: tuple[int, ...], target: tuple[int, ...]) -> None:
    assert_gradients(lambda b, x: b.broadcast(x, axes, target), values(*shape))


@pytest.mark.parametrize(
    ("size", "start", "count", "step"),
    [
        (5, 0, 5, 1),
        (5, 1, 3, 1),
        (5, 4, 5, -1),
        (5, 3, 2, -1),
        (7, 0, 4, 2),
        (7, 1, 2, 3),
        (7, 6, 3, -3),
        (7, 5, 2, -4),
        (7, 5, 1, 9),
        (4, 2, 0, 1),
        (4, 1, 0, 3),
        (4, 3, 0, -2),
        (0, -1, 0, -1),
        (0, 0, 0, 2),
        (1, 0, 1, -1),
    ],
)
def test_slice(size: int, start: int, count: int, step: int) -> None:
    assert_gradients(lambda b, x: b.exp(b.slice_axis(x, 1, start, count, step)), values(2, size, 2))


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("step", [2, 3, -2])
def test_a_slice_of_a_size_that_only_the_call_tells(size: int, step: int) -> None:
    start: Dim = 0 if step > 0 else N - 1
    assert_gradients(
        lambda b, x: b.slice_axis(x, 0, start, (N + abs(step) - 1) // abs(step), step), values(size), shapes=[(N,)]
    )


def test_a_slice_along_several_axes() -> None:
    assert_gradients(lambda b, x: b.slice(x, (1, 5, 0), (2, 3, 2), (1, -2, 3)), values(3, 6, 4))


@pytest.mark.parametrize("shape", [(), (2,), (0,), (2, 3)])
def test_pad(shape: tuple[int, ...]) -> None:
    low, high = range(1, len(shape) + 1), range(len(shape))
    assert_gradients(lambda b, x, fill: b.exp(b.pad(x, low, high, fill)), values(*shape), values())


def test_pad_by_sizes_of_the_call() -> None:
    shapes: list[Shape] = [(N,), (M,), ()]
    assert_gradients(
        lambda b, x, y, v: b.mul(b.pad(x, [M], [0], v), b.pad(y, [0], [N], v)),
        values(2),
        values(3),
        values(),
        shapes=shapes,
    )


@pytest.mark.parametrize(("sizes", "axis"), [((2, 3), 0), ((0, 2, 1), 1), ((1, 1, 1), 1)])
def test_concatenate(sizes: tuple[int, ...], axis: int) -> None:
    arrays = [values(*(size if place == axis else 2 for place in range(2))) for size in sizes]
    assert_gradients(lambda b, *xs: b.exp(b.concatenate(xs, axis)), *arrays)


def test_an_operand_that_is_concatenated_with_itself_gets_both_parts() -> None:
    (g,) = gradients_at(lambda b, x: b.concatenate([x, b.mul(x, 2)], 0), values(3))
    np.testing.assert_array_equal(g, [3, 3, 3])
