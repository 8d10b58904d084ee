"""The interface of onnx.backend.base, which the official tests drive."""

import io
import unittest
import warnings
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx.backend.test import BackendTest

import onnxc
from onnxc import backend
from onnxc.runtime.errors import InputError, ModelError, UnsupportedError
from tests.support.arrays import assert_same
from tests.support.models import model_from_text

# In the order of the graph an initializer comes first.
MODEL = """
<ir_version: 3, opset_import: ["": 7]>
m (float[3] w, float[N, 3] x, float[N, 3] z) => (float[N, 3] y, float[N, 3] v) <float[3] w = {1, 2, 3}> {
   y = Mul (x, w)
   v = Sub (z, x)
}
"""
X, Z, W = (np.arange(6, dtype=np.float32).reshape(2, 3) + k for k in (0, 10, 100))
TARGETS = pytest.mark.parametrize("target", ["cpu", "interpreter"])


@TARGETS
@pytest.mark.parametrize("form", ["message", "bytes", "path", "file"])
def test_every_form_of_a_model_can_be_prepared(form: str, target: str, tmp_path: Path) -> None:
    model = model_from_text(MODEL)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    forms = {"message": model, "bytes": path.read_bytes(), "path": str(path), "file": io.BytesIO(path.read_bytes())}
    prepared = backend.prepare(forms[form], "CPU", target)
    y, v = prepared.run([X, Z])
    assert_same(np.asarray(y), X * np.array([1, 2, 3], np.float32))
    assert_same(np.asarray(v), Z - X)
    # The initializer comes last, and may be replaced.
    y, v = prepared.run([X, Z, W[0]])
    assert_same(np.asarray(y), X * W[0])


@TARGETS
def test_inputs_may_be_named_and_none_is_left_out(target: str) -> None:
    prepared = backend.prepare(model_from_text(MODEL), target=target)
    for inputs in ({"x": X, "z": Z, "w": W[0]}, (X, Z, W[0])):
        assert_same(np.asarray(prepared.run(inputs)[0]), X * W[0])
    assert_same(np.asarray(prepared.run([X, Z, None])[0]), X * np.array([1, 2, 3], np.float32))


def test_one_input_may_stand_alone() -> None:
    model = model_from_text('<ir_version: 8, opset_import: ["": 17]> m (float[N] x) => (float[N] y) { y = Neg (x) }')
    (y,) = backend.run_model(model, X[0])
    assert_same(np.asarray(y), -X[0])


@pytest.mark.parametrize("inputs", [[X], [X, Z, W[0], X], {"x": X}, {"x": X, "z": Z, "q": X}])
def test_wrong_inputs_are_input_errors(inputs: object) -> None:
    with pytest.raises(InputError):
        backend.prepare(model_from_text(MODEL), target="interpreter").run(inputs)


@TARGETS
def test_a_node_runs_alone(target: str) -> None:
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    (y,) = backend.run_node(node, [X, np.float32(3)], target=target)
    assert_same(np.asarray(y), np.minimum(X, 3))


def test_a_node_may_read_an_input_twice_and_be_of_an_old_version() -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    (y,) = backend.run_node(node, [X, X], opset_version=7)
    assert_same(np.asarray(y), X + X)
    with pytest.raises(InputError):
        backend.run_node(node, [X])


@pytest.mark.parametrize(("device", "supported"), [("CPU", True), ("CPU:0", True), ("CUDA", False), ("CUDA:1", False)])
def test_devices(device: str, supported: bool) -> None:
    assert backend.supports_device(device) == supported
    if not supported:
        with pytest.raises(UnsupportedError):
            backend.prepare(model_from_text(MODEL), device)


def test_compatible_is_what_is_legal_and_known() -> None:
    model = model_from_text(MODEL)
    assert backend.is_compatible(model)
    assert not backend.is_compatible(model, "CUDA")
    model.graph.node[0].op_type = "Mull"
    assert not backend.is_compatible(model)
    with pytest.raises(ModelError):
        backend.prepare(model)


def test_what_is_not_supported_says_so_in_the_name_of_its_class() -> None:
    assert "Unsupported" in onnxc.UnsupportedError.__name__


@pytest.mark.slow
def test_the_official_runner_takes_the_module() -> None:
    with warnings.catch_warnings():
        # The generators of the package overflow on purpose.
        warnings.simplefilter("ignore")
        tests = BackendTest(backend, __name__)
    suite = tests.include(r"^test_relu_cpu$").test_suite
    result = suite.run(unittest.TestResult())
    assert result.wasSuccessful(), result.failures + result.errors
    assert result.testsRun - len(result.skipped) == 1
