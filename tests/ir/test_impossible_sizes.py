"""Sizes that no memory has, which a call decides: an error of ours on every target, however NumPy fails on them."""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import DeviceError
from tests.frontend.model_texts import model

MODELS = {
    "padded": "g (float[20, 3] x, int64[2] s) => (y) { y = CenterCropPad(x, s) }",
    "filled": "g (float[20, 3] x, int64[2] s) => (y) { y = ConstantOfShape(s) }",
    "expanded": "g (float[20, 3] x, int64[2] s) => (y) <float o = {1}> { y = Expand(o, s) }",
}


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("exponent", [47, 48, 57, 58, 59, 60, 61, 62])
def test_a_size_that_no_memory_has_is_refused(text: str, target: str, exponent: int) -> None:
    exe = onnxc.compile(model(text), target)
    with pytest.raises(DeviceError, match="memory") as caught:
        exe(x=np.zeros((20, 3), np.float32), s=np.array([1 << exponent, 7]))
    assert caught.value.code == "out-of-memory"
