"""Expand and Tile: tensors repeated along their axes."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError
from tests.operators.tensor_operators import WAYS, i64, run_operator
from tests.support.arrays import assert_same


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("old", "shape"),
    [((3, 1), (2, 1, 6)), ((3, 4), (1,)), ((), (2, 2)), ((1,), (0,)), ((0, 1), (1, 3)), ((2,), ()), ((1, 2), (3, 2))],
)
def test_expand_broadcasts_both_ways(way: str, old: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(old), dtype=np.float32).reshape(old)
    (got,) = run_operator("Expand", {"input": x, "shape": i64(*shape)}, opset=13, way=way, parameters=["shape"])
    assert_same(got, np.broadcast_to(x, np.broadcast_shapes(old, shape)))


@pytest.mark.parametrize("shape", [(3,), (-2,), (2, -1)])
def test_expand_to_what_does_not_fit_is_an_input_error(shape: tuple[int, ...]) -> None:
    inputs = {"input": np.zeros(2), "shape": i64(*shape)}
    with pytest.raises(InputError):
        run_operator("Expand", inputs, opset=13, way="data", parameters=["shape"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("old", "repeats"),
    [((2, 3), (2, 1)), ((2, 3), (1, 3)), ((2, 3), (2, 2)), ((2, 3), (0, 2)), ((0, 1), (3, 4)), ((), ())],
)
def test_tile_is_numpy_tile(way: str, old: tuple[int, ...], repeats: tuple[int, ...]) -> None:
    x = np.arange(np.prod(old), dtype=np.int8).reshape(old)
    (got,) = run_operator("Tile", {"input": x, "repeats": i64(*repeats)}, opset=13, way=way, parameters=["repeats"])
    assert_same(got, np.tile(x, repeats))


@pytest.mark.parametrize("way", WAYS)
def test_tile_1_repeats_one_axis(way: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    inputs = {"input": x, "tiles": np.array(2, np.float32), "axis": np.array(1, np.float32)}
    (got,) = run_operator("Tile", inputs, opset=1, way=way, parameters=["tiles", "axis"])
    assert_same(got, np.tile(x, (1, 2)))


def test_a_negative_number_of_repeats_is_an_input_error() -> None:
    inputs = {"input": np.zeros(2), "repeats": i64(-1)}
    with pytest.raises(InputError):
        run_operator("Tile", inputs, opset=13, way="data", parameters=["repeats"])
