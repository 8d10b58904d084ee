"""Identity and BitCast: the same bits."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from tests.operators.tensor_operators import lower_operator, run_operator
from tests.support.arrays import assert_same


@pytest.mark.parametrize("way", ["static", "symbolic"])
@pytest.mark.parametrize("x", [np.array(-0.0), np.zeros((0, 2), np.uint8), np.array(["a"], object)])
def test_identity_makes_no_op(way: str, x: np.ndarray) -> None:
    assert lower_operator("Identity", {"input": x}, opset=25, way=way).main.body.ops == ()
    (got,) = run_operator("Identity", {"input": x}, opset=25, way=way)
    assert got is x


@pytest.mark.parametrize(
    ("x", "to", "expected"),
    [
        (np.array([1.0, -0.0, np.nan], np.float32), TensorProto.UINT32, None),
        (np.array([-1, 0], np.int64), TensorProto.DOUBLE, None),
        (np.array(0x3F80, np.uint16), TensorProto.BFLOAT16, np.array(1, ml_dtypes.bfloat16)),
        (np.array([True, False]), TensorProto.UINT8, np.array([1, 0], np.uint8)),
        (np.array([0, 1, 128], np.uint8), TensorProto.BOOL, np.array([False, True, True])),
        (np.array([True]), TensorProto.BOOL, np.array([True])),
        (np.zeros((2, 0), np.int8), TensorProto.UINT8, np.zeros((2, 0), np.uint8)),
    ],
)
def test_bit_cast_keeps_every_bit(x: np.ndarray, to: int, expected: np.ndarray | None) -> None:
    (got,) = run_operator("BitCast", {"input": x}, opset=26, to=to)
    if expected is None:
        expected = x.view({TensorProto.UINT32: np.uint32, TensorProto.DOUBLE: np.float64}[to])
    assert got.tobytes() == expected.tobytes()
    assert_same(got, expected)
