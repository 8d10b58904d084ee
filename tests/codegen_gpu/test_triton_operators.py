"""Custom operators whose body is Triton source, in models for GPUs: values, artifacts, what is refused."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import onnxc
from onnxc.compiler.frontend.custom.face import OperatorCall, ResultType
from onnxc.compiler.frontend.custom.operators import CustomOperator
from onnxc.runtime.errors import InputError, ModelError, UnsupportedError
from onnxc.runtime.load import read_artifact
from onnxc.runtime.program import Host
from tests.codegen_gpu.callers_code import AFFINE, CENTRED
from tests.onnxc.test_native_operators import AFFINE as AFFINE_LLVM
from tests.sharding.annotated import CONFIG, annotate
from tests.support import host_functions
from tests.support.fake_gpu import FakeRun, compile_for_fake
from tests.support.fake_gpus import compile_for_fakes
from tests.support.models import model_from_text

HEAD = '<ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]>\n'

EXTREMES = """
@triton.jit
def extremes(x, x_mask, low_mask, last_mask, n, low_n, last_n):
    low = tl.min(tl.where(x_mask, x, float("inf")), axis=1, keep_dims=True)
    is_last = tl.arange(0, x.shape[1])[None, :] == n - 1
    return low, tl.sum(tl.where(is_last, x, 0.0), axis=1, keep_dims=True)
"""

ADDED = """
@triton.jit
def added(x, offset, y, rows, columns, y_rows, y_columns):
    for row in range(rows):
        for column in range(columns):
            v = tl.load(x + row * columns + column)
            tl.store(y + column * rows + row, v + 10 * tl.load(offset))
