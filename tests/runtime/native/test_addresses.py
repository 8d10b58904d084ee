"""Addresses of arrays: read from the array objects, or asked for where that is not possible."""

import numpy as np
import pytest

from onnxc.runtime.load import make_executable
from onnxc.runtime.native import addresses, builtin_function
from onnxc.runtime.native.addresses import read_address
from tests.runtime.programs import AFFINE, BIAS, SCALE, artifact
from tests.support.arrays import assert_same

BLOCK = np.arange(24, dtype=np.float32)


@pytest.mark.parametrize(
    "x",
    [BLOCK, BLOCK[5:], BLOCK.reshape(2, 3, 4).T, np.array(1.5), np.empty((0, 3)), np.array(["a"], object),
     np.frombuffer(b"abc", np.uint8), BLOCK.view(np.recarray), np.array(np.float32(2)).reshape(1, 1)],
)  # fmt: skip
def test_the_address_is_that_of_the_first_element(x: np.ndarray) -> None:
    assert read_address(x) == x.ctypes.data


def test_where_the_layout_is_not_known_addresses_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin_function, "LAYOUT_IS_KNOWN", False)
    monkeypatch.setattr(builtin_function, "read_address", addresses._ask)
    exe = make_executable(artifact(AFFINE))
    for _ in range(3):
        assert_same(np.asarray(exe(BLOCK)), BLOCK * np.float32(SCALE) + np.float32(BIAS))


def test_another_interpreter_of_python_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.implementation.name", "pypy")
    assert not addresses._layout_is_known()
