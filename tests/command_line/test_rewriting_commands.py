"""The commands that write models, `onnxc schema`, and the options `--operators` and `--allow-links`."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import numpy_helper

import onnxc
from onnxc.command_line.main import main

TEXT = """<ir_version: 10, opset_import: ["": 18]>
g (float[N, 8] x) => (float[N, 8] y, float[N, 8] z) {
  [product] h = Mul (x, w)
  y = Exp (h)
  z = Neg (x)
}"""
W = np.linspace(-1, 1, 8).astype(np.float32)
BIG = np.linspace(0, 1, 512, dtype=np.float32)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def written(path: Path, text: str = TEXT, w: np.ndarray = W) -> Path:
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "m.onnx")


def values(path: Path) -> tuple[list[str], list[str]]:
    graph = onnx.load(path).graph
    return [value.name for value in graph.input], [value.name for value in graph.output]


def test_extract_writes_a_part(model: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.onnx"
    result = run("extract", model, "-o", part, "--from", "h", "--to", "y")
    assert (result.exit_code, result.stdout) == (0, f"{part}: 1 nodes, h -> y\n")
    assert values(part) == (["h"], ["y"])
    assert run("extract", model, "-o", part, "--to", "z").exit_code == 0
    assert values(part) == (["x"], ["z"])


def test_rename_gives_a_prefix_to_nodes_alone(model: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.onnx"
    assert run("rename", model, "-o", renamed, "--node-prefix", "n/").exit_code == 0
    assert values(renamed) == values(model)
    names = [[node.name for node in onnx.load(path).graph.node] for path in (model, renamed)]
    assert names == [["product", "", ""], ["n/product", "", ""]]


def test_repair_puts_nodes_in_order(model: Path, tmp_path: Path) -> None:
    late, ordered = tmp_path / "late.onnx", tmp_path / "sorted.onnx"
    message = onnx.load(model)
    nodes = list(message.graph.node)
    del message.graph.node[:]
    message.graph.node.extend(reversed(nodes))
    onnx.save(message, late)
    failed = run("check", late)
    assert failed.exit_code == 1
    assert "`onnxc repair`" in failed.output
    assert run("repair", late, "-o", ordered).exit_code == 0
    assert run("check", ordered).exit_code == 0
    assert values(ordered) == values(model)


def test_split_rename_and_merge_give_the_model_again(model: Path, tmp_path: Path) -> None:
    first, second, renamed, whole = (tmp_path / f"{name}.onnx" for name in ("first", "second", "renamed", "whole"))
    assert run("split", model, "--at", "h", "-o", first, second).exit_code == 0
    assert (values(first), values(second)) == ((["x"], ["h", "z"]), (["h"], ["y"]))
    result = run("rename", second, "-o", renamed, "--prefix", "b/", "--value", "b/y=scores")
    assert (result.exit_code, values(renamed)) == (0, (["b/h"], ["scores"]))
    assert run("merge", first, renamed, "-o", whole, "--link", "h=b/h").exit_code == 0
    x = np.ones((2, 8), np.float32)
    z, y = onnxc.compile(whole, "interpreter")(x)
    np.testing.assert_array_equal(z, -x)
    np.testing.assert_allclose(y, np.exp(x * W), rtol=1e-6)


def test_parts_of_a_model_are_merged_with_what_both_need(tmp_path: Path) -> None:
    first, second, whole = (tmp_path / f"{name}.onnx" for name in ("first", "second", "whole"))
    model = tmp_path / "model.onnxtxt"
    model.write_text("""<ir_version: 10, opset_import: ["": 21]> g (float[2] x, float[2] w) => (float[2] y) {
        h = Mul (x, w) y = Sub (h, w)
    }""")
    assert run("split", model, "--at", "h", "-o", first, second).exit_code == 0
    assert run("merge", first, second, "-o", whole, "--link", "h=h").exit_code == 1
    assert run("merge", first, second, "-o", whole, "--link", "h=h", "--shared", "w").exit_code == 0
    assert values(whole) == (["x", "w"], ["y"])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["extract", "--to", "none"], 1, "none"),
        (["extract"], 2, "--to"),
        (["rename"], 2, "says what to rename"),
        (["rename", "--value", "h=a", "--value", "h=b"], 2, "given twice"),
        (["rename", "--value", "h"], 2, "is not of the form OLD=NEW"),
        (["rename", "--value", "h=y"], 1, "y"),
        (["convert", "--external-data", "w.data"], 2, "is a text"),
    ],
)
def test_what_cannot_be_written(arguments: list[str], code: int, message: str, model: Path, tmp_path: Path) -> None:
    command, *options = arguments
    out = tmp_path / "out.json"
    result = run(command, model, *([out] if command == "convert" else ["-o", out]), *options)
    assert (result.exit_code, message in result.stderr, out.exists()) == (code, True, False)


def test_both_parts_in_one_file_or_none_to_write_to(model: Path, tmp_path: Path) -> None:
    same = run("split", model, "--at", "h", "-o", tmp_path / "a.onnx", tmp_path / "a.onnx")
    assert (same.exit_code, "both parts" in same.stderr) == (2, True)
    missing = run("convert", model, tmp_path / "missing" / "m.onnx")
    assert (missing.exit_code, "No such file" in missing.stderr) == (1, True)


@pytest.mark.parametrize("opset", [None, 21])
def test_convert_moves_weights_into_a_file(opset: int | None, tmp_path: Path) -> None:
    source = written(tmp_path / "m.onnx", TEXT.replace("N, 8]", "N, 512]"), BIG)
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / "m.onnx"
    result = run("convert", source, out, "--external-data", "m.data", *(["--opset", opset] if opset else []))
    assert (result.exit_code, result.stderr) == (0, "")
    assert out.stat().st_size < BIG.nbytes == out.with_name("m.data").stat().st_size
    made = onnx.load(out)
    np.testing.assert_array_equal(numpy_helper.to_array(made.graph.initializer[0]), BIG)
    assert made.opset_import[0].version == (opset or 18)


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A model whose weights are behind a link, as in a cache of models."""
    text = TEXT.replace("N, 8]", "N, 512]")
    written(tmp_path / "whole.onnx", text, BIG)
    (tmp_path / "blobs").mkdir()
    onnxc.save_model(tmp_path / "whole.onnx", tmp_path / "m.onnx", external_data="w.data")
    (tmp_path / "w.data").rename(tmp_path / "blobs" / "1")
    (tmp_path / "w.data").symlink_to(tmp_path / "blobs" / "1")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize(
    "command",
    [
        ["check", "{model}"],
        ["infer", "{model}"],
        ["inline", "{model}", "-o", "{out}"],
        ["compile", "{model}", "-o", "{out}"],
        ["run", "{model}", "--target", "interpreter"],
        ["convert", "{model}", "{out}", "--opset", "21"],
        ["convert", "{model}", "{out}", "--external-data", "out.data"],
        ["convert", "{model}", "{out}", "--external-data", "out.data", "--opset", "21"],
    ],
    ids=lambda command: " ".join(word for word in command if "{" not in word),
)
def test_links_are_followed_where_that_is_asked_for(command: list[str], linked: Path, tmp_path: Path) -> None:
    arguments = [word.format(model=linked, out=tmp_path / "out.onnx") for word in command]
    refused = run(*arguments)
    assert (refused.exit_code, "external-data-link" in refused.output) == (1, True)
    allowed = run(*arguments, "--allow-links")
    assert (allowed.exit_code, "error" in allowed.output.replace("0 errors", "")) == (0, False)


