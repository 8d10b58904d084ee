"""Det."""

import numpy as np
import pytest

from onnxc.runtime.errors import InputError, ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_close, assert_same


@pytest.mark.parametrize("opset", [11, 22])
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 2), (5, 5), (3, 4, 4), (2, 0, 3, 3), (2, 1, 6, 6)])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_determinants(opset: int, shape: tuple[int, ...], way: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    assert_close(*run_operator("Det", {"x": x}, opset=opset, way=way), np.asarray(np.linalg.det(x)))


@pytest.mark.parametrize("rows", [12, 13, 15, 16, 17, 33, 50, 65, 100])
def test_matrices_of_any_size_are_eliminated(rows: int) -> None:
    """Triangles whose rows are exchanged: nothing is rounded."""
    triangle = np.triu(np.ones((rows, rows), np.float32)) + np.eye(rows, dtype=np.float32)
    orders = [np.roll(np.arange(rows), shift) for shift in (0, 1, 2)]
    signs = [(-1) ** (shift * (rows - 1)) for shift in (0, 1, 2)]
    (actual,) = run_operator("Det", {"x": np.stack([triangle[order] for order in orders])}, opset=22)
    assert_same(actual, np.array([sign * 2.0**rows for sign in signs], np.float32))


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [([[0, 1], [1, 0]], -1), ([[0, 0], [0, 0]], 0), ([[1, 2], [2, 4]], 0), ([[0, 2, 0], [0, 0, 3], [4, 0, 0]], 24)],
)
def test_pivots_are_looked_for(matrix: list[list[int]], expected: int) -> None:
    (actual,) = run_operator("Det", {"x": np.array(matrix, np.float64)}, opset=11)
    assert_same(actual + 0.0, np.array(expected, np.float64))


def test_matrices_are_square() -> None:
    with pytest.raises(ModelError, match="not-square"):
        run_operator("Det", {"x": np.ones((2, 3), np.float32)}, opset=11)
    with pytest.raises(ModelError, match="det-rank"):
        run_operator("Det", {"x": np.ones(3, np.float32)}, opset=11)
    with pytest.raises(InputError, match="not square"):
        run_operator("Det", {"x": np.ones((2, 3), np.float32)}, opset=11, way="symbolic")
