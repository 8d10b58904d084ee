"""The commands end to end: what they print, what they write, and their exit codes."""

import json
import re
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from onnxc.command_line.main import main
from onnxc.compiler.back_ends import back_end
from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import make_options
from onnxc.runtime.artifact import Artifact
from tests.decoding.models import summing
from tests.support.models import model_from_text


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "digits.onnx"
    with as_file(files("onnxc") / "data" / "digits.onnx") as shipped:
        path.write_bytes(shipped.read_bytes())
    return path


@pytest.fixture(scope="module")
def artifact(digits: Path) -> Path:
    path = digits.with_name("compiled.onnxc")
    assert onnxc("compile", digits, "--dim", "batch=1..64", "-o", path).exit_code == 0
    return path


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    node = helper.make_node("Relu", ["missing"], ["y"], "activate")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])
    path = tmp_path / "wrong.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([node], "main", [], [y]), ir_version=10).SerializeToString())
    return path


def onnxc(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_demo_reads_digits() -> None:
    result = onnxc("demo", "--threads", "1")
    assert result.exit_code == 0
    assert "accuracy     99.33%: 447 of 450 images" in result.output
    assert "█" in result.output


def test_compile_writes_beside_the_model(digits: Path) -> None:
    result = onnxc("compile", digits, "--report")
    assert (result.exit_code, result.stderr) == (0, "")
    assert digits.with_suffix(".onnxc").stat().st_size > 40_000
    assert "kernel" in result.output


def test_a_c_library_is_a_folder_of_files(digits: Path, tmp_path: Path) -> None:
    result = onnxc("compile", digits, "--emit", "c-library", "-o", tmp_path / "made" / "lib")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "libdigits.so, digits.h, CMakeLists.txt, 0." in result.output
    written = sorted(path.name for path in (tmp_path / "made" / "lib").iterdir())
    assert written == ["CMakeLists.txt", "digits.h", "libdigits.so"]
    for refused in (("--report",), ("--stop-after", "plan")):
        assert onnxc("compile", digits, "--emit", "c-library", *refused).exit_code == 2
    apart = onnxc("compile", digits, "--emit", "c-library", "--weights-file", "-o", tmp_path / "apart")
    assert (apart.exit_code, (tmp_path / "apart" / "digits.weights").is_file()) == (0, True)
    assert onnxc("compile", digits, "--weights-file").exit_code == 2


def test_an_artifact_is_no_folder(digits: Path, tmp_path: Path) -> None:
    result = onnxc("compile", digits, "-o", tmp_path)
    assert (result.exit_code, "is a folder, expected a file" in result.stderr) == (2, True)


def test_compiling_twice_gives_the_same_bytes(digits: Path, artifact: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.onnxc"
    assert onnxc("compile", digits, "--dim", "batch=1..64", "-o", again).exit_code == 0
    assert again.read_bytes() == artifact.read_bytes()


def test_sizes_get_kernels_of_their_own(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "special.onnxc"
    compiled = onnxc("compile", digits, "--specialize", "batch=1,8", "--report", "-o", path)
    assert compiled.exit_code == 0
    assert {"batch = 1", "batch = 8"} <= set(re.findall(r"batch = \d+", compiled.output))
    for batch in (1, 3):
        assert onnxc("run", path, "--dim", f"batch={batch}").exit_code == 0


def test_a_size_to_specialize_that_the_model_does_not_have(digits: Path) -> None:
    result = onnxc("compile", digits, "--specialize", "rows=1")
    assert result.exit_code == 1
    assert "specialize names 'rows', the symbolic sizes of the inputs are batch" in result.stderr


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("read", 'producer_name: "examples/train_digits.py"'),
        ("check", "x0 = ai.onnx.Div-14(pixels, white)"),
        ("lower", "function main(%pixels: f32[batch, 1, 8, 8])"),
        ("optimize", "function main(%pixels: f32[batch, 1, 8, 8])"),
        ("plan", 'plan "digits"'),
        ("emit", "// weights: "),
    ],
)
def test_stop_after_prints_the_noun(digits: Path, stage: str, text: str, tmp_path: Path) -> None:
    result = onnxc("compile", digits, "--stop-after", stage)
    assert result.exit_code == 0
    assert text in result.output
    output = tmp_path / "noun.txt"
    onnxc("compile", digits, "--stop-after", stage, "-o", output)
    assert output.read_text() == result.output


def test_run_draws_inputs_and_writes_outputs(artifact: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    result = onnxc("run", artifact, "--dim", "batch=3", "--repeat", "2", "-o", output)
    assert result.exit_code == 0
    assert "float32[3, 10]" in result.output
    assert "median of 2 calls" in result.output
    with np.load(output) as arrays:
        assert {name: (arrays[name].dtype, arrays[name].shape) for name in arrays} == {
            "probabilities": (np.float32, (3, 10))
        }


def test_run_draws_sparse_inputs_and_writes_the_parts_of_sparse_outputs(tmp_path: Path) -> None:
    path, output = tmp_path / "sparse.onnx", tmp_path / "out.npz"
    info = helper.make_value_info("s", helper.make_sparse_tensor_type_proto(TensorProto.DOUBLE, ["N", 3]))
    path.write_bytes(
        helper.make_model(helper.make_graph([], "main", [info], [info]), ir_version=10).SerializeToString()
    )
    assert "sparse(f64[N, 3])" in onnxc("inspect", path).output
    assert onnxc("run", path, "--dim", "N=2", "-o", output).exit_code == 0
    with np.load(output) as arrays:
        assert {name: (arrays[name].dtype, arrays[name].tolist()) for name in arrays if name != "s.values"} == {
            "s.indices": (np.int64, [0, 2, 4]),
            "s.shape": (np.int64, [2, 3]),
        }
        assert (arrays["s.values"].dtype, arrays["s.values"].shape) == (np.float64, (3,))


def test_run_takes_arrays_from_files(digits: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 1, 8, 8), np.float32))
    result = onnxc("run", digits, "--target", "interpreter", "--input", f"pixels=@{tmp_path / 'x.npy'}")
    assert result.exit_code == 0
    assert "float32[2, 10]" in result.output


