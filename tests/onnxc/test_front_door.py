"""The public interface: compile, load, check and infer, on small models written as text."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, checker, helper

import onnxc
from tests.support.arrays import assert_close, assert_same
from tests.support.models import model_from_text, run_ort

ROOT = Path(onnxc.__file__).parents[1]

AFFINE = """
<ir_version: 8, opset_import: ["": 17]>
affine (float[N, 3] x, float[3] b) => (float[N, 3] y, int64[2] s) <float[3] b = {1, 2, 3}, float[3] w = {2, 2, 4}> {
   p = Mul (x, w)
   y = Add (p, b)
   s = Shape (y)
}
"""
JOIN = """
<ir_version: 8, opset_import: ["": 17]>
join (float[N, K] a, float[N, M] b) => (float[N, J] y) { y = Concat <axis = 1> (a, b) }
"""
X = np.array([[1, 2, 3], [-0.0, 4, 5]], np.float32)
Y = X * np.array([2, 2, 4], np.float32) + np.array([1, 2, 3], np.float32)

TARGETS = pytest.mark.parametrize("target", ["cpu", "interpreter"])


def affine() -> ModelProto:
    return model_from_text(AFFINE)


@TARGETS
@pytest.mark.parametrize("form", ["message", "bytes", "path", "text", "file"])
def test_a_model_may_come_in_any_form(form: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(affine().SerializeToString())
    source = {
        "message": affine(), "bytes": path.read_bytes(), "path": path, "text": str(path),
        "file": io.BytesIO(path.read_bytes()),
    }[form]  # fmt: skip
    y, s = onnxc.compile(source, target)(X)
    assert_same(y, Y)
    assert_same(s, np.array([2, 3]))


@TARGETS
@pytest.mark.parametrize("rows", [0, 1, 7, 100])
def test_one_compilation_serves_every_size(target: str, rows: int) -> None:
    exe = onnxc.compile(affine(), target)
    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    expected = run_ort(affine(), {"x": x})
    for name, value in exe.run({"x": x}).items():
        assert_close(np.asarray(value), expected[name])
    assert exe.stats.compilations == 1
    assert exe.stats.calls == 1


@TARGETS
def test_what_an_executable_tells_of_itself(target: str) -> None:
    exe = onnxc.compile(affine(), target)
    assert [str(info) for info in exe.inputs] == ["x: f32[N, 3]"]
    assert [str(info) for info in exe.outputs] == ["y: f32[N, 3]", "s: i64[2]"]
    assert exe.inputs[0].shape == ("N", 3)
    assert exe.inputs[0].dtype == np.float32
    assert exe.frozen_inputs == ("b",)
    assert exe.report()


@TARGETS
def test_an_initializer_that_is_an_input_is_a_constant_or_a_default(target: str) -> None:
    b = np.zeros(3, np.float32)
    frozen, open_ = (onnxc.compile(affine(), target, freeze_params=freeze) for freeze in (True, False))
    with pytest.raises(onnxc.InputError, match="freeze_params=False"):
        frozen.run({"x": X, "b": b})
    assert [str(info) for info in open_.inputs] == ["x: f32[N, 3]", "b: f32[3] (optional)", "w: f32[3] (optional)"]
    assert_same(np.asarray(open_(X)[0]), Y)
    assert_same(np.asarray(open_(X, b)[0]), X * np.array([2, 2, 4], np.float32) + b)
    assert_same(np.asarray(open_.run({"x": X, "b": b})["y"]), X * np.array([2, 2, 4], np.float32) + b)


@TARGETS
def test_sizes_may_be_fixed_or_ranged(target: str) -> None:
    fixed = onnxc.compile(affine(), target, dims={"N": 2})
    assert fixed.inputs[0].shape == (2, 3)
    assert_same(np.asarray(fixed(X)[0]), Y)
    with pytest.raises(onnxc.InputError, match='axis 0 of input "x" is 1, expected 2'):
        fixed(X[:1])
    ranged = onnxc.compile(affine(), target, dims={"N": (1, 2)})
    assert_same(np.asarray(ranged(X)[0]), Y)
    for rows in (0, 3):
        with pytest.raises(onnxc.InputError, match="expected N from 1 to 2"):
            ranged(np.zeros((rows, 3), np.float32))


@TARGETS
def test_shapes_and_dtypes_of_an_input_may_be_given(target: str) -> None:
    exe = onnxc.compile(model_from_text(JOIN), target, shapes={"a": (2, None), "b": (2, "Q")})
    assert [str(info) for info in exe.inputs] == ["a: f32[2, K]", "b: f32[2, Q]"]
    assert_same(np.asarray(exe(X, X)), np.concatenate([X, X], 1))
    doubles = onnxc.compile(model_from_text(JOIN.replace("float[N, J]", "double[N, J]").replace("float", "double", 2)))
    assert str(doubles.inputs[0]) == "a: f64[N, K]"
    text = JOIN.replace("=> (float[N, J] y)", "=> (y)")
    integers = onnxc.compile(model_from_text(text), target, dtypes={"a": "i32", "b": np.int32})
    assert_same(
        np.asarray(integers(X.astype(np.int32), X.astype(np.int32))), np.concatenate([X, X], 1).astype(np.int32)
    )


@TARGETS
def test_sizes_that_must_agree_are_checked(target: str) -> None:
    exe = onnxc.compile(model_from_text(JOIN), target)
    with pytest.raises(onnxc.InputError, match='axis 0 of input "b" is 1, expected N = 2') as refused:
        exe(X, X[:1])
    assert refused.value.code == "sizes-disagree"


def test_saved_and_loaded_it_does_the_same(tmp_path: Path) -> None:
    exe, path = onnxc.compile(affine()), tmp_path / "m.onnxc"
    exe.save(path)
    loaded = onnxc.load(path)
    assert (loaded.inputs, loaded.outputs, loaded.frozen_inputs) == (exe.inputs, exe.outputs, exe.frozen_inputs)
    for one, other in zip(loaded(X), exe(X), strict=True):
        assert_same(np.asarray(one), np.asarray(other))
    assert (loaded.stats.compilations, exe.stats.compilations) == (0, 1)


def test_the_same_model_and_options_give_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        onnxc.compile(affine(), dims={"N": (1, 8)}).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_interpreter_saves_nothing(tmp_path: Path) -> None:
    with pytest.raises(onnxc.UnsupportedError, match="interpreter"):
        onnxc.compile(affine(), "interpreter").save(tmp_path / "m.onnxc")


@pytest.mark.parametrize(
    ("source", "code"),
    [(b"", "empty-model"), (b"<html>", "not-a-model"), (b"\x08\x08", "no-graph"), ("absent.onnx", "file-not-found")],
)
def test_what_is_no_model_is_an_error_and_a_finding(source: object, code: str) -> None:
    with pytest.raises(FileNotFoundError if code == "file-not-found" else onnxc.ModelError) as refused:
        onnxc.compile(source, "interpreter")
    assert refused.value.code
    findings = onnxc.check(source)
    assert [finding.severity for finding in findings].count("error") >= 1
    if code != "no-graph":
        assert refused.value.code == findings[0].code == code


def test_what_is_no_source_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        onnxc.compile(17)


def test_check_finds_nothing_in_a_good_model() -> None:
    assert onnxc.check(affine()) == ()


def test_check_tells_all_errors_at_once() -> None:
    model = affine()
    model.graph.node[0].op_type = "Mull"
    model.graph.node[1].input[0] = "q"
    codes = [finding.code for finding in onnxc.check(model) if finding.severity == "error"]
    assert len(codes) >= 2


def test_check_tells_errors_of_types_too() -> None:
    model = affine()
    model.graph.initializer[1].CopyFrom(helper.make_tensor("w", TensorProto.FLOAT, [4], [1, 2, 3, 4]))
    (finding,) = onnxc.check(model)
    assert (finding.severity, finding.location is not None) == ("error", True)
    with pytest.raises(onnxc.ModelError):
        onnxc.compile(model, "interpreter")


def test_infer_declares_every_value() -> None:
    typed = onnxc.infer(affine())
    model = ModelProto.FromString(typed.SerializeToString())
    checker.check_model(model, full_check=True)
    (p,) = model.graph.value_info
    assert p.name == "p"
    assert p.type.tensor_type.elem_type == TensorProto.FLOAT
    assert [dim.dim_param or dim.dim_value for dim in p.type.tensor_type.shape.dim] == ["N", 3]


def test_infer_knows_options() -> None:
    typed = onnxc.infer(affine(), dims={"N": 5})
    assert [dim.dim_value for dim in typed.graph.value_info[0].type.tensor_type.shape.dim] == [5, 3]


def test_errors_are_the_runtimes() -> None:
    for name in ("DeviceError", "InputError", "ModelError", "UnsupportedError"):
        assert issubclass(getattr(onnxc, name), onnxc.OnnxcError)


def test_importing_loads_no_library() -> None:
    code = """
import sys
import onnxc
assert not {"asyncio", "concurrent.futures", "ctypes", "inspect", "logging"} & set(sys.modules)
assert not {"numpy", "llvmlite", "google", "onnx"} & {name.split(".")[0] for name in sys.modules}
assert "onnxc.compiler" not in sys.modules
onnxc.check(b"")
assert "llvmlite" not in sys.modules
assert "onnx" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
