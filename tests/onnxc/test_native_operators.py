"""Custom operators whose body is LLVM IR: each access, where they stand in models, artifacts, and what is refused."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import onnxc
from onnxc.compiler.c_library import c_library, write_files
from onnxc.compiler.frontend.custom.face import OperatorCall, ResultType
from onnxc.compiler.frontend.custom.operators import CustomOperator
from onnxc.compiler.options import make_options
from onnxc.runtime.errors import InputError, ModelError, UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import read_artifact
from tests.decoding.models import summing
from tests.sharding.annotated import CONFIG, annotate
from tests.support import host_functions
from tests.support.c_library import CModel
from tests.support.models import model_from_text


def looped(head: str, body: str, before: str = "") -> str:
    """A function that does `body` for every %i below %n."""
    return f"""
    define {head} {{
    entry:
      {before}
      br label %head
    head:
      %i = phi i64 [0, %entry], [%next, %body]
      %more = icmp slt i64 %i, %n
      br i1 %more, label %body, label %end
    body:
      {body}
      %next = add i64 %i, 1
      br label %head
    end:
      ret void
    }}
    """


AFFINE_HEAD = "void @affine(ptr %x, ptr %y, i64 %n, double %scale, i64 %bias)"
AFFINE = looped(
    AFFINE_HEAD,
    """%from = getelementptr float, ptr %x, i64 %i
      %v = load float, ptr %from
      %scaled = fmul float %v, %factor
      %sum = fadd float %scaled, %added
      %to = getelementptr float, ptr %y, i64 %i
      store float %sum, ptr %to""",
    "%factor = fptrunc double %scale to float  %added = sitofp i64 %bias to float",
)
"""y = scale x + bias, element by element."""

EXTREMES = """
define void @extremes(ptr %x, ptr %low, ptr %last, i64 %rows, i64 %n, i64 %one, i64 %single) {
entry:
  br label %head
head:
  %r = phi i64 [0, %entry], [%next, %store]
  %more = icmp slt i64 %r, %rows
  br i1 %more, label %row, label %end
row:
  %start = mul i64 %r, %n
  br label %inner
inner:
  %k = phi i64 [0, %row], [%k1, %body]
  %least = phi double [0x7FF0000000000000, %row], [%less, %body]
  %final = phi double [0.0, %row], [%v, %body]
  %in = icmp slt i64 %k, %n
  br i1 %in, label %body, label %store
body:
  %at = add i64 %start, %k
  %from = getelementptr double, ptr %x, i64 %at
  %v = load double, ptr %from
  %less = call double @llvm.minnum.f64(double %least, double %v)
  %k1 = add i64 %k, 1
  br label %inner
store:
  %a = getelementptr double, ptr %low, i64 %r
  store double %least, ptr %a
  %b = getelementptr double, ptr %last, i64 %r
  store double %final, ptr %b
  %next = add i64 %r, 1
  br label %head
end:
  ret void
}
declare double @llvm.minnum.f64(double, double)
"""
"""The least and the last element of each row."""

WEIGHTED = """
@weights = constant [2 x i64] [i64 1, i64 10]
define internal i64 @weighted(i64 %v, i64 %axis) {
  %at = getelementptr [2 x i64], ptr @weights, i64 0, i64 %axis
  %w = load i64, ptr %at
  %r = mul i64 %v, %w
  ret i64 %r
}
"""

TURNED = WEIGHTED + looped(
    "void @turned(ptr %x, ptr %offset, ptr %y, i64 %rows, i64 %columns, i64 %c, i64 %r)",
    """%row = sdiv i64 %i, %columns
      %column = srem i64 %i, %columns
      %from = getelementptr i64, ptr %x, i64 %i
      %v = load i64, ptr %from
      %sum = add i64 %v, %ten
      %first = mul i64 %column, %rows
      %at = add i64 %first, %row
      %to = getelementptr i64, ptr %y, i64 %at
      store i64 %sum, ptr %to""",
    """%o = load i64, ptr %offset
      %ten = call i64 @weighted(i64 %o, i64 1)
      %n = mul i64 %rows, %columns""",
)
"""The transpose of x, plus ten times the offset."""

HEAD = '<ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]>\n'


def like_input(node: OperatorCall) -> Sequence[ResultType]:
    x = node.input("x")
    return [(x.dtype, x.shape)]


def affine(llvm: str = AFFINE, **options: object) -> CustomOperator:
    interface = {"inputs": ["x"], "outputs": ["y"], "attributes": {"scale": "float", "bias": "int"}}
    given = {"access": "elements", "types": like_input, "defaults": {"scale": 2, "bias": -1}}
    return onnxc.custom_operator("Affine", "my.ops", native=llvm, **(interface | given | options))  # type: ignore[arg-type]


def extremes() -> CustomOperator:
    def types(node: OperatorCall) -> Sequence[ResultType]:
        x = node.input("x")
        return [("f64", (*x.shape[:-1], 1)), ("f64", (*x.shape[:-1], 1))]

    named = {"inputs": ["x"], "outputs": ["low", "last"]}
    return onnxc.custom_operator("Extremes", "my.ops", native=EXTREMES, access="rows", types=types, **named)  # type: ignore[arg-type]


def turned() -> CustomOperator:
    def types(node: OperatorCall) -> Sequence[ResultType]:
        x = node.input("x")
        return [("i64", (x.shape[1], x.shape[0]))]

    named = {"inputs": ["x", "offset"], "outputs": ["y"]}
    return onnxc.custom_operator("Turned", "my.ops", native=TURNED, access="whole", types=types, **named)  # type: ignore[arg-type]


OPERATORS = (affine(), extremes(), turned())


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def compiled(nodes: str, threads: int = 1, operators: Sequence[CustomOperator] = OPERATORS) -> Executable:
    return onnxc.compile(model(nodes), threads=threads, operators=operators)


def model(nodes: str) -> ModelProto:
    return model_from_text(HEAD + nodes)


@pytest.mark.parametrize("threads", [1, 2])
def test_elements_are_computed_at_any_size(threads: int) -> None:
    exe = compiled("g (float[A, B] x) => (float[A, B] y) { y = my.ops.Affine <scale = 0.5> (x) }", threads)
    for shape in ((0, 3), (1, 1), (3, 5), (300, 257)):
        x = floats(*shape)
        np.testing.assert_array_equal(exe(x), x * np.float32(0.5) - 1, strict=True)
    scalar = compiled("g (float x) => (float y) { y = my.ops.Affine (x) }", threads)
    np.testing.assert_array_equal(scalar(np.float32(3)), np.float32(5))


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_are_computed_with_several_results(threads: int) -> None:
    nodes = "g (double[A, B, C] x) => (double[A, B, 1] low, double[A, B, 1] last) { low, last = my.ops.Extremes (x) }"
    exe = compiled(nodes, threads)
    for shape in ((0, 2, 3), (2, 3, 1), (40, 50, 7)):
        x = floats(*shape).astype(np.float64)
        low, last = exe(x)
        np.testing.assert_array_equal(low, x.min(-1, keepdims=True), strict=True)
        np.testing.assert_array_equal(last, x[..., -1:], strict=True)
    low, last = exe(np.zeros((2, 2, 0)))
    np.testing.assert_array_equal((low, last), (np.full((2, 2, 1), np.inf), np.zeros((2, 2, 1))))


def test_the_whole_is_computed_once_with_all_sizes() -> None:
    exe = compiled("g (int64[A, B] x, int64 offset) => (int64[B, A] y) { y = my.ops.Turned (x, offset) }", 2)
    for shape in ((0, 4), (1, 1), (3, 5)):
        x = np.arange(np.prod(shape)).reshape(shape)
        np.testing.assert_array_equal(exe(x, np.int64(-2)), x.T - 20, strict=True)


def test_operands_that_are_moved_computed_or_constant_come_dense() -> None:
    nodes = """g (float[A, 6] x) => (float[3, A] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
        t = Transpose <perm = [1, 0]> (x)  two = Constant <value_ints = [2]> ()  steps = Constant <value_ints = [0]> ()
        six = Constant <value_ints = [6]> ()
        part = Slice (t, steps, six, steps, two)
        moved = my.ops.Affine (part)
        fixed = my.ops.Affine <bias = 3> (w)
        one = Constant <value_ints = [1]> ()
        sums = ReduceSum (fixed, one)
        negated = Neg (moved)
        again = my.ops.Affine <scale = 1.0, bias = 0> (negated)
        y = Add (again, sums)
    }"""
    x = floats(4, 6)
    w = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    expected = -(x.T[::2] * np.float32(2) - 1) + (2 * w + 3).sum(1, keepdims=True)
    np.testing.assert_allclose(compiled(nodes)(x), expected, rtol=1e-6)


def test_a_loop_with_such_an_operator_is_native() -> None:
    nodes = """g (int64 trips, float[A] x) => (float[A] y) {
        y = Loop (trips, , x) <body = step (int64 i, bool c, float[A] v) => (bool d, float[A] w) {
            d = Identity (c)  w = my.ops.Affine (v)
        }>
    }"""
    exe = compiled(nodes)
    np.testing.assert_array_equal(exe(np.int64(3), np.array([1, 2], np.float32)), [1, 9])
    assert exe.report()["host_steps"] == []


@pytest.mark.parametrize("access", ["elements", "rows", "whole"])
def test_a_decoder_computes_the_last_row_of_such_an_operator(access: str) -> None:
    """Alone where elements or rows are independent, else with all others."""
    sizes = {"elements": "", "rows": ", i64 %c, i64 %d", "whole": ", i64 %s, i64 %c, i64 %d, i64 %e, i64 %f"}[access]
    head = f"void @affine(ptr %x, ptr %y, i64 %r{sizes}, double %scale, i64 %bias)"
    units = {"elements": "%n = add i64 %r, 0", "rows": "%n = mul i64 %r, %c"}
    counted = units.get(access, "%m = mul i64 %r, %s  %n = mul i64 %m, %c")
    code = AFFINE.replace(AFFINE_HEAD, head).replace("entry:", f"entry:\n {counted}")
    text = summing().replace('["" : 21]', '["" : 21, "my.ops" : 1]')
    text = text.replace("logits = MatMul (row, head)", "h = MatMul (row, head) logits = my.ops.Affine (h)")
    plain, own = (
        onnxc.compile_decoder(model_from_text(each), operators=[affine(code, access=access)])
        for each in (summing(), text)
    )
    np.testing.assert_array_equal(own.session().feed([0, 1]), 2 * plain.session().feed([0, 1]) - 1, strict=True)


def test_an_artifact_needs_no_operator(tmp_path: Path) -> None:
    exe, x = compiled("g (float[A] x) => (float[A] y) { y = my.ops.Affine (x) }"), floats(9)
    exe.save(tmp_path / "a.onnxc")
    for again in (onnxc.load(tmp_path / "a.onnxc"), pickle.loads(pickle.dumps(exe))):
        np.testing.assert_array_equal(again(x), 2 * x - 1)
    compiled("g (float[A] x) => (float[A] y) { y = my.ops.Affine (x) }").save(tmp_path / "b.onnxc")
    assert (tmp_path / "a.onnxc").read_bytes() == (tmp_path / "b.onnxc").read_bytes()


def test_a_c_library_has_the_code_in_it(tmp_path: Path) -> None:
    source = model("g (float[N] x) => (float[N] y) { y = my.ops.Affine <scale = 0.5> (x) }").SerializeToString()
    write_files(c_library(source, make_options("cpu", operators=[affine()]), "m"), tmp_path)
    library, x = CModel(tmp_path, [(np.float32, 1)]), floats(5)
    (result,) = library.run(x)
    np.testing.assert_array_equal(result, x * np.float32(0.5) - 1)
    library.close()


def test_where_the_code_is_not_for_the_target_the_function_on_the_host_stands_in() -> None:
    graph = model("g (float[A] x) => (float[A] y) { y = my.ops.Affine <scale = 3.0> (x) }")
    x = floats(5)
    exe = onnxc.compile(graph, "interpreter", operators=[affine(host=host_functions.affine)])
    np.testing.assert_array_equal(exe(x), host_functions.affine(x, 3.0, -1))
    on_gpu = onnxc.compile(graph, "cuda:sm_90", operators=[affine(host=host_functions.affine)])
    assert "my.ops.Affine-1" in str(on_gpu.report()["host_steps"])
    for target in ("interpreter", "cuda:sm_90"):
        with pytest.raises(UnsupportedError, match="host=") as problem:
            onnxc.compile(graph, target, operators=[affine()])(x)
        assert problem.value.code == "no-native-kernel"


ALIAS = "@another = alias void (ptr, ptr, i64, double, i64), ptr @affine"

REFUSED = {
    "no IR": ("define nonsense", "LLVM refuses it"),
    "another signature": (
        AFFINE.replace(", double %scale, i64 %bias", ", i64 %bias, double %scale"),
        "is void @affine(ptr, ptr, i64, i64, double), expected void @affine(ptr, ptr, i64, double, i64)",
    ),
    "any number of arguments": (AFFINE.replace("i64 %bias)", "i64 %bias, ...)"), "(ptr, ptr, i64, double, i64, ...)"),
    "a result": (AFFINE.replace("void @", "i64 @").replace("ret void", "ret i64 0"), "expected void @affine(ptr, ptr"),
    "another way to be called": (AFFINE.replace("define", "define fastcc"), "is fastcc, expected"),
    "another way to be linked": (AFFINE.replace("define", "define linkonce_odr"), "is linkonce_odr, expected"),
    "another way to be passed": (AFFINE.replace("(ptr %x", "(ptr byval(i64) %x"), "is byval, expected"),
    "no function": ("@a = constant i32 1", "has none"),
    "two functions": (AFFINE + "define void @other() { ret void }", "has @affine, @other"),
    "another name for it": (AFFINE + ALIAS, "has @another beside its function"),
    "a variable": (AFFINE + "@state = internal global i64 0", "@state is a variable"),
    "a variable of others": (AFFINE + "@environ = external global ptr", "@environ is a variable"),
    "assembly": (AFFINE + '  module asm "nop"', "assembly outside of functions"),
    "a function of nobody": (
        AFFINE.replace("ret void", "call void @getenv(ptr %x) ret void") + "declare void @getenv(ptr)",
        "only libm, memcpy and its like are there: undefined symbols: getenv",
    ),
    "what ends LLVM": (
        AFFINE.replace("ret void", 'call void asm sideeffect "nop", ""() ret void'),
        "was ended by signal",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_code_that_cannot_be_is_refused_with_the_operator(case: str) -> None:
    text, said = REFUSED[case]
    with pytest.raises(InputError, match="Affine-1") as problem:
        compiled("g (float[A] x) => (float[A] y) { y = my.ops.Affine (x) }", operators=[affine(text)])
    assert problem.value.code == "native-code"
    assert said in str(problem.value)


def wrong_shape(node: OperatorCall) -> Sequence[ResultType]:
    return [("f32", (*node.input("x").shape, 2))]


def unknown_size(node: OperatorCall) -> Sequence[ResultType]:
    return [("f32", (None,))]


@pytest.mark.parametrize(
    ("access", "types", "said"),
    [
        ("elements", wrong_shape, "must have one shape: they are [A], [A, 2]"),
        ("rows", wrong_shape, "all but the last alike"),
        ("whole", unknown_size, "which native code must know"),
    ],
)
def test_shapes_that_do_not_suit_the_access_are_refused_at_the_node(
    access: str, types: Callable[[OperatorCall], Sequence[ResultType]], said: str
) -> None:
    with pytest.raises(ModelError) as problem:
        compiled(
            "g (float[A] x) => (float[B] y) { y = my.ops.Affine (x) }", operators=[affine(access=access, types=types)]
        )
    (finding,) = problem.value.diagnostics
    assert finding.code == "custom-operator-result"
    assert said in finding.message
    assert finding.location is not None


COPIED = """
define void @copied(ptr %x, ptr %y, i64 %n, i64 %size) {
  %bytes = mul i64 %n, %size
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %x, i64 %bytes, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def copied() -> CustomOperator:
    named = {"inputs": ["x"], "outputs": ["y"], "attributes": {"size": "int"}}
    return onnxc.custom_operator("Copied", "my.ops", native=COPIED, access="elements", types=like_input, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "size"),
    [("bool", 1), ("uint4", 1), ("float8e4m3fn", 1), ("float16", 2), ("bfloat16", 2), ("complex64", 8)],
)
def test_elements_of_any_type_of_numbers_lie_as_in_numpy(name: str, size: int) -> None:
    nodes = f"g ({name}[N] x) => ({name}[N] y) {{ y = my.ops.Copied <size = {size}> (x) }}"
    exe = compiled(nodes, operators=[copied()])
    dtype = exe.inputs[0].dtype
    assert dtype is not None
    x = np.array([1, 0, 1]).astype(dtype)
    np.testing.assert_array_equal(exe(x), x, strict=True)


