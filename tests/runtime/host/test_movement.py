"""The movement meanings, element by element, on numbers and on Python objects."""

import itertools
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxc.runtime.host import MEANINGS


@dataclass(frozen=True)
class Symbol:
    """Stands for a symbolic size: an object that NumPy knows nothing of."""

    name: str


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


def symbols(*names: str) -> np.ndarray:
    return np.array([*map(Symbol, names), 7], object)


def test_reshape_keeps_the_row_major_order() -> None:
    (result,) = MEANINGS["reshape"]([numbered(2, 3).T], {"shape": (2, 3)})
    np.testing.assert_array_equal(result, [[0, 3, 1], [4, 2, 5]], strict=True)


@pytest.mark.parametrize(("shape", "target"), [((), (1, 1)), ((1,), ()), ((0, 3), (3, 0, 2)), ((0,), (0,))])
def test_reshape_of_odd_shapes(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    (result,) = MEANINGS["reshape"]([np.ones(shape, np.float32)], {"shape": target})
    np.testing.assert_array_equal(result, np.ones(target, np.float32), strict=True)


def test_transpose_takes_result_axes_from_the_permutation() -> None:
    x = numbered(2, 3, 4)
    (result,) = MEANINGS["transpose"]([x], {"permutation": (2, 0, 1)})
    assert result.shape == (4, 2, 3)
    assert all(result[k, i, j] == x[i, j, k] for i, j, k in np.ndindex(2, 3, 4))
    (scalar,) = MEANINGS["transpose"]([np.array(5)], {"permutation": ()})
    assert (type(scalar), scalar.shape, int(scalar)) == (np.ndarray, (), 5)


@pytest.mark.parametrize(
    ("shape", "axes", "target"),
    [
        ((), (), (2, 3)),
        ((), (), ()),
        ((3,), (1,), (2, 3)),
        ((2,), (0,), (2, 3)),
        ((1, 3), (0, 2), (4, 5, 3)),
        ((3, 2), (1, 0), (2, 3)),
        ((1,), (0,), (0,)),
        ((0,), (1,), (2, 0)),
    ],
    ids=str,
)
def test_broadcast_places_axes_and_stretches_ones(
    shape: tuple[int, ...], axes: tuple[int, ...], target: tuple[int, ...]
) -> None:
    x = numbered(*shape)
    (result,) = MEANINGS["broadcast"]([x], {"axes": axes, "shape": target})
    assert (type(result), result.shape, result.dtype) == (np.ndarray, target, x.dtype)
    for place in np.ndindex(*target):
        assert (
            result[place] == x[tuple(0 if size == 1 else place[axis] for axis, size in zip(axes, shape, strict=True))]
        )


@given(st.data())
def test_slice_takes_start_plus_multiples_of_the_step(data: st.DataObject) -> None:
    starts, shape, steps, sizes = [], [], [], []
    for _ in range(data.draw(st.integers(0, 3))):
        size = data.draw(st.integers(0, 5))
        step = data.draw(st.sampled_from([1, 2, 3, -1, -2]))
        start = data.draw(st.integers(0, max(size - 1, 0)))
        available = 0 if size == 0 else (size - 1 - start) // step + 1 if step > 0 else start // -step + 1
        starts.append(start)
        shape.append(data.draw(st.integers(0, available)))
        steps.append(step)
        sizes.append(size)
    x = numbered(*sizes)
    (result,) = MEANINGS["slice"]([x], {"starts": tuple(starts), "shape": tuple(shape), "steps": tuple(steps)})
    assert (type(result), result.shape) == (np.ndarray, tuple(shape))
    for place in np.ndindex(*shape):
        source = tuple(start + i * step for start, i, step in zip(starts, place, steps, strict=True))
        assert result[place] == x[source]


def test_slice_with_step_minus_one_reverses() -> None:
    (result,) = MEANINGS["slice"]([numbered(3)], {"starts": (2,), "shape": (3,), "steps": (-1,)})
    np.testing.assert_array_equal(result, [2, 1, 0], strict=True)


def test_an_empty_slice_may_start_anywhere() -> None:
    (result,) = MEANINGS["slice"]([numbered(3)], {"starts": (99,), "shape": (0,), "steps": (-7,)})
    assert result.shape == (0,)


@pytest.mark.parametrize(
    ("shape", "low", "high"), [((), (), ()), ((0,), (1,), (2,)), ((2, 3), (1, 0), (0, 2)), ((2,), (0,), (0,))], ids=str
)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, ml_dtypes.bfloat16], ids=str)
def test_pad_surrounds_with_the_value(
    dtype: type[np.generic], shape: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...]
) -> None:
    x, value = np.zeros(shape, dtype), np.ones((), dtype)
    (result,) = MEANINGS["pad"]([x, value], {"low": low, "high": high})
    assert (type(result), result.dtype) == (np.ndarray, x.dtype)
    assert result.shape == tuple(map(sum, zip(low, shape, high, strict=True)))
    for place in np.ndindex(*result.shape):
        inside = all(start <= i < start + n for i, start, n in zip(place, low, shape, strict=True))
        assert bool(result[place]) == (not inside)
    assert not np.shares_memory(result, x)


