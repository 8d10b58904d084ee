"""`onnxc diff` and `onnxc.diff`: what they compare, what they print, and what a user may get wrong."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import onnxc
from onnxc.command_line.main import main
from onnxc.comparing.differences import compare_values
from onnxc.comparing.sides import parse_side
from onnxc.runtime.errors import OnnxcError
from tests.support.models import model_from_text

TEXT = """<ir_version: 10, opset_import: ["": 21]>
    m (float[N, 3] x) => (float[N, 3] y) <float[3] w = {1, 2, 3}> {
        a = Mul (x, w)
        b = Exp (a)
        y = Neg (b)
    }"""
ENGINES = ("@cpu", "@interpreter", "@onnxruntime", "@reference")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_from_text(TEXT).SerializeToString())
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The same model with another weight."""
    path = tmp_path / "other.onnx"
    path.write_bytes(model_from_text(TEXT.replace("2, 3}", "2, 3.5}")).SerializeToString())
    return path


def diff(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, arguments)])


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_agrees_in_every_value(model: Path, engine: str) -> None:
    found = onnxc.diff(model, engine, dims={"N": 4})
    assert found.is_same
    assert [(each.name, each.a) for each in (*found.inner, *found.outputs)] == [
        ("a", "f32[4, 3]"),
        ("b", "f32[4, 3]"),
        ("y", "f32[4, 3]"),
    ]


@pytest.mark.parametrize(
    ("sides", "options", "message"),
    [
        ((None, "@cpu"), {}, "a is None, expected a path"),
        (("@cpu", b"m.onnx"), {}, "b is b'm.onnx', expected a path"),
        (("", "@cpu"), {"inputs": [1]}, "inputs is"),
        (("", "@cpu"), {"dims": 3}, "dims is 3"),
        (("", "@cpu"), {"dims": {"N": 1.5}}, "expected an integer"),
        (("", "@cpu"), {"shapes": {"x": 3}}, "expected a sequence of sizes"),
        (("", "@cpu"), {"shapes": {"x": [None, 3]}}, "expected sizes or names"),
        (("", "@cpu"), {"seed": "a"}, "seed is 'a', expected an integer"),
    ],
)
def test_arguments_of_other_types_are_refused(
    model: Path, sides: tuple[object, object], options: dict[str, object], message: str
) -> None:
    a, b = sides
    with pytest.raises(onnxc.InputError, match=message) as caught:
        onnxc.diff(a if a is None or a else model, b, **options)  # type: ignore[arg-type]
    assert caught.value.code == "option-type"


def test_the_first_value_that_differs_is_named_with_its_node(model: Path, other: Path) -> None:
    x = np.ones((1, 3), np.float32)
    found = onnxc.diff(model, f"{other}@onnxruntime", {"x": x})
    assert not found.is_same
    assert found.first is not None
    assert (found.first.name, found.first.node) == ("a", "node 0 (Mul)")
    assert found.first.max_abs == 0.5
    assert found.first.max_rel == pytest.approx(0.5 / 3.5)
    assert "<td>a</td><td>node 0 (Mul)</td>" in found._repr_html_()


def test_the_command_prints_the_values_that_differ(model: Path, other: Path) -> None:
    result = diff(model, other, "--input", "x=[[1, 1, 1]]")
    assert (result.exit_code, result.stderr) == (1, "")
    assert "3 of 3 values" not in result.stdout
    assert "2 of 2 values in between differ:" in result.stdout
    assert "first to differ  a, which is computed by node 0 (Mul)" in result.stdout


def test_json_has_every_figure(model: Path) -> None:
    result = diff(f"{model}@cpu", "@reference", "--dim", "N=2", "--seed", 3, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["same"], found["first"], found["only_a"]) == (True, None, [])
    assert [each["name"] for each in found["inner"]] == ["a", "b"]
    (output,) = found["outputs"]
    assert {"max_abs", "max_rel", "max_ulps", "nans", "difference", "allowed", "same"} <= output.keys()
    assert output["b"] == "f32[2, 3]"
    assert json.loads(diff(model, "@cpu", "--outputs-only", "--json").stdout)["inner"] == []