def test_texts_are_refused_at_the_node() -> None:
    with pytest.raises(ModelError, match="takes and gives no texts"):
        compiled("g (string[N] x) => (string[N] y) { y = my.ops.Copied <size = 8> (x) }", operators=[copied()])


def test_an_operator_may_have_no_input() -> None:
    text = looped("void @filled(ptr %y, i64 %n)", "%to = getelementptr float, ptr %y, i64 %i store float 3.0, ptr %to")
    operator = onnxc.custom_operator(
        "Filled", "my.ops", outputs=["y"], native=text, access="elements", types=lambda node: [("f32", (4,))]
    )
    nodes = "g (float[4] x) => (float[4] y, float[4] z) { f = my.ops.Filled () y = Add (x, f) z = Mul (x, f) }"
    y, z = compiled(nodes, operators=[operator])(np.full(4, 2, np.float32))
    np.testing.assert_array_equal((y, z), (np.full(4, 5), np.full(4, 6)))


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_precision_changes_no_type_of_such_an_operator(precision: str) -> None:
    nodes = """g (float[A, 2] x) => (float[A, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
        h = MatMul (x, w) a = my.ops.Affine (h) y = Neg (a) }"""
    exe = onnxc.compile(model(nodes), precision=precision, operators=OPERATORS)
    np.testing.assert_array_equal(exe(np.ones((1, 2), np.float32)), [[-7, -11]])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"access": "columns"}, "one of elements, rows, whole"),
        ({"native": 5}, "expected a text"),
        ({"types": None}, "types="),
        ({"inputs": ["x?"]}, "may be left out"),
        ({"attributes": {"scale": "floats", "bias": "int"}, "defaults": {"bias": 0}}, "is of kind floats"),
        ({"attributes": {"scale?": "float"}, "defaults": {}}, "has no value in defaults"),
        ({"build": lambda node, ir: node.input("x")}, "has one body"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(options: dict[str, object], said: str) -> None:
    native = options.pop("native", AFFINE)
    with pytest.raises(InputError, match="custom-operator") as problem:
        affine(native, **options)  # type: ignore[arg-type]
    assert said in str(problem.value)


SIZES = {
    "elements": ("i64 %n", ""),
    "rows": ("i64 %r, i64 %c, i64 %d", "%n = mul i64 %r, %c"),
    "whole": ("i64 %r, i64 %c, i64 %d, i64 %e", "%n = mul i64 %r, %c"),
}


def doubled(access: str) -> CustomOperator:
    """y = 2 x, for matrices."""
    sizes, count = SIZES[access]
    body = """%from = getelementptr float, ptr %x, i64 %i
      %v = load float, ptr %from
      %sum = fadd float %v, %v
      %to = getelementptr float, ptr %y, i64 %i
      store float %sum, ptr %to"""
    text = looped(f"void @doubled(ptr %x, ptr %y, {sizes})", body, count)
    named = {"inputs": ["x"], "outputs": ["y"]}
    return onnxc.custom_operator("Doubled", "my.ops", native=text, access=access, types=like_input, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "block"), [(8, 2), (6, 6)])