def test_a_size_out_of_range_is_an_input_error(artifact: Path) -> None:
    result = onnxc("run", artifact, "--dim", "batch=65")
    assert result.exit_code == 1
    assert result.stderr.startswith("error[size-out-of-range]: ")


def test_check_counts_findings(digits: Path, wrong: Path) -> None:
    good, bad = onnxc("check", digits), onnxc("check", wrong)
    assert (good.exit_code, good.stdout, good.stderr) == (0, "", "digits.onnx: 0 errors, 0 warnings\n")
    assert bad.exit_code == 1
    assert '"activate"' in bad.stdout
    assert "wrong.onnx: 1 errors" in bad.stderr


def test_check_prints_json_of_one_form(digits: Path, wrong: Path) -> None:
    good, bad = onnxc("check", digits, "--json"), onnxc("check", wrong, "--json")
    assert (good.exit_code, good.stdout) == (0, "[]\n")
    assert bad.exit_code == 1
    assert json.loads(bad.stdout) == [
        {
            "severity": "error",
            "code": "undefined-name",
            "message": '"missing" is used and never defined',
            "location": {"graph": "main", "index": 0, "name": "activate", "operator": "ai.onnx.Relu"},
            "values": [],
            "rule": "ONNX IR, names within a graph",
        }
    ]


def test_check_prints_json_of_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"{}")
    result = onnxc("check", path, "--json")
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)
    assert (finding["severity"], finding["code"], finding["location"]) == ("error", "not-a-model", None)


