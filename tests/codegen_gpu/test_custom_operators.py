"""Custom operators and swapped weights where kernels are for a GPU; a fake driver runs them."""

from pathlib import Path

import numpy as np
import pytest

import onnxc
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.engine import default_arrays
from onnxc.runtime.load import read_artifact
from onnxc.runtime.program import Host
from tests.onnxc.test_custom_operators import BODIES, X, model
from tests.onnxc.test_weights import B, W, layer
from tests.support import host_functions
from tests.support.fake_gpu import compile_for_fake


@pytest.mark.parametrize("form", BODIES)
def test_each_form_of_body_stands_between_kernels(form: str) -> None:
    run = compile_for_fake(
        model("h = Tanh(x) k = my.ops.Swish <beta = 2.0> (h) y = Neg(k)"), operators=[BODIES[form]()]
    )
    np.testing.assert_allclose(run.executable(X), -host_functions.swish(np.tanh(X), 2.0), rtol=1e-5)
    assert any(step.function == "custom_operator" for step in hosts(run.artifact)) == (form == "host")
    run.driver.check()


def hosts(artifact: Artifact) -> list[Host]:
    return [step for step in artifact.program.body.steps if isinstance(step, Host)]


def test_weights_are_swapped_in_code_for_a_device_that_is_not_here(tmp_path: Path) -> None:
    swapped = compile_for_fake(layer(), freeze_params=False).executable.with_weights({"b": B})
    swapped.save(tmp_path / "m.onnxc")
    program = read_artifact(tmp_path / "m.onnxc")
    assert program.provenance["swapped_weights"] == ["b"]
    np.testing.assert_array_equal(default_arrays(program.program, program.weights)[2], B)
    with pytest.raises(onnxc.DeviceError):
        swapped(W)