@pytest.mark.parametrize("access", SIZES)
def test_devices_divide_what_the_access_says_is_independent(access: str, rows: int, block: int) -> None:
    """Four devices; blocks that are not all full are not for code of which nobody knows what it does beyond them."""
    given = model(f"g (float[{rows}, 6] x) => (float[{rows}, 6] y) {{ y = my.ops.Doubled (x) }}")
    given.ir_version = 11
    given.configuration.add(name=CONFIG, num_devices=4)
    annotate(given.graph.node[0], "y", {0: 4}, range(4))
    exe = onnxc.compile(given, config=CONFIG, devices="cpu:4", operators=[doubled(access)])
    x = floats(rows, 6)
    np.testing.assert_array_equal(exe(x), 2 * x, strict=True)
    made = next(line for line in exe.report()["plan"].splitlines() if "native_call %" in line)
    assert made.endswith(f": f32[{rows if access == 'whole' else block}, 6]")


@pytest.mark.parametrize(("access", "batch"), [("elements", "N"), ("rows", "N"), ("whole", "")])
def test_requests_are_joined_where_the_access_says_that_rows_are_independent(
    access: str, batch: str, tmp_path: Path
) -> None:
    exe = onnxc.compile(
        model("g (float[N, 6] x) => (float[N, 6] y) { y = my.ops.Doubled (x) }"), operators=[doubled(access)]
    )
    exe.save(tmp_path / "a.onnxc")
    assert read_artifact(tmp_path / "a.onnxc").provenance.get("independent_batch", "") == batch
