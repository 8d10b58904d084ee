"""Cast and CastLike; the conversions themselves are tested where their meaning is."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from onnxc.runtime.errors import ModelError
from tests.operators.tensor_operators import run_operator
from tests.support.arrays import assert_same

X = np.float32([0.4, -1.5, 300, np.nan, -0.0])


@pytest.mark.parametrize("opset", [6, 9, 13, 19, 21, 23, 24])
@pytest.mark.parametrize("way", ["static", "symbolic"])
def test_every_version_casts(opset: int, way: str) -> None:
    actual = run_operator("Cast", {"x": X}, opset=opset, way=way, to=TensorProto.INT32)
    assert_same(*actual, np.int32([0, -1, 300, 0, 0]))


@pytest.mark.parametrize(("name", "dtype"), [("FLOAT16", np.float16), ("DOUBLE", np.float64), ("BOOL", np.bool_)])
def test_opset_1_names_the_type(name: str, dtype: type[np.generic]) -> None:
    assert_same(*run_operator("Cast", {"x": X}, opset=1, to=name), X.astype(dtype))


def test_an_unknown_type_is_an_error() -> None:
    with pytest.raises(ModelError, match="unknown-element-type"):
        run_operator("Cast", {"x": X}, opset=1, to="TEXT")


def test_the_same_type_is_the_identity() -> None:
    assert_same(*run_operator("Cast", {"x": X}, opset=13, to=TensorProto.FLOAT), X)


@pytest.mark.parametrize(("saturate", "expected"), [(1, 448.0), (0, np.nan)])
def test_float8_saturates_as_told(saturate: int, expected: float) -> None:
    x = np.float32([1e6])
    (actual,) = run_operator("Cast", {"x": x}, opset=19, to=TensorProto.FLOAT8E4M3FN, saturate=saturate)
    assert actual.dtype == ml_dtypes.float8_e4m3fn
    np.testing.assert_array_equal(actual.astype(np.float32), np.float32([expected]))


@pytest.mark.parametrize(("mode", "expected"), [("up", 4.0), ("down", 2.0), ("nearest", 2.0)])
def test_powers_of_two_round_as_told(mode: str, expected: float) -> None:
    x = np.float32([2.9])
    (actual,) = run_operator("Cast", {"x": x}, opset=24, to=TensorProto.FLOAT8E8M0, round_mode=mode)
    np.testing.assert_array_equal(actual.astype(np.float32), np.float32([expected]))


def test_the_rounding_mode_is_checked() -> None:
    with pytest.raises(ModelError, match="attribute-value"):
        run_operator("Cast", {"x": X}, opset=24, to=TensorProto.FLOAT8E8M0, round_mode="away")


@pytest.mark.parametrize("opset", [15, 19, 21, 23, 24])
def test_cast_like_takes_the_type_of_its_second_input(opset: int) -> None:
    like = np.zeros((2, 0), ml_dtypes.bfloat16)
    x = np.float32([0.4, -1.5, 1e38, -0.0])
    assert_same(*run_operator("CastLike", {"x": x, "like": like}, opset=opset), x.astype(ml_dtypes.bfloat16))