"""


def like_input(node: OperatorCall) -> Sequence[ResultType]:
    x = node.input("x")
    return [(x.dtype, x.shape)]


def affine(triton: str = AFFINE, **options: object) -> CustomOperator:
    interface = {"inputs": ["x"], "outputs": ["y"], "attributes": {"scale": "float", "bias": "int"}}
    given = {"access": "elements", "types": like_input, "defaults": {"scale": 2, "bias": -1}, "triton": triton}
    return onnxc.custom_operator("Affine", "my.ops", **(interface | given | options))  # type: ignore[arg-type]


def extremes() -> CustomOperator:
    def types(node: OperatorCall) -> Sequence[ResultType]:
        x = node.input("x")
        return [("f64", (*x.shape[:-1], 1)), (x.dtype, (*x.shape[:-1], 1))]

    named = {"inputs": ["x"], "outputs": ["low", "last"]}
    return onnxc.custom_operator("Extremes", "my.ops", triton=EXTREMES, access="rows", types=types, **named)  # type: ignore[arg-type]


def added() -> CustomOperator:
    def types(node: OperatorCall) -> Sequence[ResultType]:
        x = node.input("x")
        return [(x.dtype, (x.shape[1], x.shape[0]))]

    named = {"inputs": ["x", "offset"], "outputs": ["y"]}
    return onnxc.custom_operator("Added", "my.ops", triton=ADDED, access="whole", types=types, **named)  # type: ignore[arg-type]


def model(nodes: str) -> ModelProto:
    return model_from_text(HEAD + nodes)


def on_gpu(nodes: str, *operators: CustomOperator) -> FakeRun:
    run = compile_for_fake(model(nodes), operators=operators or (affine(), extremes(), added()))
    assert not any(isinstance(step, Host) for step in run.artifact.program.body.steps)
    return run


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_elements_stand_between_kernels() -> None:
    nodes = (
        "g (float[A, B] x) => (float[B, A] y) { t = Tanh (x) h = my.ops.Affine <scale = 0.5> (t) y = Transpose (h) }"
    )
    run = on_gpu(nodes)
    for shape in ((0, 3), (1, 1), (33, 65)):
        x = floats(*shape)
        expected = (np.tanh(x) * np.float32(0.5) - 1).T
        np.testing.assert_allclose(run.executable(x), expected, rtol=1e-6, strict=True)
    run.driver.check()


@pytest.mark.parametrize(("scale", "bias"), [(float("inf"), 0), (float("-inf"), 3), (0.0, -(1 << 40)), (-0.0, 5)])
def test_attributes_are_numbers_of_any_size(scale: float, bias: int) -> None:
    operator = affine(defaults={"scale": scale, "bias": bias})
    graph = model("g (double[A] x) => (double[A] y) { y = my.ops.Affine (x) }")
    run = compile_for_fake(graph, operators=[operator])
    np.testing.assert_array_equal(run.executable(np.array([2.0])), [2.0 * scale + bias], strict=True)
    assert onnxc.compile(graph, "cuda:sm_90", operators=[operator], cache=False).report()["host_steps"] == []


def test_booleans_and_several_results_of_other_types() -> None:
    source = "@triton.jit\ndef both(x, y):\n    return x & y, x + 1\n"
    named = {"inputs": ["x", "z"], "outputs": ["a", "b"], "attributes": {}, "defaults": {}}

    def types(node: OperatorCall) -> Sequence[ResultType]:
        return [("bool", node.input("x").shape), ("i32", node.input("x").shape)]

    run = on_gpu(
        "g (bool[A] x, bool[A] z) => (bool[A] a, int32[A] b) { a, b = my.ops.Affine (x, z) }",
        affine(source.replace("x + 1", "x.to(tl.int32) + 1"), types=types, **named),
    )
    x, z = np.array([True, True, False]), np.array([True, False, True])
    a, b = run.executable(x, z)
    np.testing.assert_array_equal(a, x & z, strict=True)
    np.testing.assert_array_equal(b, x + np.int32(1), strict=True)


def test_rows_give_results_of_other_widths() -> None:
    run = on_gpu(
        "g (float[A, B, 7] x) => (double[A, B, 1] low, float[A, B, 1] last) { low, last = my.ops.Extremes (x) }"
    )
    for shape in ((0, 2, 7), (1, 1, 7), (20, 13, 7)):
        x = floats(*shape)
        low, last = run.executable(x)
        np.testing.assert_array_equal(low, x.min(-1, keepdims=True).astype(np.float64), strict=True)
        np.testing.assert_array_equal(last, x[..., -1:], strict=True)
    run.driver.check()


def test_the_whole_gets_pointers_and_sizes() -> None:
    run = on_gpu("g (int64[A, B] x, int64 offset) => (int64[B, A] y) { y = my.ops.Added (x, offset) }")
    for shape in ((0, 4), (1, 1), (3, 5)):
        x = np.arange(np.prod(shape)).reshape(shape)
        np.testing.assert_array_equal(run.executable(x, np.int64(-2)), x.T - 20, strict=True)


def test_a_loop_calls_it_in_each_round() -> None:
    run = on_gpu("""g (int64 trips, float[A] x) => (float[A] y) {
        y = Loop (trips, , x) <body = step (int64 i, bool c, float[A] v) => (bool d, float[A] w) {
            d = Identity (c)  w = my.ops.Affine (v)
        }>
    }""")
    np.testing.assert_array_equal(run.executable(np.int64(3), np.array([1, 2], np.float32)), [1, 9])


@pytest.mark.parametrize("access", ["elements", "rows"])
def test_devices_divide_what_the_access_says_is_independent(access: str) -> None:
    given = model("g (float[8, 6] x) => (float[8, 6] y) { y = my.ops.Affine (x) }")
    given.ir_version = 11
    given.configuration.add(name=CONFIG, num_devices=2)
    annotate(given.graph.node[0], "y", {0: 2}, range(2))
    head = "x, scale, bias" if access == "elements" else "x, x_mask, y_mask, n, m, scale, bias"
    operator = affine(AFFINE.replace("affine(x, scale, bias)", f"affine({head})"), access=access)
    run = compile_for_fakes(given, CONFIG, operators=[operator])
    x = floats(8, 6)
    np.testing.assert_array_equal(run.executable(x), 2 * x - 1, strict=True)


def test_an_artifact_needs_no_operator(tmp_path: Path) -> None:
    graph = model("g (float[A] x) => (float[A] y) { y = my.ops.Affine (x) }")
    exe = onnxc.compile(graph, "cuda:sm_90", operators=[affine()])
    exe.save(tmp_path / "a.onnxc")
    device = read_artifact(tmp_path / "a.onnxc").device
    assert device is not None
    (kernel,) = device.kernels
    assert "custom(" in kernel.source
    assert exe.report()["host_steps"] == []
    onnxc.compile(graph, "cuda:sm_90", operators=[affine()]).save(tmp_path / "b.onnxc")
    assert (tmp_path / "a.onnxc").read_bytes() == (tmp_path / "b.onnxc").read_bytes()


def test_a_target_takes_the_code_that_is_for_it() -> None:
    graph = model("g (float[A] x) => (float[A] y) { y = my.ops.Affine <scale = 3.0> (x) }")
    x = floats(5)
    both = affine(native=AFFINE_LLVM)
    np.testing.assert_array_equal(onnxc.compile(graph, operators=[both])(x), 3 * x - 1)
    np.testing.assert_array_equal(compile_for_fake(graph, operators=[both]).executable(x), 3 * x - 1)
    for target in ("cpu", "interpreter"):
        exe = onnxc.compile(graph, target, operators=[affine(host=host_functions.affine)])
        np.testing.assert_array_equal(exe(x), 3 * x - 1)
        with pytest.raises(UnsupportedError, match="host=") as problem:
            onnxc.compile(graph, target, operators=[affine()])(x)
        assert problem.value.code == "no-native-kernel"
    with pytest.raises(UnsupportedError, match="a CPU: it has no native="):
        onnxc.compile(graph, operators=[affine()])


@pytest.mark.parametrize(
    ("dtype", "size", "said"),
    [("float", "B", "theirs is B"), ("float", "9000", "have up to 9000"), ("float8e5m2", "2", "of type f8e5m2")],
)
def test_what_no_block_holds_is_refused_with_the_reason(dtype: str, size: str, said: str) -> None:
    outputs = f"double[A, 1] low, {dtype}[A, 1] last"
    with pytest.raises(UnsupportedError, match=said) as problem:
        on_gpu(f"g ({dtype}[A, {size}] x) => ({outputs}) {{ low, last = my.ops.Extremes (x) }}")
    assert problem.value.code == "no-native-kernel"


REFUSED = {
    "no text": (5, "is of type int"),
    "no Python": ("def affine(", "cannot be parsed"),
    "no function": ("", "has no function"),
    "an import": ("import os\n" + AFFINE.replace("\n    ", "\n"), "line 1, has an import outside of functions"),
    "a variable": ("A = 1\n", "line 1, has a statement outside of functions"),
    "no decorator": ("def affine(x, scale, bias):\n    return x\n", "expected @triton.jit over it"),
    "another decorator": ("@triton.autotune\ndef affine(x):\n    return x\n", "expected @triton.jit over it"),
    "two to call": (AFFINE.replace("_scaled", "scaled"), "it has affine, scaled"),
    "none to call": (AFFINE.replace("def affine", "def _affine"), "it has _affine, _scaled"),
    "one twice": (AFFINE + AFFINE, "none twice"),
    "an import within": ("@triton.jit\ndef f(x, scale, bias):\n    import os\n    return x\n", "line 3, has an import"),
    "a global": ("@triton.jit\ndef f(x, scale, bias):\n    global y\n    return x\n", "line 3, has a global variable"),
    "a lambda": ("@triton.jit\ndef f(x, scale, bias):\n    return (lambda: x)()\n", "has a function within a function"),
    "another module": ("@triton.jit\ndef f(x, scale, bias):\n    return os.abs(x)\n", "line 3, uses os, expected"),
    "a module of tl": (
        "@triton.jit\ndef f(x, scale, bias):\n    return tl.core.sys.exit(x)\n",
        "uses tl.core.sys.exit",
    ),
    "what is hidden": ("@triton.jit\ndef f(x, scale, bias):\n    return x.__class__\n", "begins with an underscore"),
    "a name of ours": ("@triton.jit\ndef f(x, scale, bias):\n    tl = x\n    return tl\n", "has a variable tl"),
    "a name of its own": ("@triton.jit\ndef f(x, scale, bias):\n    f = x\n    return f\n", "has a variable f"),
    "defaults": ("@triton.jit\ndef f(x, scale, bias=1):\n    return x\n", "must be plain names"),
    "any number": ("@triton.jit\ndef f(*x):\n    return x\n", "must be plain names"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_source_that_cannot_be_is_refused_when_the_operator_is_made(case: str) -> None:
    source, said = REFUSED[case]
    with pytest.raises(InputError) as problem:
        affine(source)  # type: ignore[arg-type]
    assert problem.value.code == "triton-code"
    assert "my.ops.Affine-1" in str(problem.value)
    assert said in str(problem.value)


@pytest.mark.parametrize(("access", "count"), [("elements", 3), ("rows", 7), ("whole", 8)])
def test_another_number_of_parameters_is_refused_at_the_node(access: str, count: int) -> None:
    source = "@triton.jit\ndef f(a, b):\n    return a\n"
    with pytest.raises(ModelError) as problem:
        on_gpu("g (float[A, 4] x) => (float[A, 4] y) { y = my.ops.Affine (x) }", affine(source, access=access))
    (finding,) = problem.value.diagnostics
    assert finding.code == "custom-operator-result"
    assert f"has 2 parameter(s), and {count} are given to it" in finding.message
    assert finding.location is not None


def test_declarations_that_cannot_be() -> None:
    for options, said in (
        ({"build": lambda node, ir: node.input("x")}, "has one body"),
        ({"access": "columns"}, "access is 'columns'"),
        ({"types": None}, "types= is for"),
        ({"attributes": {"scale": "floats"}, "defaults": {}}, "is of kind floats"),
        ({"inputs": ["x?"]}, "may be left out"),
    ):
        with pytest.raises(InputError, match=said) as problem:
            affine(CENTRED, **options)
        assert problem.value.code == "custom-operator"