def test_concatenate_joins_along_the_axis() -> None:
    parts = [np.ones((2, n), np.float32) * n for n in (1, 0, 2)]
    (result,) = MEANINGS["concatenate"](parts, {"axis": 1})
    np.testing.assert_array_equal(result, np.array([[1, 2, 2], [1, 2, 2]], np.float32), strict=True)
    (single,) = MEANINGS["concatenate"]([np.ones(1, ml_dtypes.int4)], {"axis": 0})
    assert (single.dtype, single.shape) == (ml_dtypes.int4, (1,))


@pytest.mark.parametrize("kind", ["rank 0", "rank 1"])
def test_movement_of_symbolic_sizes(kind: str) -> None:
    x = symbols("N", "M")
    scalar = np.empty((), object)
    scalar[()] = Symbol("K")
    operand = scalar if kind == "rank 0" else x
    elements: list[object] = [Symbol("K")] if kind == "rank 0" else [Symbol("N"), Symbol("M"), 7]
    calls: list[tuple[str, list[np.ndarray], dict[str, object], list[object]]] = [
        ("reshape", [operand], {"shape": (1, operand.size)}, elements),
        ("transpose", [operand], {"permutation": tuple(range(operand.ndim))}, elements),
        (
            "broadcast",
            [operand],
            {"axes": tuple(range(1, operand.ndim + 1)), "shape": (2, *operand.shape)},
            elements * 2,
        ),
        (
            "slice",
            [operand],
            {"starts": (2,) * operand.ndim, "shape": operand.shape, "steps": (-1,) * operand.ndim},
            elements[::-1],
        ),
        (
            "pad",
            [operand, scalar],
            {"low": (1,) * operand.ndim, "high": (0,) * operand.ndim},
            [Symbol("K")] * operand.ndim + elements,
        ),
    ]
    for name, operands, attributes, expected in calls:
        (result,) = MEANINGS[name](operands, attributes)
        assert (type(result), result.dtype) == (np.ndarray, np.dtype(object)), name
        assert list(itertools.chain(result.reshape(-1))) == expected, name
    (joined,) = MEANINGS["concatenate"]([x, scalar.reshape(1)], {"axis": 0})
    assert list(joined) == [Symbol("N"), Symbol("M"), 7, Symbol("K")]


@pytest.mark.parametrize("index", [0, 2])
def test_gather_of_symbolic_sizes_stays_an_array(index: int) -> None:
    (scalar,) = MEANINGS["gather"]([symbols("N", "M"), np.array(index)], {"axis": 0})
    assert (type(scalar), scalar.dtype, scalar.shape) == (np.ndarray, np.dtype(object), ())
    assert scalar[()] == (Symbol("N") if index == 0 else 7)
    (vector,) = MEANINGS["gather"]([symbols("N", "M"), np.array([1, index])], {"axis": 0})
    assert list(vector) == [Symbol("M"), scalar[()]]
