"""Shapes that a model declares otherwise than they are: what nodes give wins, a warning says so, `strict` refuses."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import onnxc
from onnxc.command_line.main import main
from tests.support.models import model_from_text

HEADER = '<ir_version: 8, opset_import: ["": 17]>'
MODELS = {
    "a size of an output": f"{HEADER} m (float[N, 4] x) => (float[N, 5] y) {{ y = Relu (x) }}",
    "the rank of an output": f"{HEADER} m (float[N, 4] x) => (float[N] y) {{ y = Relu (x) }}",
    "a value between": f"""{HEADER} m (float[N, 4] x) => (float[N, 4] y) <float[7, 7, 7] z> {{
      z = Neg (x) y = Abs (z)
    }}""",
    "a branch": f"""{HEADER} m (float[N, 4] x, bool c) => (float[N, 4] y) {{
      y = If (c) <then_branch = t () => (float[N, 5] a) {{ a = Relu (x) }},
                  else_branch = e () => (float[N, 4] b) {{ b = Abs (x) }}>
    }}""",
}


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", MODELS)
def test_what_a_node_gives_wins_and_a_warning_names_it(name: str, target: str) -> None:
    with pytest.warns(onnxc.ModelWarning, match=r"warning\[declared-type\](.|\n)*node 0") as told:
        exe = onnxc.compile(model_from_text(MODELS[name]), target)
    assert len(told) == 1
    assert [str(info) for info in exe.outputs] == ["y: f32[N, 4]"]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    result = exe(x, np.array(True)) if name == "a branch" else exe(x)
    assert np.array_equal(np.asarray(result), x)


@pytest.mark.parametrize("name", MODELS)
def test_strict_refuses(name: str) -> None:
    with pytest.raises(onnxc.ModelError, match="is declared") as refused:
        onnxc.compile(model_from_text(MODELS[name]), strict=True)
    assert refused.value.code == "declared-type"


BODY = """<ir_version: 10, opset_import: ["": 18, "l": 1]> m (float[N, 4] x) => (float[N, 4] y) { y = l.F (x) }
    <domain: "l", opset_import: ["": 18]> F (a) => (b) <%s> { h = Relu (a) b = Abs (h) }"""


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("float[3] h", "the ranks differ"),
        ("float[N, 5] h", "axis 1 differs"),
        ("double[N, 4] h", "the element types differ"),
        ("float[4] b", "the ranks differ"),
    ],
)
def test_what_a_function_declares_of_its_body_is_a_warning(declared: str, reason: str) -> None:
    model = model_from_text(BODY % declared)
    with pytest.warns(onnxc.ModelWarning, match=reason) as told:
        exe = onnxc.compile(model, "interpreter")
    assert len(told) == 1
    assert 'graph "main/F_0", node' in str(told[0].message)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert np.array_equal(np.asarray(exe(x)), x)
    with pytest.raises(onnxc.ModelError, match=f"is declared.*{reason}") as refused:
        onnxc.compile(model, strict=True)
    assert refused.value.code == "declared-type"


def test_what_a_function_declares_rightly_warns_of_nothing() -> None:
    # Names of sizes in a function are its own; with other sizes of inputs its numbers are as old as the inputs'.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxc.compile(model_from_text(BODY % "float[K, 4] h, float[B, C] b"), strict=True)
        fixed = model_from_text((BODY % "float[1, 4] h").replace("float[N, 4]", "float[1, 4]"))
        eight = onnxc.compile(fixed, shapes={"x": [8, 4]}, strict=True)
    assert [str(info) for info in eight.outputs] == ["y: f32[8, 4]"]


def test_shapes_that_are_right_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exe = onnxc.compile(model_from_text(MODELS["a size of an output"].replace("5", "4")), strict=True)
    assert [str(info) for info in exe.outputs] == ["y: f32[N, 4]"]


def test_the_command_prints_the_warning_and_strict_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model_from_text(MODELS["the rank of an output"]).SerializeToString())
    main(["compile", str(path)], standalone_mode=False)
    assert capsys.readouterr().err.startswith("warning[declared-type]: y is declared f32[N] and is f32[N, 4]")
    with pytest.raises(SystemExit):
        main(["compile", str(path), "--strict"], standalone_mode=False)
    assert capsys.readouterr().err.startswith("error[declared-type]")


def test_a_declared_rank_decides_between_ranks_that_could_be() -> None:
    model = model_from_text(f"""{HEADER} m (float[N] x, int64[K] s) => (float y) <float[A, B] turned> {{
      rows = Reshape (x, s) turned = Transpose (rows) y = Relu (turned)
    }}""")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exe = onnxc.compile(model)
    assert [info.shape is not None and len(info.shape) for info in exe.outputs] == [2]
    x = np.arange(6, dtype=np.float32)
    assert np.array_equal(np.asarray(exe(x, np.array([2, 3]))), x.reshape(2, 3).T)