def test_check_keeps_to_limits(digits: Path) -> None:
    result = onnxc("check", digits, "--limit", "name_bytes=2", "--limit", "tensor_rank=9")
    assert result.exit_code == 1
    assert "error[name-too-long]: " in result.stdout
    assert onnxc("check", digits, "--limit", "speed=1").stderr.startswith("error[unknown-limit]: ")


@pytest.mark.parametrize("command", ["compile", "run", "infer", "inspect"])
def test_a_wrong_model_is_a_diagnostic(command: str, wrong: Path) -> None:
    result = onnxc(command, wrong)
    assert result.exit_code == 1
    assert result.stderr.startswith("error[")
    assert '"activate"' in result.stderr


def test_infer_types_every_value(digits: Path, tmp_path: Path) -> None:
    assert "pooled: f32[batch, 16, 4, 4]\n" in onnxc("infer", digits).output
    fixed = onnxc("infer", digits, "--dim", "batch=2", "-o", tmp_path / "typed.onnx")
    assert (fixed.exit_code, fixed.output) == (0, "")
    typed = {value.name: value.type for value in onnx.load(tmp_path / "typed.onnx").graph.value_info}
    assert [size.dim_value for size in typed["pooled"].tensor_type.shape.dim] == [2, 16, 4, 4]


def test_infer_reports_ranks_that_data_decides(digits: Path, tmp_path: Path) -> None:
    assert onnxc("infer", digits, "--report").stdout.splitlines()[-1].endswith("values have a known rank")
    text = """<ir_version: 8, opset_import: ["": 17]> m (bool c, float[N, M] x) => (y) {
      y = If (c) < then_branch = t () => (a) { a = ReduceSum <keepdims = 0> (x) },
                   else_branch = e () => (b) { b = Neg (x) } > }"""
    path, typed = tmp_path / "branches.onnx", tmp_path / "typed.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    result = onnxc("infer", path, "--report", "-o", typed)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "y: f32[...]",
        '  ai.onnx.If-16 gives it a rank that data decides, at graph "main", node 0 (ai.onnx.If-16)',
        "4 of 5 values have a known rank",
    ]
    assert onnx.load(typed).graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


