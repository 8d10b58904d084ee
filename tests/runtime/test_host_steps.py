"""Host steps that ask for more memory than there is: an error of ours, not one of NumPy."""

import numpy as np
import pytest

import onnxc
from onnxc.runtime.errors import DeviceError
from tests.support.models import model_from_text

TILED_TEXTS = """
<ir_version: 10, opset_import: ["" : 13]>
main (string[N] x, int64[1] repeats) => (string[M] y) { y = Tile(x, repeats) }
"""


@pytest.mark.parametrize("repeats", [2**62, 2**52])
def test_texts_that_no_memory_holds_are_out_of_memory(repeats: int) -> None:
    executable = onnxc.compile(model_from_text(TILED_TEXTS))
    x = np.array(["a", "b"], object)
    with pytest.raises(DeviceError, match="does not fit into memory"):
        executable.run({"x": x, "repeats": np.array([repeats], np.int64)})
    tiled = executable.run({"x": x, "repeats": np.array([2], np.int64)})["y"]
    assert np.asarray(tiled).tolist() == ["a", "b", "a", "b"]