def test_outputs_that_one_side_lacks_are_a_difference(model: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.onnx"
    renamed.write_bytes(onnxc.rename(model, {"y": "z"}).SerializeToString())
    result = diff(model, renamed)
    assert result.exit_code == 1
    assert f"only {renamed} gives z" in result.stdout


def test_the_smallest_model_is_written_with_its_inputs(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = "onnx.reference.ops.op_exp.Exp._run"
    monkeypatch.setattr(reference, lambda self, x: (np.exp(x) * np.float32(1.1),))
    small = tmp_path / "small.onnx"
    result = diff(f"{model}@cpu", "@reference", "--dim", "N=8", "--bisect", "-o", small)
    assert result.exit_code == 1
    assert f"{small}: 1 node (Exp); its inputs are in {small.with_suffix('.npz')}" in result.stdout
    assert [node.op_type for node in onnx.load(small).graph.node] == ["Exp"]
    with np.load(small.with_suffix(".npz")) as inputs:
        assert {name: inputs[name].shape for name in inputs} == {"a": (1, 1)}
    assert diff(f"{small}@cpu", "@reference", "--input", f"a=@{small.with_suffix('.npz')}").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("@cpu", "@interpreter"), "diff-side"),
        (("{model}@cpu:speed=1", "@interpreter"), "diff-side"),
        (("{model}@cpu:threads=none", "@interpreter"), "diff-side"),
        (("{model}", "none.onnx"), "file-not-found"),
        (("{model}", "@cpu", "--input", "q=[1]"), "unknown-input"),
        (("{model}", "@cpu", "--dim", "M=3"), "unknown-dim"),
        (("{model}", "@cpu", "--input", "x=[1]"), "input-rank"),
        (("{anyrank}", "@cpu"), "undrawable-input"),
        (("{broken}@onnxruntime", "@interpreter"), "side-failed"),
    ],
)
def test_what_is_asked_wrongly_has_a_code(model: Path, tmp_path: Path, arguments: tuple[str, ...], code: str) -> None:
    anyrank, broken = tmp_path / "anyrank.onnx", tmp_path / "broken.onnx"
    made = model_from_text('<ir_version: 10, opset_import: ["": 21]> m (float x) => (float y) { y = Abs (x) }')
    made.graph.input[0].type.tensor_type.ClearField("shape")
    anyrank.write_bytes(made.SerializeToString())
    # ONNX Runtime has no kernel for it in this type.
    text = '<ir_version: 10, opset_import: ["": 21]> m (double[2] x) => (double[2] y) { y = Tan (x) }'
    broken.write_bytes(model_from_text(text).SerializeToString())
    texts = [text.format(model=model, anyrank=anyrank, broken=broken) for text in arguments]
    result = diff(*texts)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error[{code}]")


def test_bisect_needs_a_file(model: Path) -> None:
    assert diff(model, "@cpu", "--bisect").exit_code == 2


def test_a_path_may_have_an_at_sign(tmp_path: Path) -> None:
    side = parse_side(f"{tmp_path}/me@home.onnx@cpu:x86-64-v3:precision=bf16:threads=2")
    assert (side.model, side.engine) == (tmp_path / "me@home.onnx", "cpu:x86-64-v3")
    assert (side.precision, side.threads) == ("bf16", 2)
    with pytest.raises(OnnxcError):
        parse_side("@cpu")


F32 = np.array([1.0, -2.0, 0.0], np.float32)


@pytest.mark.parametrize(
    ("a", "b", "figures"),
    [
        (F32, F32, (0.0, 0.0, 0)),
        (np.nextafter(F32, np.float32(4)), F32, (2**-23, 2**-23, 1)),
        (np.array([-0.0], np.float32), np.array([0.0], np.float32), (0.0, 0.0, 0)),
        (np.array([1e-45], np.float32), np.array([-1e-45], np.float32), (2.8e-45, 2.0, 2)),
        (F32.astype(np.float64), F32.astype(np.float64), (0.0, 0.0, 0)),
        (np.array([1, 5]), np.array([1, 3]), (2.0, 2 / 3, None)),
        (np.array(["a"], object), np.array(["b"], object), (None, None, None)),
        (F32, F32[:2], (None, None, None)),
    ],
)
def test_figures_of_a_difference(a: np.ndarray, b: np.ndarray, figures: tuple[object, ...]) -> None:
    found = compare_values("v", "", a, b)
    assert (found.max_abs, found.max_rel, found.max_ulps) == pytest.approx(figures, abs=1e-45)


def test_positions_of_nan_are_counted() -> None:
    found = compare_values("v", "", np.array([np.nan, 1, np.nan]), np.array([np.nan, np.nan, 2]))
    assert (found.nans, found.is_same, found.to_json()["difference"]) == (2, False, None)