OPERATORS = """
import onnxc

def _swish(node, ir):
    x = node.input("x")
    return ir.mul(x, ir.sigmoid(x))

swish = onnxc.custom_operator("Swish", "my.ops", inputs=["x"], outputs=["y"], build=_swish)
every = [swish]
"""
SWISH = '<ir_version: 10, opset_import: ["": 21, "my.ops": 1]> g (float[N] x) => (float[N] y) { y = my.ops.Swish (x) }'


@pytest.fixture
def swish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model with an operator that a module of the working folder has; sys.path is as before afterwards."""
    (tmp_path / "onnxc_test_swish.py").write_text(OPERATORS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "none")
    path = tmp_path / "swish.onnx"
    path.write_bytes(onnx.parser.parse_model(SWISH).SerializeToString())
    return path


@pytest.mark.parametrize("name", ["swish", "every"])
def test_operators_of_a_module(name: str, swish: Path) -> None:
    operators = ("--operators", f"onnxc_test_swish:{name}")
    assert "unknown-domain" in run("check", swish).output
    assert run("check", swish, *operators).stdout == ""
    assert run("infer", swish, *operators).stdout.splitlines() == ["x: f32[N]", "y: f32[N]"]
    assert run("compile", swish, *operators, "-o", "swish.onnxc").exit_code == 0
    ran = run("run", swish, *operators, "--target", "interpreter", "--input", "x=[0, 2]", "-o", "out.npz")
    assert ran.exit_code == 0
    np.testing.assert_allclose(np.load("out.npz")["y"], [0, 2 / (1 + np.exp(-2))], rtol=1e-6)
    assert run("run", "swish.onnxc").exit_code == 0
    assert "compiled already" in run("run", "swish.onnxc", *operators).stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("swish", "is not of the form MODULE:NAME"),
        ("onnxc_test_swish:none", "AttributeError"),
        ("onnxc_test_missing:swish", "ModuleNotFoundError"),
        ("json:dumps", "is of type function"),
    ],
)
def test_operators_that_are_none(text: str, message: str, swish: Path) -> None:
    result = run("check", swish, "--operators", text)
    assert (result.exit_code, message in result.stderr) == (2, True)


def test_schema_prints_an_operator() -> None:
    lines = [line.split() for line in run("schema", "Gather").stdout.splitlines()]
    assert lines[:2] == [["ai.onnx.Gather-13"], ["versions", "1,", "11,", "13"]]
    assert ["indices", "Tind", "once"] in lines
    assert ["axis", "int", "0"] in lines
    assert ["Tind", "tensor(int32),", "tensor(int64)"] in lines
    assert run("schema", "Gather", "--opset", "11").stdout.startswith("ai.onnx.Gather-11\n")
    assert run("schema", "com.microsoft.Gelu").stdout.startswith("com.microsoft.Gelu-1\n")
    assert run("schema", "Concat").stdout.count("1 or more") == 1


def test_schema_of_no_operator() -> None:
    unknown = run("schema", "layernormalisation")
    assert (unknown.exit_code, "LayerNormalization" in unknown.stderr) == (2, True)
    older = run("schema", "LayerNormalization", "--opset", "16")
    assert (older.exit_code, "ai.onnx.LayerNormalization-1 " in older.stderr) == (2, False)
    assert "ai.onnx.LayerNormalization-17 is the oldest version" in older.stderr
