"""constant, iota and sizes."""

import ml_dtypes
import numpy as np
import pytest

from onnxc.runtime.host import MEANINGS


@pytest.mark.parametrize("value", [np.array(3.0), np.zeros((0, 2), np.int8), np.array(["a"], object)], ids=str)
def test_a_constant_is_its_value_and_cannot_be_changed(value: np.ndarray) -> None:
    (result,) = MEANINGS["constant"]([], {"value": value})
    np.testing.assert_array_equal(result, value, strict=True)
    assert not result.flags.writeable
    assert value.flags.writeable


@pytest.mark.parametrize("shape", [(3,), (1,), (0,), (2, 3, 4), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_iota_counts_along_its_axis(dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        (result,) = MEANINGS["iota"]([], {"shape": shape, "axis": axis, "dtype": np.dtype(dtype)})
        assert (result.dtype, result.shape, result.flags.writeable) == (np.dtype(dtype), shape, True)
        assert all(float(result[place]) == place[axis] for place in np.ndindex(*shape))


def test_iota_wraps_in_narrow_integers() -> None:
    (result,) = MEANINGS["iota"]([], {"shape": (300,), "axis": 0, "dtype": np.dtype(np.uint8)})
    assert [int(value) for value in result[[255, 256, 299]]] == [255, 0, 43]


def test_sizes_are_an_integer_tensor() -> None:
    (vector,) = MEANINGS["sizes"]([], {"values": (4, 1 << 40), "dtype": np.dtype(np.int64)})
    np.testing.assert_array_equal(vector, np.array([4, 1 << 40]), strict=True)
    (empty,) = MEANINGS["sizes"]([], {"values": (), "dtype": np.dtype(np.int32)})
    np.testing.assert_array_equal(empty, np.zeros(0, np.int32), strict=True)
    (scalar,) = MEANINGS["sizes"]([], {"values": (4,), "dtype": np.dtype(np.int32), "scalar": True})
    np.testing.assert_array_equal(scalar, np.array(4, np.int32), strict=True)
