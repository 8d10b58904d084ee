"""Reshape, Flatten, Transpose, Concat, Squeeze, Unsqueeze: shapes that numbers, symbols or data tell."""

import numpy as np
import pytest

from compiler.ir.dims import Size, floordiv
from runtime.errors import InputError
from tests.operators.tensor_operators import WAYS, lower_operator, run_operator
from tests.support.arrays import assert_same

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("old", "shape", "new"),
    [
        ((2, 3, 4), (4, -1), (4, 6)),
        ((2, 3, 4), (0, -1), (2, 12)),
        ((2, 3, 4), (-1, 0), (8, 3)),
        ((2, 3, 4), (2, 0, 2, -1), (2, 3, 2, 2)),
        ((1,), (), ()),
        ((), (1, 1), (1, 1)),
        ((), (-1,), (1,)),
        ((0, 3), (3, 0, 5), None),
        ((0, 3), (0, -1), (0, 3)),
        ((2, 0), (0, -1), (2, 0)),
        ((5, 0), (-1, 7), (0, 7)),
        ((1, 1), (-1,), (1,)),
    ],
)
def test_reshape_copies_0_and_infers_minus_1(
    way: str, old: tuple[int, ...], shape: tuple[int, ...], new: tuple[int, ...] | None
) -> None:
    x = np.arange(np.prod(old), dtype=np.int32).reshape(old)
    if new is None:
        with pytest.raises((InputError, Exception)):
            run_operator("Reshape", {"data": x, "shape": i64(*shape)}, opset=14, way=way, parameters=["shape"])
        return
    (got,) = run_operator("Reshape", {"data": x, "shape": i64(*shape)}, opset=14, way=way, parameters=["shape"])
    assert_same(got, x.reshape(new))