def test_infer_tells_where_weights_in_files_of_their_own_are(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> m (float[N, 8] x) => (y) { y = Mul (x, w) }'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(8, np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "elsewhere").mkdir()
    beside = onnxc("infer", tmp_path / "m.onnx", "-o", tmp_path / "typed.onnx")
    away = onnxc("infer", tmp_path / "m.onnx", "-o", tmp_path / "elsewhere" / "typed.onnx")
    assert (beside.exit_code, beside.stderr) == (0, "")
    assert away.exit_code == 0
    assert "put it there, or copy them" in away.stderr


CALLS = """<ir_version: 10, opset_import: ["": 21, "own": 1]>
m (float[N] x) => (float[N] y) { t = own.f (x) y = own.h (t) }
<domain: "own", opset_import: ["": 21]> f (a) => (b) { b = Neg (a) }
<domain: "own", opset_import: ["": 21]> h (a) => (b) { t = Exp (a) b = Abs (t) }"""


def test_inline_writes_a_model_without_functions(tmp_path: Path) -> None:
    path, inlined = tmp_path / "calls.onnx", tmp_path / "inlined.onnx"
    path.write_bytes(onnx.parser.parse_model(CALLS).SerializeToString())
    result = onnxc("inline", path, "-o", inlined)
    assert (result.exit_code, result.stdout) == (0, f"{inlined}: 3 nodes, 0 functions\n")
    assert [node.op_type for node in onnx.load(inlined).graph.node] == ["Neg", "Exp", "Abs"]
    result = onnxc("inline", path, "-o", inlined, "--function", "own.f")
    assert (result.exit_code, result.stdout) == (0, f"{inlined}: 2 nodes, 1 functions\n")
    assert [node.op_type for node in onnx.load(inlined).graph.node] == ["Neg", "h"]


def test_inline_keeps_to_limits_and_to_functions_that_there_are(tmp_path: Path) -> None:
    path, inlined = tmp_path / "calls.onnx", tmp_path / "inlined.onnx"
    calls = CALLS.replace("y = own.h (t)", "u = own.h (t) v = own.h (u) y = own.h (v)")
    path.write_bytes(onnx.parser.parse_model(calls).SerializeToString())
    limited = onnxc("inline", path, "-o", inlined, "--limit", "expanded_nodes=3")
    assert limited.exit_code == 1
    assert limited.stderr.startswith("error[expansion-too-large]: ")
    unknown = onnxc("inline", path, "-o", inlined, "--function", "own.g")
    assert unknown.exit_code == 1
    assert unknown.stderr.startswith("error[unknown-function]: ")
    assert not inlined.exists()
    assert onnxc("inline", path).exit_code == 2


def test_infer_prints_the_values_of_branches_with_their_place(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> m (bool c, float[N] x) => (y) {
      y = If (c) < then_branch = t () => (a) { a = Exp (x) }, else_branch = e () => (b) { b = Neg (x) } > }"""
    path = tmp_path / "branches.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert onnxc("infer", path).stdout.splitlines() == [
        "c: bool[]",
        "x: f32[N]",
        "main/If_0.then_branch: a: f32[N]",
        "main/If_0.else_branch: b: f32[N]",
        "y: f32[N]",
    ]


def test_inspect_tells_of_a_model_and_of_an_artifact(digits: Path, artifact: Path) -> None:
    model, compiled = onnxc("inspect", digits).output, onnxc("inspect", artifact).output
    assert "ai.onnx 18" in model
    assert "9,803 in 9 tensors" in model
    for text in (model, compiled):
        assert "f32[batch, 1, 8, 8]" in text
    assert "manifest.json" in compiled


def test_inspect_shows_annotations_for_quantization_with_their_ranges(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        m (float[N] x) => (y) <float x_scale = {0.002}, uint8 x_zero = {128}> { y = Exp (x) }"""
    )
    annotation = model.graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x_scale")
    annotation.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value="x_zero")
    path = tmp_path / "annotated.onnx"
    path.write_bytes(model.SerializeToString())
    lines = [line.split() for line in onnxc("inspect", path).output.splitlines()]
    assert ["annotated", "scale", "zero", "point", "type", "from", "to"] in lines
    assert ["x", "x_scale", "x_zero", "u8", "-0.256", "0.254"] in lines


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["load"],
        ["compile"],
        ["compile", "missing.onnx"],
        ["compile", "{model}", "--dim", "batch"],
        ["compile", "{model}", "--specialize", "batch=1..8"],
        ["compile", "{model}", "--stop-after", "later"],
        ["compile", "{model}", "--target", "interpreter"],
        ["run", "{model}", "--input", "pixels=@missing.npy"],
        ["run", "{model}", "--repeat", "0"],
    ],
)
def test_wrong_usage(arguments: list[str], digits: Path) -> None:
    assert onnxc(*(argument.format(model=digits) for argument in arguments)).exit_code == 2


@pytest.mark.parametrize("arguments", [["--help"], ["compile", "-h"], ["run", "--help"], ["--version"]])
def test_help(arguments: list[str]) -> None:
    result = onnxc(*arguments)
    assert result.exit_code == 0
    assert result.output.startswith(("Usage:", "onnxc, version"))


def test_report_prints_what_an_artifact_holds(artifact: Path) -> None:
    result = onnxc("report", artifact)
    assert result.exit_code == 0
    assert "algorithm" in result.stdout
    as_json = onnxc("report", artifact, "--json")
    assert "kernel k0" in json.loads(as_json.stdout)["plan"]


def test_report_refuses_what_is_no_artifact(digits: Path) -> None:
    result = onnxc("report", digits)
    assert result.exit_code == 1
    assert result.stderr.startswith("error[")


@pytest.mark.slow
def test_kernels_that_are_compiled_are_counted(digits: Path, tmp_path: Path) -> None:
    counts: list[tuple[int, int]] = []
    options = make_options("cuda:sm_90", cache=str(tmp_path))
    *_, (_, artifact) = run_stages(digits, options, back_end(options, lambda done, total: counts.append((done, total))))
    assert isinstance(artifact, Artifact)
    assert artifact.device is not None
    total = len(artifact.device.kernels)
    assert counts[0] == (0, total)
    assert counts[-1] == (total, total)
    counts.clear()
    list(run_stages(digits, options, back_end(options, lambda done, total: counts.append((done, total)))))
    assert counts == [(total, total)]


@pytest.mark.slow
def test_code_for_a_gpu_is_compiled_and_reported(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXC_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "digits.onnxc"
    result = onnxc("compile", digits, "--target", "cuda:sm_90", "-o", path, "--report")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "no transfer between host and device inside of a call" in result.stdout
    shown = onnxc("report", path)
    assert shown.exit_code == 0
    assert "by the cost model" in shown.stdout
    kernels = json.loads(onnxc("report", path, "--json").stdout)["kernels"]
    assert kernels
    assert all(kernel["registers"] > 8 and kernel["stack_bytes"] == 0 for kernel in kernels)
    assert "blocks per SM" in onnxc("inspect", path).stdout


@pytest.mark.parametrize("suffix", [".onnxtxt", ".textproto", ".json"])
def test_convert_to_a_text_and_back(suffix: str, digits: Path, tmp_path: Path) -> None:
    text, back = tmp_path / f"digits{suffix}", tmp_path / "back.onnx"
    assert (onnxc("convert", digits, text).exit_code, onnxc("convert", text, back).exit_code) == (0, 0)
    assert onnx.load(back) == onnx.load(digits)
    assert "Conv" in text.read_text()


def test_convert_tells_where_a_text_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "m.onnxtxt"
    path.write_text("g () => (\n")
    result = onnxc("convert", path, tmp_path / "m.onnx")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        1,
        "error[text-syntax]: line 2, column 1: expected a name, got the end of the text",
    )


def test_generate_prints_tokens_and_saves_the_decoder(tmp_path: Path) -> None:
    model, saved = tmp_path / "sums.onnx", tmp_path / "sums.onnxc"
    model.write_bytes(model_from_text(summing()).SerializeToString())
    written = onnxc("generate", model, "--tokens", "0,1", "--max-new", "3", "--save", saved)
    assert (written.exit_code, written.output) == (0, "2,2,2\n")
    sampled = ("--temperature", "1.5", "--seed", "2", "--max-new", "5", "--stop", "0")
    first, again = (onnxc("generate", saved, "--tokens", "0,1", *sampled).output for _ in range(2))
    assert first == again
    refused = onnxc("generate", saved, "--tokens", "0,x")
    assert (refused.exit_code, "session-tokens" in refused.stderr) == (1, True)


def test_generate_takes_a_target_and_saves_before_it_needs_the_device(tmp_path: Path) -> None:
    model, saved = tmp_path / "sums.onnx", tmp_path / "sums.onnxc"
    model.write_bytes(model_from_text(summing()).SerializeToString())
    refused = onnxc("generate", model, "--tokens", "0,1", "--target", "interpreter", "--save", saved)
    assert (refused.exit_code, "unsupported-decoder-target" in refused.stderr) == (1, True)
    assert not saved.exists()
    prompt = ("--tokens", "0,4,1", "--max-new", "2")
    written = onnxc("generate", model, *prompt, "--target", "cpu:x86-64-v2", "--save", saved)
    assert (written.exit_code, written.output) == (0, onnxc("generate", saved, *prompt).output)
    saved.unlink()
    # The tokens are refused when they are fed, behind what was compiled.
    failed = onnxc("generate", model, "--tokens", "99", "--save", saved)
    assert (failed.exit_code, saved.exists()) == (1, True)
